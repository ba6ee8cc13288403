"""A commit was read back: where it changed what readers see, its partition is parked."""

from __future__ import annotations

from firnline_domain.progress import distrusted
from firnline_domain.results import RowsCompared
from firnline_domain.thresholds import Thresholds
from firnline_domain.values import replace

from firnline_planner.looking import look_at
from firnline_planner.state import State
from firnline_planner.step import Step
from firnline_planner.visit import visit_of


def on_comparison(
    event: RowsCompared, state: State, defaults: Thresholds, now_ms: int, step: Step
) -> None:
    """Parked until a person has looked: `firnline undo`, then `firnline unpark`."""
    table = state.table(event.table.uuid, event.ref)
    if table is None or event.outcome != "differ":
        return
    visit = visit_of(state, table, defaults, now_ms, step)
    partition = visit.partition(table, event.scope)
    work = distrusted(partition.work, now_ms)
    if work != partition.work:
        step.outcomes.append("parked")
        visit.keep(table, replace(partition, work=work))
        look_at(visit, table, [event.scope])
