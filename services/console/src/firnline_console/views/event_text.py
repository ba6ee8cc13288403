"""The event list: the text of each fact."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from firnline_domain.base.values import Value
from firnline_domain.identity import TableName
from firnline_domain.policy.table_action.registry import TABLE_ACTIONS
from firnline_domain.records.events import (
    ChangeKind,
    DeadLettered,
    FilesChanged,
    OutputsSwept,
    RewriteCommitted,
    RewriteConflicted,
    RewriteSkipped,
    SnapshotAdded,
    TableChange,
    TableCommitted,
)
from firnline_domain.records.orders import (
    ExpireSnapshots,
    HoldPartitions,
    MoveTable,
    PauseMaintenance,
    ResumeMaintenance,
    RewriteFiles,
    RunAction,
    TableOrder,
    UnparkTable,
)
from firnline_domain.records.parts.summaries import number_in
from firnline_domain.records.results import (
    RowsCompared,
    SnapshotsExpired,
    TableResult,
    TaskFailed,
    TaskRunning,
)

from firnline_console.text.amounts import count_text, in_bytes, scope_label
from firnline_console.text.labels import label_of
from firnline_console.views.dead_letters import letter_key, service_of
from firnline_console.views.tables import tasks_of


class EventView(Value):
    """A line of the live tail. `id` stays the same when the fact comes again."""

    id: str
    at_ms: int
    kind: str  # commit | own | table | counters | order | committed | expired | conflicted | ...
    table_key: str
    table: str
    text: str
    task_id: str = ""
    catalog: str = ""  # the table's, as `TableName.catalog_path`


def event_of(fact: Any) -> EventView | None:
    """Return a fact as an event, by its class or the one above; None if it adds nothing new."""
    maker = next((MAKERS[kind] for kind in type(fact).__mro__ if kind in MAKERS), None)
    return maker(fact) if maker else None


def _make_event(
    fact_id: str, at_ms: int, kind: str, table: TableName, text: str, task: str = ""
) -> EventView:
    return EventView(
        fact_id, at_ms, kind, table.key, table.dotted_name, text, task, table.catalog_path
    )


def _commit_event(fact: TableCommitted) -> EventView | None:
    at, table = fact.committed_at_ms, fact.table
    if fact.snapshots:
        last = fact.snapshots[-1]
        task = tasks_of(table, last)
        text = "; ".join(_snapshot_text(snapshot) for snapshot in fact.snapshots)
        return _make_event(fact.event_id, at, "own" if task else "commit", table, text, task)
    if text := _table_text(fact):
        return _make_event(fact.event_id, at, "table", table, text)
    return None


def _table_text(fact: TableCommitted) -> str:
    if fact.change is not TableChange.COMMITTED:
        return fact.change.value
    parts = [f"{ref.kind} {ref.ref} {_head_text(ref.snapshot_id)}" for ref in fact.refs]
    if fact.expired_snapshots:
        parts.append(f"{count_text(fact.expired_snapshots, 'snapshot')} expired")
    if fact.metadata_changed:
        parts.append("schema, properties or layout changed")
    return "; ".join(parts)


def _head_text(snapshot_id: int | None) -> str:
    return "removed" if snapshot_id is None else f"now at {snapshot_id}"


# Names of Iceberg's snapshot summary (spec, appendix F) and what a person calls them.
SUMMARY_COUNTS = (
    ("added-data-files", "+", "data file"),
    ("deleted-data-files", "−", "data file"),
    ("added-equality-delete-files", "+", "equality-delete file"),
    ("removed-equality-delete-files", "−", "equality-delete file"),
    ("added-position-delete-files", "+", "position-delete file"),
    ("removed-position-delete-files", "−", "position-delete file"),
    ("added-dvs", "+", "deletion vector"),
    ("removed-dvs", "−", "deletion vector"),
)


def _snapshot_text(snapshot: SnapshotAdded) -> str:
    parts = [
        f"{sign}{count_text(count, noun)}"
        for name, sign, noun in SUMMARY_COUNTS
        if (count := number_in(snapshot.summary, name))
    ]
    added = number_in(snapshot.summary, "added-files-size")
    removed = number_in(snapshot.summary, "removed-files-size")
    if added or removed:
        parts.append(f"{'+' if added >= removed else '−'}{in_bytes(abs(added - removed))}")
    return f"{snapshot.operation}: {', '.join(parts)}" if parts else snapshot.operation


def _counters_event(fact: FilesChanged) -> EventView | None:
    """Return an event for recounts only: an ordinary delta is in its commit's own event."""
    if fact.kind is not ChangeKind.ABSOLUTE or fact.chunk:
        return None
    text = f"statistics of {fact.ref} read from the table"
    return _make_event(f"files:{fact.event_id}", fact.observed_at_ms, "counters", fact.table, text)


