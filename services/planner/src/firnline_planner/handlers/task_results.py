"""What became of orders, as the committer tells it on `maintenance-events`."""

from __future__ import annotations

from firnline_domain.counters.work import ExpiryWork, RunningTask, Table
from firnline_domain.identity import MAIN
from firnline_domain.policy.costs import FIRNLINE, Work
from firnline_domain.policy.expiry import ExpiryReason, expiry_announced, expiry_ended
from firnline_domain.policy.outcomes import distrusted
from firnline_domain.records.events import (
    ConflictReason,
    RewriteCommitted,
    RewriteConflicted,
    RewriteSkipped,
)
from firnline_domain.records.results import (
    ALREADY_COMMITTED,
    Mode,
    RowsCompared,
    SnapshotsExpired,
    TaskFailed,
)
from firnline_domain.settings.thresholds import Thresholds
from firnline_domain.values import replace

from firnline_planner.effects import Step
from firnline_planner.handlers.file_changes import finish, is_in_counters
from firnline_planner.reconcile.advice import noting_duplicate, noting_result
from firnline_planner.reconcile.context import Visit, visit_of
from firnline_planner.reconcile.table import end_failed, look_at
from firnline_planner.reconcile.worker_memory import noting_failure, noting_success
from firnline_planner.state.bucket_state import State

Outcome = RewriteCommitted | RewriteConflicted | RewriteSkipped | TaskFailed | SnapshotsExpired
# Planning again changes nothing.
HOPELESS = (
    ConflictReason.PROOF_FAILED,
    ConflictReason.REJECTED,
    ConflictReason.DUPLICATE_FILES,
    ConflictReason.FOREIGN_OUTPUTS,
)


def on_outcome(event: Outcome, state: State, defaults: Thresholds, now_ms: int, step: Step) -> None:
    """Free the partition (or the table's expiry), with a pause where it is due."""
    ref = MAIN if isinstance(event, SnapshotsExpired) else event.ref
    table = state.table(event.table.uuid, ref)
    if table is None or (isinstance(event, TaskFailed) and event.kind == "comparison"):
        return
    visit = visit_of(state, table, defaults, now_ms, step)
    if isinstance(event, SnapshotsExpired):
        after = _expired(visit, table, event)
    elif isinstance(event, TaskFailed) and event.kind == "expiry":
        after = _expiry_failed(visit, table, event)
    else:
        counted = noting_duplicate(_counted(visit, table, event), event)
        after = _rewrite_ended(visit, counted, event)
    if after != table:
        look_at(visit, after, [task.scope for task in table.work.running])


def _counted(visit: Visit, table: Table, event: Outcome) -> Table:
    """Our commits count, also those of orders that were given up for lost."""
    if isinstance(event, RewriteCommitted | RewriteConflicted) and table.work.task(event.task_id):
        table = noting_result(table, event, visit.now_ms)
    if not isinstance(event, RewriteCommitted):
        return table
    _learn(visit, event)
    at_ms = min(event.committed_at_ms, visit.now_ms)
    pace = table.work.pace.after(event.snapshot_ids, visit.limits.max_commits, at_ms)
    return replace(table, work=replace(table.work, pace=pace))


def _rewrite_ended(
    visit: Visit,
    table: Table,
    event: RewriteCommitted | RewriteConflicted | RewriteSkipped | TaskFailed,
) -> Table:
    task = table.work.task(event.task_id)
    if task is None:
        return table  # told twice, or after its deadline
    match event:
        case RewriteCommitted():
            return _committed(visit, table, task, event)
        case RewriteSkipped():
            return finish(visit, table, task)
        case RewriteConflicted():
            noting_success(visit, task)
            retryable = event.reason not in HOPELESS
            return _failed(visit, table, task, event.reason, retryable)
        case TaskFailed(reason=reason) if reason == ALREADY_COMMITTED:
            return table  # the committer says what it came to
        case TaskFailed():
            noting_failure(visit, task, event)
            return _failed(visit, table, task, event.reason, event.retryable)


def _committed(visit: Visit, table: Table, task: RunningTask, event: RewriteCommitted) -> Table:
    """In flight until the counters contain the commit (DESIGN rule 6)."""
    noting_success(visit, task)
    told = replace(
        task,
        committed_snapshot_ids=event.snapshot_ids,
        committed_at_ms=event.committed_at_ms,
    )
    if is_in_counters(table.counters, told):
        return finish(visit, table, task)
    running = tuple(told if one is task else one for one in table.work.running)
    return replace(table, work=replace(table.work, running=running))


def _learn(visit: Visit, event: RewriteCommitted) -> None:
    """What a rewrite takes here. One of Iceberg's own action is another engine's."""
    if event.mode != Mode.NATIVE or event.redelivered or event.worked_ms is None:
        return
    share = visit.state.share
    work = Work(event.bytes_before, event.bytes_after, event.rows_masked)
    foretold_s = share.cost_factor * FIRNLINE.wall_s(work)
    visit.state.put_share(share.after_rewrite(foretold_s, event.worked_ms / 1000))


def _failed(visit: Visit, table: Table, task: RunningTask, reason: str, retryable: bool) -> Table:
    visit.step.outcomes.append("failed" if retryable else "failed_for_good")
    return end_failed(visit, table, task, reason, retryable)


def _expired(visit: Visit, table: Table, event: SnapshotsExpired) -> Table:
    """The worker has seen the table's snapshots: its numbers replace our bounds."""
    refused = event.refused_reason or ""
    counters, work = table.counters, table.work
    if not refused:
        counters = replace(
            counters,
            snapshot_count=event.remaining,
            oldest_snapshot_ms=event.oldest_snapshot_ms,
        )
    if refused == ExpiryReason.FOREIGN_FILES:
        counters = replace(counters, foreign=True)
    if work.expiry.task_id == event.task_id:
        work = replace(work, expiry=_ended(visit, work.expiry, event, refused))
    return replace(table, counters=counters, work=work)


def _ended(visit: Visit, expiry: ExpiryWork, event: SnapshotsExpired, refused: str) -> ExpiryWork:
    if event.begins_at_ms is not None and not refused:
        visit.step.outcomes.append("expiry_announced")
        return expiry_announced(expiry, event, visit.now_ms)
    visit.step.outcomes.append("expired" if not refused else "expiry_refused")
    return expiry_ended(expiry, event.expired, refused, visit.now_ms)


def _expiry_failed(visit: Visit, table: Table, event: TaskFailed) -> Table:
    if table.work.expiry.task_id != event.task_id:
        return table
    visit.step.outcomes.append("expiry_failed")
    ended = expiry_ended(table.work.expiry, 0, event.reason, visit.now_ms)
    return replace(table, work=replace(table.work, expiry=ended))


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
