"""What people order: pauses of a table or of the fleet, and of single partitions."""

from __future__ import annotations

from collections.abc import Iterator

from firnline_domain.counters.work import Partition, Table
from firnline_domain.policy.outcomes import taken_back, unparked
from firnline_domain.records.orders import (
    HoldPartitions,
    PauseMaintenance,
    ResumeMaintenance,
    UnparkTable,
)
from firnline_domain.records.pauses import Pause
from firnline_domain.values import replace

from firnline_planner.reconcile.context import TableContext
from firnline_planner.reconcile.table import reconcile
from firnline_planner.state.bucket_state import BucketState


def on_partition_order(order: UnparkTable | HoldPartitions, context: TableContext) -> None:
    """Change the pauses of the partitions that are meant, and decide about these anew. An order
    for a table that is not known here, or that changes nothing, does nothing."""
    table = context.state.table(order.table.key, order.ref)
    if table is None:
        return
    context = context.for_table(table)
    changed = list(_changed(context, table, order))
    for partition in changed:
        context.put_partition(table, partition)
    if changed:
        reconcile(context, table, [partition.counters.scope for partition in changed])


def _changed(
    context: TableContext, table: Table, order: UnparkTable | HoldPartitions
) -> Iterator[Partition]:
    if isinstance(order, HoldPartitions):
        for scope in order.scopes:
            partition = context.partition(table, scope)
            yield replace(partition, work=taken_back(partition.work, order.until_ms))
        return
    for partition in context.partitions(table):
        work = unparked(partition.work)
        meant = order.partition in (None, partition.counters.scope.partition)
        if meant and work != partition.work:
            yield replace(partition, work=work)


def on_pause(order: PauseMaintenance | ResumeMaintenance, context: TableContext) -> None:
    """Keep the pause, also for tables that are not known yet, and publish it with those that are.

    What is wanted meanwhile is not remembered: a resume decides about every partition.
    """
    context.state.put_pause(order.table.key if order.table else None, _pause(order))
    for table in list(_tables_of(order, context.state)):
        if isinstance(order, ResumeMaintenance):
            table = replace(table, work=table.work.reconciled_by(context.now_ms))
        reconcile(context.for_table(table), table, ())


def _pause(order: PauseMaintenance | ResumeMaintenance) -> Pause | None:
    if isinstance(order, ResumeMaintenance):
        return None
    return Pause(order.requested_at_ms, order.requested_by, order.reason)


def _tables_of(order: PauseMaintenance | ResumeMaintenance, state: BucketState) -> Iterator[Table]:
    for _, table in state.tables():
        if order.table is None or table.counters.table.key == order.table.key:
            yield table