def _rewrite_order_event(fact: RewriteFiles) -> EventView:
    again = f", attempt {fact.attempt}" if fact.attempt > 1 else ""
    why = label_of(fact.reason, fact.numbers)
    return _make_order_event(fact, f"{fact.action} {scope_label(fact.scope)}: {why}{again}")


def _expiry_order_event(fact: ExpireSnapshots) -> EventView:
    return _make_order_event(fact, f"expire old snapshots: {label_of(fact.reason)}")


def _table_order_event(fact: TableOrder) -> EventView:
    return _make_order_event(
        fact, f"{_code_text(fact.action)}: {label_of(fact.reason, fact.numbers)}"
    )


def _make_order_event(fact: RewriteFiles | TableOrder, text: str) -> EventView:
    fact_id = f"order:{fact.task_id}:{fact.attempt}"
    return _make_event(fact_id, fact.ordered_at_ms, "order", fact.table, text, fact.task_id)


def _heartbeat_event(fact: TaskRunning) -> EventView:
    """Return one event for an attempt, although its heartbeat arrives every minute."""
    text = f"{scope_label(fact.scope)}: running for more than one minute on {fact.worker}"
    fact_id = f"running:{fact.task_id}:{fact.attempt}"
    return _make_event(fact_id, fact.started_at_ms, "running", fact.table, text, fact.task_id)


def _table_result_event(fact: TableResult) -> EventView:
    fact_id, at = f"{fact.action}:{fact.task_id}:{fact.finished_at_ms}", fact.finished_at_ms
    if fact.refused_reason:
        text = f"{_code_text(fact.action)} refused: {label_of(fact.refused_reason)}"
        return _make_event(fact_id, at, "skipped", fact.table, text, fact.task_id)
    numbers = (f"{_code_text(name)} {number:,.0f}" for name, number in fact.numbers.items())
    text = f"{_code_text(fact.action)}: {', '.join(numbers) or 'done'}"
    return _make_event(fact_id, at, "committed", fact.table, text, fact.task_id)


def _code_text(code: str) -> str:
    return code.replace("_", " ")


def _rewrite_event(fact: RewriteCommitted) -> EventView:
    parts = [f"{fact.files_removed:,} → {count_text(fact.files_added, 'data file')}"]
    if gone := fact.equality_deletes_removed + fact.position_deletes_removed:
        parts.append(f"{count_text(gone, 'delete file')} removed")
    parts.append(f"{in_bytes(fact.bytes_before)} → {in_bytes(fact.bytes_after)}")
    if fact.rows_masked:
        parts.append(f"{count_text(fact.rows_masked, 'deleted row')} removed")
    if fact.slice is not None and not fact.slice.is_last:
        parts.append(f"{count_text(fact.slice.left_files, 'file')} left for the next task")
    text = f"{scope_label(fact.scope)}: {', '.join(parts)}"
    fact_id, at = f"committed:{fact.task_id}", fact.committed_at_ms
    return _make_event(fact_id, at, "committed", fact.table, text, fact.task_id)


