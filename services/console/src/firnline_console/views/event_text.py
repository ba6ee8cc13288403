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

from firnline_console.text.amounts import counted, in_bytes, scope_label
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


def _event(
    fact_id: str, at_ms: int, kind: str, table: TableName, text: str, task: str = ""
) -> EventView:
    return EventView(fact_id, at_ms, kind, table.key, table.dotted, text, task, table.catalog_path)


def _committed_to(fact: TableCommitted) -> EventView | None:
    at, table = fact.committed_at_ms, fact.table
    if fact.snapshots:
        last = fact.snapshots[-1]
        task = tasks_of(table, last)
        text = "; ".join(_snapshot_text(snapshot) for snapshot in fact.snapshots)
        return _event(fact.event_id, at, "own" if task else "commit", table, text, task)
    if text := _table_text(fact):
        return _event(fact.event_id, at, "table", table, text)
    return None


def _table_text(fact: TableCommitted) -> str:
    if fact.change is not TableChange.COMMITTED:
        return fact.change.value
    parts = [f"{ref.kind} {ref.ref} {_moved(ref.snapshot_id)}" for ref in fact.refs]
    if fact.expired_snapshots:
        parts.append(f"{counted(fact.expired_snapshots, 'snapshot')} expired")
    if fact.metadata_changed:
        parts.append("schema, properties or layout changed")
    return "; ".join(parts)


def _moved(snapshot_id: int | None) -> str:
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
        f"{sign}{counted(count, noun)}"
        for name, sign, noun in SUMMARY_COUNTS
        if (count := number_in(snapshot.summary, name))
    ]
    added = number_in(snapshot.summary, "added-files-size")
    removed = number_in(snapshot.summary, "removed-files-size")
    if added or removed:
        parts.append(f"{'+' if added >= removed else '−'}{in_bytes(abs(added - removed))}")
    return f"{snapshot.operation}: {', '.join(parts)}" if parts else snapshot.operation


def _counters(fact: FilesChanged) -> EventView | None:
    """Return an event for recounts only: an ordinary delta is in its commit's own event."""
    if fact.kind is not ChangeKind.ABSOLUTE or fact.chunk:
        return None
    text = f"statistics of {fact.ref} read from the table"
    return _event(f"files:{fact.event_id}", fact.observed_at_ms, "counters", fact.table, text)


def _rewrite_ordered(fact: RewriteFiles) -> EventView:
    again = f", attempt {fact.attempt}" if fact.attempt > 1 else ""
    why = label_of(fact.reason, fact.numbers)
    return _ordered(fact, f"{fact.action} {scope_label(fact.scope)}: {why}{again}")


def _expiry_ordered(fact: ExpireSnapshots) -> EventView:
    return _ordered(fact, f"expire old snapshots: {label_of(fact.reason)}")


def _on_table_ordered(fact: TableOrder) -> EventView:
    return _ordered(fact, f"{_named(fact.action)}: {label_of(fact.reason, fact.numbers)}")


def _ordered(fact: RewriteFiles | TableOrder, text: str) -> EventView:
    fact_id = f"order:{fact.task_id}:{fact.attempt}"
    return _event(fact_id, fact.ordered_at_ms, "order", fact.table, text, fact.task_id)


def _running(fact: TaskRunning) -> EventView:
    """Return one event for an attempt, although its heartbeat arrives every minute."""
    text = f"{scope_label(fact.scope)}: running for more than one minute on {fact.worker}"
    fact_id = f"running:{fact.task_id}:{fact.attempt}"
    return _event(fact_id, fact.started_at_ms, "running", fact.table, text, fact.task_id)


def _on_table_ended(fact: TableResult) -> EventView:
    fact_id, at = f"{fact.action}:{fact.task_id}:{fact.finished_at_ms}", fact.finished_at_ms
    if fact.refused_reason:
        text = f"{_named(fact.action)} refused: {label_of(fact.refused_reason)}"
        return _event(fact_id, at, "skipped", fact.table, text, fact.task_id)
    numbers = (f"{_named(name)} {number:,.0f}" for name, number in fact.numbers.items())
    text = f"{_named(fact.action)}: {', '.join(numbers) or 'done'}"
    return _event(fact_id, at, "committed", fact.table, text, fact.task_id)


