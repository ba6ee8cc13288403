"""What people order: pauses that end now, or last longer."""

from __future__ import annotations

from collections.abc import Iterator

from firnline_domain.commands import HoldPartitions, UnparkTable
from firnline_domain.progress import Partition, Table, held, unparked
from firnline_domain.thresholds import Thresholds
from firnline_domain.values import replace

from firnline_planner.looking import look_at
from firnline_planner.state import State
from firnline_planner.step import Step
from firnline_planner.visit import Visit, visit_of


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