def _conflict_event(fact: RewriteConflicted) -> EventView:
    text = f"{scope_label(fact.scope)}: {label_of(fact.reason.value)}"
    at = fact.conflicted_at_ms
    fact_id = f"conflicted:{fact.task_id}:{at}"
    return _make_event(fact_id, at, "conflicted", fact.table, text, fact.task_id)


def _skip_event(fact: RewriteSkipped) -> EventView:
    text = f"{scope_label(fact.scope)}: {label_of(fact.reason)}"
    fact_id = f"skipped:{fact.task_id}:{fact.at_ms}"
    return _make_event(fact_id, fact.at_ms, "skipped", fact.table, text, fact.task_id)


def _failure_event(fact: TaskFailed) -> EventView:
    where = _code_text(fact.kind) if fact.kind in TABLE_ACTIONS else scope_label(fact.scope)
    text = f"{where}: {label_of(fact.reason)}, attempt {fact.attempt}; {fact.message}"
    fact_id = f"failed:{fact.task_id}:{fact.attempt}"
    return _make_event(fact_id, fact.failed_at_ms, "failed", fact.table, text, fact.task_id)


def _expiry_event(fact: SnapshotsExpired) -> EventView:
    fact_id, at = f"expired:{fact.task_id}:{fact.finished_at_ms}", fact.finished_at_ms
    if fact.refused_reason:
        text = f"expiry refused: {label_of(fact.refused_reason)}"
        return _make_event(fact_id, at, "skipped", fact.table, text, fact.task_id)
    if fact.begins_at_ms is not None:
        return _make_event(
            fact_id, at, "announced", fact.table, _announcement_text(fact), fact.task_id
        )
    gone, files = count_text(fact.expired, "snapshot"), count_text(fact.deleted_files, "file")
    text = f"{gone} expired, {files} deleted, {fact.remaining:,} left"
    also = ", ".join(
        f"{number:,.0f} {name.replace('_', ' ')}" for name, number in fact.numbers.items()
    )
    text = f"{text}; {also}" if also else text
    return _make_event(fact_id, at, "expired", fact.table, text, fact.task_id)