def _named(code: str) -> str:
    return code.replace("_", " ")


def _rewritten(fact: RewriteCommitted) -> EventView:
    parts = [f"{fact.files_removed:,} → {counted(fact.files_added, 'data file')}"]
    if gone := fact.equality_deletes_removed + fact.position_deletes_removed:
        parts.append(f"{counted(gone, 'delete file')} removed")
    parts.append(f"{in_bytes(fact.bytes_before)} → {in_bytes(fact.bytes_after)}")
    if fact.rows_masked:
        parts.append(f"{counted(fact.rows_masked, 'deleted row')} removed")
    if fact.slice is not None and not fact.slice.is_last:
        parts.append(f"{counted(fact.slice.left_files, 'file')} left for the next task")
    text = f"{scope_label(fact.scope)}: {', '.join(parts)}"
    fact_id, at = f"committed:{fact.task_id}", fact.committed_at_ms
    return _event(fact_id, at, "committed", fact.table, text, fact.task_id)


def _conflicted(fact: RewriteConflicted) -> EventView:
    text = f"{scope_label(fact.scope)}: {label_of(fact.reason.value)}"
    at = fact.conflicted_at_ms
    fact_id = f"conflicted:{fact.task_id}:{at}"
    return _event(fact_id, at, "conflicted", fact.table, text, fact.task_id)


def _skipped(fact: RewriteSkipped) -> EventView:
    text = f"{scope_label(fact.scope)}: {label_of(fact.reason)}"
    fact_id = f"skipped:{fact.task_id}:{fact.at_ms}"
    return _event(fact_id, fact.at_ms, "skipped", fact.table, text, fact.task_id)


def _failed(fact: TaskFailed) -> EventView:
    where = _named(fact.kind) if fact.kind in TABLE_ACTIONS else scope_label(fact.scope)
    text = f"{where}: {label_of(fact.reason)}, attempt {fact.attempt}; {fact.message}"
    fact_id = f"failed:{fact.task_id}:{fact.attempt}"
    return _event(fact_id, fact.failed_at_ms, "failed", fact.table, text, fact.task_id)


def _expired(fact: SnapshotsExpired) -> EventView:
    fact_id, at = f"expired:{fact.task_id}:{fact.finished_at_ms}", fact.finished_at_ms
    if fact.refused_reason:
        text = f"expiry refused: {label_of(fact.refused_reason)}"
        return _event(fact_id, at, "skipped", fact.table, text, fact.task_id)
    if fact.begins_at_ms is not None:
        return _event(fact_id, at, "announced", fact.table, _announced(fact), fact.task_id)
    gone, files = counted(fact.expired, "snapshot"), counted(fact.deleted_files, "file")
    text = f"{gone} expired, {files} deleted, {fact.remaining:,} left"
    also = ", ".join(
        f"{number:,.0f} {name.replace('_', ' ')}" for name, number in fact.numbers.items()
    )
    text = f"{text}; {also}" if also else text
    return _event(fact_id, at, "expired", fact.table, text, fact.task_id)


