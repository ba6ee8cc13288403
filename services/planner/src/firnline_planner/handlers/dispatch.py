"""Record in, records out: all of the planner's behaviour, without a driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from firnline_domain.counters.work import Table
from firnline_domain.errors import PoisonousRecord
from firnline_domain.records.events import (
    FilesChanged,
    OutputsSwept,
    RewriteCommitted,
    RewriteConflicted,
    RewriteSkipped,
    TableScanned,
)
from firnline_domain.records.orders import (
    HoldPartitions,
    MoveTable,
    PauseMaintenance,
    ResumeMaintenance,
    UnparkTable,
)
from firnline_domain.records.results import RowsCompared, SnapshotsExpired, TaskFailed
from firnline_domain.settings.thresholds import Thresholds

from firnline_planner.effects import Step
from firnline_planner.handlers.file_changes import on_files_changed
from firnline_planner.handlers.operator_orders import on_operator_order, on_switch
from firnline_planner.handlers.table_scans import on_table_scanned
from firnline_planner.handlers.task_results import on_comparison, on_outcome
from firnline_planner.reconcile.context import visit_of
from firnline_planner.reconcile.publishing import show_or_forget
from firnline_planner.reconcile.schedule import Due
from firnline_planner.reconcile.table import look_at
from firnline_planner.state.bucket_state import State


def on_record(record: Any, state: State, defaults: Thresholds, now_ms: int) -> Step:
    """Handle a fact. Raises PoisonousRecord for one that has no business here."""
    step = Step()
    match record:
        case FilesChanged():
            on_files_changed(record, state, defaults, now_ms, step)
        case (
            RewriteCommitted()
            | RewriteConflicted()
            | RewriteSkipped()
            | TaskFailed()
            | SnapshotsExpired()
        ):
            on_outcome(record, state, defaults, now_ms, step)
        case UnparkTable() | HoldPartitions():
            on_operator_order(record, state, defaults, now_ms, step)
        case PauseMaintenance() | ResumeMaintenance():
            on_switch(record, state, defaults, now_ms, step)
        case RowsCompared():
            on_comparison(record, state, defaults, now_ms, step)
        case TableScanned():
            on_table_scanned(record, state, defaults, now_ms)
        case OutputsSwept():
            pass  # files that are in no snapshot are in no counter
        case MoveTable():
            raise PoisonousRecord("not_assigned", "with FIRNLINE_ASSIGN=hash no table moves")
        case _:
            name = type(record).__name__
            raise PoisonousRecord("unexpected_record", f"the planner does not read {name}")
    return step


def on_tick(due: Due, state: State, defaults: Thresholds, now_ms: int) -> Step:
    """Time has come for these tables."""
    step = Step()
    for table in _tables(due.looks, state):
        look_at(visit_of(state, table, defaults, now_ms, step), table, ())
    for table in _tables(due.shows, state):
        show_or_forget(visit_of(state, table, defaults, now_ms, step), table)
    return step


def _tables(keys: Iterable[bytes], state: State) -> Iterator[Table]:
    return (table for key in keys if (table := state.table_at(key)) is not None)
