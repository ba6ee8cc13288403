"""What people order: pauses that end now, or last longer."""

from __future__ import annotations

from collections.abc import Iterator

from firnline_domain.counters.work import Partition, Table
from firnline_domain.policy.outcomes import held, unparked
from firnline_domain.records.orders import (
    HoldPartitions,
    PauseMaintenance,
    ResumeMaintenance,
    UnparkTable,
)
from firnline_domain.records.pauses import Pause
from firnline_domain.settings.thresholds import Thresholds
from firnline_domain.values import replace

from firnline_planner.effects import Step
from firnline_planner.reconcile.context import Visit, visit_of
from firnline_planner.reconcile.table import look_at
from firnline_planner.state.bucket_state import State


def on_operator_order(
    order: UnparkTable | HoldPartitions,
    state: State,
    defaults: Thresholds,
    now_ms: int,
    step: Step,
) -> None:
    """Change the pauses of the partitions that are meant, and decide about these anew. An order
    for a table that is not known here, or that changes nothing, does nothing."""
    table = state.table(order.table.uuid, order.ref)
    if table is None:
        return
    visit = visit_of(state, table, defaults, now_ms, step)
    changed = list(_changed(visit, table, order))
    for partition in changed:
        visit.keep(table, partition)
    if changed:
        look_at(visit, table, [partition.counters.scope for partition in changed])


def _changed(
    visit: Visit, table: Table, order: UnparkTable | HoldPartitions
) -> Iterator[Partition]:
    if isinstance(order, HoldPartitions):
        for scope in order.scopes:
            partition = visit.partition(table, scope)
            yield replace(partition, work=held(partition.work, order.until_ms))
        return
    for partition in visit.all_partitions(table):
        work = unparked(partition.work)
        meant = order.partition in (None, partition.counters.scope.partition)
        if meant and work != partition.work:
            yield replace(partition, work=work)


def on_switch(
    order: PauseMaintenance | ResumeMaintenance,
    state: State,
    defaults: Thresholds,
    now_ms: int,
    step: Step,
) -> None:
    """Keep the switch, also for tables that are not known yet, and show it with those that are.

    What is wanted meanwhile is not remembered: after a resume every partition is looked at.
    """
    state.switches.put(order.table.uuid if order.table else None, _pause(order))
    for table in list(_meant(order, state)):
        if isinstance(order, ResumeMaintenance):
            table = replace(table, work=table.work.looking(now_ms))
        look_at(visit_of(state, table, defaults, now_ms, step), table, ())


def _pause(order: PauseMaintenance | ResumeMaintenance) -> Pause | None:
    if isinstance(order, ResumeMaintenance):
        return None
    return Pause(order.requested_at_ms, order.requested_by, order.reason)


def _meant(order: PauseMaintenance | ResumeMaintenance, state: State) -> Iterator[Table]:
    for _, table in state.tables():
        if order.table is None or table.counters.table.uuid == order.table.uuid:
            yield table