def _announced(fact: SnapshotsExpired) -> str:
    gone, files = counted(fact.going_snapshots, "snapshot"), counted(fact.going_files, "file")
    begins = datetime.fromtimestamp((fact.begins_at_ms or 0) // 1000, UTC)
    return (
        f"expiry of {gone} ({files}, about {in_bytes(fact.going_bytes)}) begins at "
        f"{begins:%Y-%m-%d %H:%MZ}; firnline.expire.enabled=false stops it, =true begins at once"
    )


def _swept(fact: OutputsSwept) -> EventView:
    text = f"removed {counted(fact.files_removed, 'uncommitted output file')}"
    if left := sum(fact.left.values()):
        text = f"{text}; {counted(left, 'file list')} skipped"
    fact_id = f"swept:{fact.table.key}:{fact.swept_at_ms}"
    return _event(fact_id, fact.swept_at_ms, "swept", fact.table, text)


def _compared(fact: RowsCompared) -> EventView:
    where, fact_id = scope_label(fact.scope), f"compared:{fact.task_id}:{fact.compared_at_ms}"
    if fact.outcome == "differ":
        why = label_of(fact.reason or "")
        text = f"{where}: {why}; firnline undo {fact.task_id[:8]} reverts it"
        return _event(fact_id, fact.compared_at_ms, "failed", fact.table, text, fact.task_id)
    rows = counted(fact.after.rows, "row") if fact.after is not None else ""
    text = f"{where}: {rows} verified, the same as before"
    if fact.outcome == "skipped":
        text = f"{where}: not verified: {label_of(fact.reason or '')}"
    return _event(fact_id, fact.compared_at_ms, "compared", fact.table, text, fact.task_id)


def _unparked(fact: UnparkTable) -> EventView:
    what = "all partitions" if fact.partition is None else fact.partition
    fact_id = f"unpark:{fact.table.key}:{what}:{fact.requested_at_ms}"
    text = f"{fact.requested_by} retries {what}"
    return _event(fact_id, fact.requested_at_ms, "operator", fact.table, text)


def _run(fact: RunAction) -> EventView:
    where = "every partition" if fact.every_partition else fact.partition or "as the policy says"
    fact_id = f"run:{fact.table.key}:{fact.action}:{where}:{fact.requested_at_ms}"
    text = f"{fact.requested_by} requests {label_of(fact.action)}: {where}"
    return _event(fact_id, fact.requested_at_ms, "operator", fact.table, text)


def _held(fact: HoldPartitions) -> EventView:
    where = ", ".join(scope_label(one) for one in fact.scopes)
    fact_id = f"hold:{fact.table.key}:{fact.reason}:{fact.requested_at_ms}"
    text = f"{fact.requested_by} excludes {where}: {label_of(fact.reason)}"
    return _event(fact_id, fact.requested_at_ms, "operator", fact.table, text)


def _moved_table(fact: MoveTable) -> EventView:
    where = "to its default bucket" if fact.bucket is None else f"to bucket {fact.bucket}"
    fact_id = f"move:{fact.table.key}:{fact.bucket}:{fact.requested_at_ms}"
    text = f"{fact.requested_by} moves the table {where}"
    return _event(fact_id, fact.requested_at_ms, "operator", fact.table, text)


def _paused(fact: PauseMaintenance) -> EventView:
    why = f": {fact.reason}" if fact.reason else ""
    return _pause_changed(fact, f"{fact.requested_by} pauses maintenance{why}")


def _resumed(fact: ResumeMaintenance) -> EventView:
    return _pause_changed(fact, f"{fact.requested_by} resumes maintenance")


def _pause_changed(fact: PauseMaintenance | ResumeMaintenance, text: str) -> EventView:
    """Return one event, although the fleet's pause is in every partition."""
    key = fact.table.key if fact.table else ""
    fact_id = f"switch:{key}:{type(fact).__name__}:{fact.requested_at_ms}"
    if fact.table is not None:
        return _event(fact_id, fact.requested_at_ms, "operator", fact.table, text)
    whole = f"{text} (all tables)"
    return EventView(fact_id, fact.requested_at_ms, "operator", "", "", whole)


def _dead(fact: DeadLettered) -> EventView:
    text = f"{service_of(fact)} could not process {fact.topic}/{fact.partition}/{fact.offset}"
    text = f"{text}: {label_of(fact.reason)}"
    return EventView(f"dead:{letter_key(fact)}", fact.at_ms, "dead_letter", "", "", text)


MAKERS: Mapping[type, Any] = {
    TableCommitted: _committed_to,
    FilesChanged: _counters,
    RewriteFiles: _rewrite_ordered,
    TableOrder: _on_table_ordered,
    TaskRunning: _running,
    ExpireSnapshots: _expiry_ordered,
    RewriteCommitted: _rewritten,
    RewriteConflicted: _conflicted,
    RewriteSkipped: _skipped,
    TaskFailed: _failed,
    TableResult: _on_table_ended,
    SnapshotsExpired: _expired,
    OutputsSwept: _swept,
    RowsCompared: _compared,
    UnparkTable: _unparked,
    RunAction: _run,
    HoldPartitions: _held,
    MoveTable: _moved_table,
    PauseMaintenance: _paused,
    ResumeMaintenance: _resumed,
    DeadLettered: _dead,
}
