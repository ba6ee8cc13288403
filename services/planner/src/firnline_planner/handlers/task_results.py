"""Task results, as workers and the committer report them on `maintenance-events`."""

from __future__ import annotations

from firnline_domain.base.values import replace
from firnline_domain.counters.state.work import RunningTask, Table
from firnline_domain.errors import PoisonousRecord
from firnline_domain.identity import MAIN, Scope
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.cost.dollars import pace_after
from firnline_domain.policy.cost_model import Work, learned_key_share
from firnline_domain.policy.partition.deadlines import (
    after_commit,
    after_heartbeat,
    awaiting_counters,
)
from firnline_domain.policy.partition.outcomes import (
    after_late_report,
    committed_late,
    rows_differed,
)
from firnline_domain.policy.table_action.base import TableAction
from firnline_domain.policy.table_action.registry import TABLE_ACTIONS
from firnline_domain.policy.triggers.objectives import turnaround_after
from firnline_domain.records.events import RewriteCommitted, RewriteConflicted, RewriteSkipped
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import (
    ALREADY_COMMITTED,
    Mode,
    RowsCompared,
    TableResult,
    TaskFailed,
    TaskRunning,
)

from firnline_planner.publish.advice import with_duplicate, with_result
from firnline_planner.reconcile.table import reconcile
from firnline_planner.reconcile.tasks import end_failed, finish_task, is_in_counters
from firnline_planner.reconcile.worker_memory import note_failure, note_pressure, note_success
from firnline_planner.state.table_context import TableContext

TaskResult = RewriteCommitted | RewriteConflicted | RewriteSkipped | TaskFailed
# Planning again changes nothing.
NON_RETRYABLE = (
    ConflictReason.PROOF_FAILED,
    ConflictReason.REJECTED,
    ConflictReason.DUPLICATE_FILES,
    ConflictReason.INVALID_OUTPUTS,
    ConflictReason.FORMAT_VERSION_4,
)


def on_task_result(event: TaskResult, context: TableContext) -> None:
    """Free the partition, or the table's action, with a pause where it is due."""
    table = context.state.table(event.table.key, event.ref)
    if table is None or (isinstance(event, TaskFailed) and event.kind == "comparison"):
        return
    context = context.for_table(table)
    if isinstance(event, TaskFailed) and (action := TABLE_ACTIONS.get(event.kind)):
        after, word = action.after_failure(table, event.task_id, event.reason, context.now_ms)
        _keep_outcome(context, table, after, word)
        return
    counted = with_duplicate(_count_commit(context, table, event), event)
    after = _apply_rewrite_end(context, counted, event)
    late = _note_late(context, table, event)
    late_scopes = [late] if late else _apply_late_report(context, table, event)
    if after != table or late_scopes:
        reconcile(context, after, [*(task.scope for task in table.work.running), *late_scopes])


def on_table_result(event: TableResult, context: TableContext) -> None:
    """Apply the result of an action on the whole table. Raises PoisonousRecord if the action is
    unknown."""
    if (action := TABLE_ACTIONS.get(event.action)) is None:
        raise PoisonousRecord("unknown_action", event.action)
    table = context.state.table(event.table.key, MAIN)
    if table is None:
        return
    context = context.for_table(table)
    _learn_pace(context, table, action, event)
    _keep_outcome(context, table, *action.after_result(table, event, context.now_ms))


def _learn_pace(
    context: TableContext, table: Table, action: TableAction, event: TableResult
) -> None:
    """Learn from the result of the running task, if it was carried out. A duplicate record and a
    task that ended without work do not show how long the action takes."""
    if event.refusal or event.worked_ms is None or event.expected_s is None:
        return
    if action.work_of(table).task_id != event.task_id:
        return
    pace = pace_after(context.costs.action_factor(action.name), event.expected_s, event.worked_ms)
    context.state.put_share(context.state.share.with_action(action.name, pace))


def _keep_outcome(context: TableContext, table: Table, after: Table, outcome: str = "") -> None:
    if outcome:
        context.effects.outcomes.append(outcome)
    if after != table:
        reconcile(context, after, [task.scope for task in table.work.running])


def _count_commit(context: TableContext, table: Table, event: TaskResult) -> Table:
    """Return the table with Firnline's commit counted, also of tasks that were given up as lost."""
    if isinstance(event, RewriteCommitted | RewriteConflicted) and table.work.find_task(
        event.task_id
    ):
        table = with_result(table, event, context.now_ms)
    if not isinstance(event, RewriteCommitted):
        return table
    table = _with_prices(context, table, event)
    at_ms = min(event.committed_at_ms, context.now_ms)
    pace = table.work.commit_rate.with_commits(
        event.snapshot_ids, context.settings.max_commits, at_ms
    )
    return replace(table, work=replace(table.work, commit_rate=pace))


def _apply_rewrite_end(
    context: TableContext,
    table: Table,
    event: RewriteCommitted | RewriteConflicted | RewriteSkipped | TaskFailed,
) -> Table:
    """Apply the end of a rewrite to its running task; return the table unchanged if the task is
    unknown, or the event is of an earlier attempt."""
    task = table.work.find_task(event.task_id)
    if task is None:
        return table  # reported twice, or after its deadline
    match event:
        case RewriteCommitted():
            return _apply_commit(context, table, task, event)
        case RewriteSkipped():
            return finish_task(context, table, replace(task, dead_rows=event.dead_rows))
        case RewriteConflicted():
            note_success(context, task)
            retryable = event.reason not in NON_RETRYABLE
            return _apply_failure(context, table, task, event.reason, retryable)
        case TaskFailed(reason=reason) if reason == ALREADY_COMMITTED:
            waiting = awaiting_counters(task, context.settings, context.now_ms)
            return _with_task(table, task, waiting)  # the committer says what it came to
        case TaskFailed() if event.attempt != task.attempt:
            return table  # of an order that was given up; the same task was ordered again since
        case TaskFailed():
            note_failure(context, task, event)
            return _apply_failure(context, table, task, event.reason, event.retryable)