def _announcement_text(fact: SnapshotsExpired) -> str:
    gone, files = count_text(fact.going_snapshots, "snapshot"), count_text(fact.going_files, "file")
    begins = datetime.fromtimestamp((fact.begins_at_ms or 0) // 1000, UTC)
    return (
        f"expiry of {gone} ({files}, about {in_bytes(fact.going_bytes)}) begins at "
        f"{begins:%Y-%m-%d %H:%MZ}; firnline.expire.enabled=false stops it, =true begins at once"
    )


def _sweep_event(fact: OutputsSwept) -> EventView:
    text = f"removed {count_text(fact.files_removed, 'uncommitted output file')}"
    if left := sum(fact.left.values()):
        text = f"{text}; {count_text(left, 'file list')} skipped"
    fact_id = f"swept:{fact.table.key}:{fact.swept_at_ms}"
    return _make_event(fact_id, fact.swept_at_ms, "swept", fact.table, text)


def _row_check_event(fact: RowsCompared) -> EventView:
    where, fact_id = scope_label(fact.scope), f"compared:{fact.task_id}:{fact.compared_at_ms}"
    if fact.outcome == "differ":
        why = label_of(fact.reason or "")
        text = f"{where}: {why}; firnline undo {fact.task_id[:8]} reverts it"
        return _make_event(fact_id, fact.compared_at_ms, "failed", fact.table, text, fact.task_id)
    rows = count_text(fact.after.rows, "row") if fact.after is not None else ""
    text = f"{where}: {rows} verified, the same as before"
    if fact.outcome == "skipped":
        text = f"{where}: not verified: {label_of(fact.reason or '')}"
    return _make_event(fact_id, fact.compared_at_ms, "compared", fact.table, text, fact.task_id)


def _unpark_event(fact: UnparkTable) -> EventView:
    what = "all partitions" if fact.partition is None else fact.partition
    fact_id = f"unpark:{fact.table.key}:{what}:{fact.requested_at_ms}"
    text = f"{fact.requested_by} retries {what}"
    return _make_event(fact_id, fact.requested_at_ms, "operator", fact.table, text)


def _run_action_event(fact: RunAction) -> EventView:
    where = "every partition" if fact.every_partition else fact.partition or "as the policy says"
    fact_id = f"run:{fact.table.key}:{fact.action}:{where}:{fact.requested_at_ms}"
    text = f"{fact.requested_by} requests {label_of(fact.action)}: {where}"
    return _make_event(fact_id, fact.requested_at_ms, "operator", fact.table, text)


def _hold_event(fact: HoldPartitions) -> EventView:
    where = ", ".join(scope_label(one) for one in fact.scopes)
    fact_id = f"hold:{fact.table.key}:{fact.reason}:{fact.requested_at_ms}"
    text = f"{fact.requested_by} excludes {where}: {label_of(fact.reason)}"
    return _make_event(fact_id, fact.requested_at_ms, "operator", fact.table, text)


def _move_table_event(fact: MoveTable) -> EventView:
    where = "to its default bucket" if fact.bucket is None else f"to bucket {fact.bucket}"
    fact_id = f"move:{fact.table.key}:{fact.bucket}:{fact.requested_at_ms}"
    text = f"{fact.requested_by} moves the table {where}"
    return _make_event(fact_id, fact.requested_at_ms, "operator", fact.table, text)


def _pause_event(fact: PauseMaintenance) -> EventView:
    why = f": {fact.reason}" if fact.reason else ""
    return _make_pause_event(fact, f"{fact.requested_by} pauses maintenance{why}")


def _resume_event(fact: ResumeMaintenance) -> EventView:
    return _make_pause_event(fact, f"{fact.requested_by} resumes maintenance")


def _make_pause_event(fact: PauseMaintenance | ResumeMaintenance, text: str) -> EventView:
    """Return one event, although the deployment's pause is in every partition."""
    key = fact.table.key if fact.table else ""
    fact_id = f"switch:{key}:{type(fact).__name__}:{fact.requested_at_ms}"
    if fact.table is not None:
        return _make_event(fact_id, fact.requested_at_ms, "operator", fact.table, text)
    whole = f"{text} (all tables)"
    return EventView(fact_id, fact.requested_at_ms, "operator", "", "", whole)


def _dead_letter_event(fact: DeadLettered) -> EventView:
    text = f"{service_of(fact)} could not process {fact.topic}/{fact.partition}/{fact.offset}"
    text = f"{text}: {label_of(fact.reason)}"
    return EventView(f"dead:{letter_key(fact)}", fact.at_ms, "dead_letter", "", "", text)


MAKERS: Mapping[type, Any] = {
    TableCommitted: _commit_event,
    FilesChanged: _counters_event,
    RewriteFiles: _rewrite_order_event,
    TableOrder: _table_order_event,
    TaskRunning: _heartbeat_event,
    ExpireSnapshots: _expiry_order_event,
    RewriteCommitted: _rewrite_event,
    RewriteConflicted: _conflict_event,
    RewriteSkipped: _skip_event,
    TaskFailed: _failure_event,
    TableResult: _table_result_event,
    SnapshotsExpired: _expiry_event,
    OutputsSwept: _sweep_event,
    RowsCompared: _row_check_event,
    UnparkTable: _unpark_event,
    RunAction: _run_action_event,
    HoldPartitions: _hold_event,
    MoveTable: _move_table_event,
    PauseMaintenance: _pause_event,
    ResumeMaintenance: _resume_event,
    DeadLettered: _dead_letter_event,
}
