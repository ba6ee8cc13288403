"""The switch that people pull: for one table, or for all tables of a bucket."""

from __future__ import annotations

from collections.abc import Iterator

from firnline_domain.commands import PauseMaintenance, ResumeMaintenance
from firnline_domain.holds import Pause
from firnline_domain.progress import Table
from firnline_domain.thresholds import Thresholds
from firnline_domain.values import replace

from firnline_planner.looking import look_at
from firnline_planner.state import State
from firnline_planner.step import Step
from firnline_planner.visit import visit_of


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
