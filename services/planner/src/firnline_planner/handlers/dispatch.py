"""Record in, records out: all of the planner's behaviour, without a driver."""

from __future__ import annotations

from functools import partial
from typing import Any

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
    RunAction,
    UnparkTable,
)
from firnline_domain.records.results import RowsCompared, TableResult, TaskFailed, TaskRunning

from firnline_planner.handlers.file_changes import on_files_changed
from firnline_planner.handlers.operator_orders import on_partition_order, on_pause, on_run_action
from firnline_planner.handlers.table_scans import on_table_scanned
from firnline_planner.handlers.task_results import (
    on_comparison,
    on_heartbeat,
    on_table_result,
    on_task_result,
)
from firnline_planner.publish.table_state import publish_at
from firnline_planner.reconcile.schedule import Due
from firnline_planner.reconcile.table import reconcile_at
from firnline_planner.state.failing_tables import PUBLISH, RECONCILE
from firnline_planner.state.table_context import TableContext
from firnline_planner.state.table_isolation import TickSteps

FACTS = ("file-changes", "maintenance-events", "operator-orders", "table-scans")
"""Topics whose records are handled here. Those that move tables between buckets: `routing`."""


def on_record(record: Any, context: TableContext) -> None:
    """Handle a fact. Raises PoisonousRecord for one that has no business here."""
    match record:
        case FilesChanged():
            on_files_changed(record, context)
        case RewriteCommitted() | RewriteConflicted() | RewriteSkipped() | TaskFailed():
            on_task_result(record, context)
        case TableResult():
            on_table_result(record, context)
        case TaskRunning():
            on_heartbeat(record, context)
        case UnparkTable() | HoldPartitions():
            on_partition_order(record, context)
        case RunAction():
            on_run_action(record, context)
        case PauseMaintenance() | ResumeMaintenance():
            on_pause(record, context)
        case RowsCompared():
            on_comparison(record, context)
        case TableScanned():
            on_table_scanned(record, context)
        case OutputsSwept():
            pass  # files that are in no snapshot are in no counter
        case MoveTable():
            raise PoisonousRecord("not_assigned", "under the driver `faust` no table moves")
        case _:
            name = type(record).__name__
            raise PoisonousRecord("unexpected_record", f"the planner does not read {name}")


def on_tick(due: Due, steps: TickSteps) -> None:
    """Reconcile and publish the tables whose time has come; one that fails stops no other."""
    for key in due.reconciles:
        steps.run_step(key, RECONCILE, partial(reconcile_at, key=key))
    for key in due.publications:
        steps.run_step(key, PUBLISH, partial(publish_at, key=key))
