"""Views as JSON values. 64-bit ids are texts: a browser's numbers end at 2^53."""

from __future__ import annotations

from typing import Any

from firnline_domain.base.values import to_plain
from firnline_domain.policy.table_action.snapshot_retention import EXPIRE
from firnline_domain.records.parts.tallies import FileTally
from firnline_domain.records.pauses import TableHold

from firnline_console.read_model.port import Numbered
from firnline_console.text.amounts import scope_label
from firnline_console.text.labels import label_of
from firnline_console.views.catalogs import place_json
from firnline_console.views.dead_letters import DeadLetterView
from firnline_console.views.pauses import PauseView
from firnline_console.views.tables import LastCommit, TableView
from firnline_console.views.tasks import AttemptOutcome, Order, TaskStatus, TaskView


def id_text(number: int | None) -> str | None:
    """Return a snapshot id as text."""
    return None if number is None else str(number)


def holds_json(holds: FileTally) -> dict[str, int]:
    """Return the counters in one flat object."""
    deletes = holds.equality_deletes + holds.position_deletes + holds.deletion_vectors
    return {
        "data_files": holds.all_data.files,
        "data_bytes": holds.all_data.bytes,
        "records": holds.all_data.records,
        "fragments": holds.fragments.files,
        "undersized": holds.undersized.files,
        "on_target": holds.on_target.files,
        "oversized": holds.oversized.files,
        "equality_deletes": holds.equality_deletes.files,
        "position_deletes": holds.position_deletes.files,
        "deletion_vectors": holds.deletion_vectors.files,
        "delete_files": holds.delete_files,
        "delete_records": deletes.records,
        "delete_bytes": deletes.bytes,
    }


def table_json(view: TableView) -> dict[str, Any]:
    """Return one row of the list of tables; counters are null until the planner has counted."""
    return {
        **place_json(view.table),
        "dropped": view.is_dropped,
        "counted": view.summary is not None,
        "last_change_ms": view.last_change_ms or None,
        "last_commit": _commit_json(view.last_commit),
        "last_write": _commit_json(view.last_write),
        "status": to_plain(view.status),
        **_summary_json(view),
    }


def _commit_json(commit: LastCommit | None) -> dict[str, Any] | None:
    if commit is None:
        return None
    return {**to_plain(commit), "snapshot_id": id_text(commit.snapshot_id)}


def _summary_json(view: TableView) -> dict[str, Any]:
    if view.summary is None:
        return {}
    summary = view.summary
    return {
        "ref": summary.ref,
        "head_snapshot_id": id_text(summary.head_snapshot_id),
        "sequence_number": summary.sequence_number,
        "format_version": summary.format_version,
        "epoch": summary.epoch,
        "ordinal": summary.ordinal,
        "partitions": summary.partition_count,
        "statuses": summary.statuses,
        "snapshots": summary.snapshot_count,
        "oldest_snapshot_ms": summary.oldest_snapshot_ms,
        "metadata_bytes": summary.metadata_bytes,
        "waiting_for_resync": summary.waiting_for_resync,
        "updated_at_ms": summary.updated_at_ms,
        "debt_files": summary.debt_files,
        "hold": hold_json(summary.hold),
        "advice": len(summary.advised),
        **holds_json(summary.holds),
    }


def hold_json(hold: TableHold | None) -> dict[str, Any] | None:
    """Return what delays all tasks of a table."""
    return None if hold is None else {**to_plain(hold), "words": label_of(hold.reason)}


def task_json(view: TaskView, now_ms: int) -> dict[str, Any]:
    """Return a task, its order and its outcome; `outcomes` is the whole history."""
    last = view.last_outcome
    return {
        "task_id": view.task_id,
        "kind": view.kind,
        **place_json(view.table),
        "ref": view.ref,
        "partition": view.scope.partition if view.scope else None,
        "label": "snapshots" if view.kind == EXPIRE else scope_label(view.scope),
        "status": status_of(view, now_ms),
        "changed_at_ms": view.changed_at_ms,
        "order": _order_json(view.order) if view.order else None,
        "run": to_plain(view.run) if view.run else None,
        "outcome": _outcome_json(last) if last else None,
        "outcomes": [_outcome_json(one) for one in view.outcomes],
    }


# What `status_of` returns.
TASK_STATUSES = (
    "running",
    "overdue",
    *(one for one in TaskStatus if one is not TaskStatus.ORDERED),
)


def status_of(view: TaskView, now_ms: int) -> str:
    """Return a task's status, an open one's by its deadline."""
    if view.status is not TaskStatus.ORDERED or view.order is None:
        return view.status.value
    return "overdue" if view.order.deadline_ms < now_ms else "running"


def _order_json(order: Order) -> dict[str, Any]:
    return {
        **to_plain(order),
        "trigger_snapshot_id": id_text(order.trigger_snapshot_id),
        "words": label_of(order.reason, order.numbers),
    }


def _outcome_json(outcome: AttemptOutcome) -> dict[str, Any]:
    words = label_of(outcome.reason) if outcome.reason else ""
    ids = [str(one) for one in outcome.snapshot_ids]
    more = {"status": outcome.status.value, "words": words, "snapshot_ids": ids}
    return {**to_plain(outcome), **more}


def event_json(event: Numbered) -> dict[str, Any]:
    """Return an event with its number, the cursor for `after`."""
    return {"number": event.number, **to_plain(event.event)}


def pause_json(view: PauseView) -> dict[str, Any]:
    """Return a pause in force; `table` is empty for the deployment's."""
    return {
        "table": view.table,
        "catalog": view.catalog,
        "since_ms": view.at_ms,
        "by": view.by,
        "reason": view.reason,
    }


def dead_letter_json(view: DeadLetterView) -> dict[str, Any]:
    """Return a dead letter with the words for its reason."""
    return {**to_plain(view), "words": label_of(view.reason)}