def _note_late(context: TableContext, table: Table, event: TaskResult) -> Scope | None:
    """Note the success of a task that counted as lost, and return its partition if that changes
    anything: its failures are over."""
    if not isinstance(event, RewriteCommitted | RewriteSkipped) or event.scope is None:
        return None
    if table.work.find_task(event.task_id) is not None:
        return None
    partition = context.partition(table, event.scope)
    work = committed_late(partition.work, event.task_id, context.settings, context.now_ms)
    if work == partition.work:
        return None
    context.effects.outcomes.append("finished_late")
    context.put_partition(table, replace(partition, work=work))
    return event.scope


def _apply_commit(
    context: TableContext, table: Table, task: RunningTask, event: RewriteCommitted
) -> Table:
    note_success(context, task)
    took_ms = max(min(event.committed_at_ms, context.now_ms) - task.ordered_at_ms, 0)
    turnaround_ms = turnaround_after(table.work.service.turnaround_ms, took_ms)
    service = replace(table.work.service, turnaround_ms=turnaround_ms)
    table = replace(table, work=replace(table.work, service=service))
    known = context.partition(table, task.scope).work.dead_rows
    left = known if event.groups_lost else event.dead_rows
    done = replace(task, dead_rows=left)
    reported = after_commit(done, event, context.settings, context.now_ms)
    if is_in_counters(table.counters, reported):
        return finish_task(context, table, done, event.slice)
    return _with_task(table, task, reported)


def _with_task(table: Table, task: RunningTask, after: RunningTask) -> Table:
    running = tuple(after if one is task else one for one in table.work.running)
    return replace(table, work=replace(table.work, running=running))


def _apply_late_report(context: TableContext, table: Table, event: TaskResult) -> list[Scope]:
    """Note the report of a commit that was in the counters before it, and return the partition
    whose pass continues now; none if nothing changes. If another task of the partition is running,
    that is a new pass, and the report changes nothing."""
    if not isinstance(event, RewriteCommitted) or event.scope is None:
        return []
    if table.work.task_of(event.scope) is not None:
        return []
    partition = context.partition(table, event.scope)
    work = after_late_report(partition.work, event.task_id, event.slice, event.dead_rows)
    if work == partition.work:
        return []
    context.put_partition(table, replace(partition, work=work))
    return [event.scope]


def _with_prices(context: TableContext, table: Table, event: RewriteCommitted) -> Table:
    """Learn what tasks take here, each by what it has read. One of Iceberg's own action is another
    engine's."""
    if event.mode != Mode.NATIVE or event.redelivered or event.worked_ms is None:
        return table
    task, share = table.work.find_task(event.task_id), context.state.share
    group = task.group if task else context.settings.served_by
    work = _work_done(context, table, event)
    prices, took_s = share.prices_of(group), event.worked_ms / 1000
    if task is not None and task.action == Action.SORT:
        prices = prices.after_sort(work, took_s)
    else:
        prices = prices.after_task(work, event.key_bytes > 0, took_s)
    context.state.put_share(share.with_prices(group, prices))
    if event.converted_bytes <= 0:
        return table
    keys = learned_key_share(table.work.key_share, event.key_bytes / event.converted_bytes)
    return replace(table, work=replace(table.work, key_share=keys))


def _work_done(context: TableContext, table: Table, event: RewriteCommitted) -> Work:
    """Return the work that a rewrite has done. Converted files are not counted: they are taken to
    be as large as the others."""
    converted = 0.0
    if event.converted_bytes > 0 and event.scope is not None:
        data = context.partition(table, event.scope).counters.holds.all_data
        converted = event.converted_bytes / data.bytes * data.files if data.bytes > 0 else 1.0
    return Work(
        event.bytes_read + event.key_bytes,
        event.bytes_after,
        event.delete_records,
        files=event.files_removed,
        converted=converted,
    )


def _apply_failure(
    context: TableContext, table: Table, task: RunningTask, reason: str, retryable: bool
) -> Table:
    context.effects.outcomes.append("failed" if retryable else "failed_for_good")
    return end_failed(context, table, task, reason, retryable)


def on_heartbeat(event: TaskRunning, context: TableContext) -> None:
    """Note a heartbeat: the task counts as lost only if heartbeats stop."""
    table = context.state.table(event.table.key, event.ref)
    task = table.work.find_task(event.task_id) if table else None
    if table is None or task is None:
        return
    note_pressure(context, task, event)
    after = after_heartbeat(task, event, context.now_ms)
    if after != task:
        context.state.put_table(_with_task(table, task, after))


def on_comparison(event: RowsCompared, context: TableContext) -> None:
    """Suspend a partition whose rows differ after a commit, until an operator acts: `firnline
    undo`, then `firnline unpark`."""
    table = context.state.table(event.table.key, event.ref)
    if table is None or event.outcome != "differ":
        return
    context = context.for_table(table)
    partition = context.partition(table, event.scope)
    work = rows_differed(partition.work, context.now_ms)
    if work != partition.work:
        context.effects.outcomes.append("parked")
        context.put_partition(table, replace(partition, work=work))
        reconcile(context, table, [event.scope])
