"""The heavy lanes' memory: what results say of it, and what workers are to have."""

from __future__ import annotations

from firnline_domain.counters.state.work import RunningTask
from firnline_domain.policy.fleet.lanes import Lane, lane_of_order
from firnline_domain.policy.fleet.worker_memory import TOPIC as WORKER_DIRECTIVES
from firnline_domain.policy.fleet.worker_memory import MemoryTuning
from firnline_domain.records.orders import SizeWorkers
from firnline_domain.records.results import OUT_OF_MEMORY, TaskFailed, TaskRunning
from firnline_domain.settings.groups import DEFAULT

from firnline_planner.state.bucket_state import BucketState
from firnline_planner.state.effects import Output
from firnline_planner.state.table_context import TableContext


def note_failure(context: TableContext, task: RunningTask, event: TaskFailed) -> None:
    """Note a task that failed for lack of memory. Other reasons do not matter here."""
    if event.reason == OUT_OF_MEMORY:
        _note_shortage(context, task, event.memory)


def note_pressure(context: TableContext, task: RunningTask, event: TaskRunning) -> None:
    """Note a task whose worker has nearly exhausted its memory: it counts as one that ran out of
    it, also if it succeeds."""
    if event.memory is not None and event.attempt == task.attempt:
        _note_shortage(context, task, event.memory)


def _note_shortage(context: TableContext, task: RunningTask, memory: str | None) -> None:
    if _is_heavy(task):
        tuning, attempt = context.state.share.memory_of(task.group), _attempt_name(task)
        after = tuning.after_oom(memory, attempt, task.ordered_at_ms, context.now_ms)
        _put_memory(context.state, task.group, after)


def note_success(context: TableContext, task: RunningTask) -> None:
    """Note that a task's worker has sent a result, at any later outcome."""
    if task.committed_at_ms is None and _is_heavy(task):
        memory = context.state.share.memory_of(task.group)
        attempt, at_once = _attempt_name(task), context.fleet.memory_back_at_once
        after = memory.after_success(attempt, task.ordered_at_ms, context.now_ms, at_once)
        _put_memory(context.state, task.group, after)


def size_workers(bucket: int, context: TableContext) -> None:
    """Send directives that were not sent yet. Only a tick has its bucket, so it calls this."""
    state, now_ms = context.state, context.now_ms
    for group in (DEFAULT, *sorted(state.share.memories)):
        memory, at_once = state.share.memory_of(group), context.fleet.memory_back_at_once
        tuning = memory.after_time(now_ms, at_once)
        if tuning.is_unreported(now_ms):
            directive = tuning.to_directive(group, bucket, now_ms)
            context.effects.add_outputs(
                [Output(WORKER_DIRECTIVES, _directive_key(directive), directive)]
            )
            _put_memory(state, group, tuning.as_reported(now_ms))


def _directive_key(directive: SizeWorkers) -> str:
    """Return the key of a directive; that of the default group is as before there were others."""
    key = f"{directive.lane}/{directive.bucket}"
    return key if directive.group == DEFAULT else f"{key}/{directive.group}"


def _is_heavy(task: RunningTask) -> bool:
    """Return True if the task was sent to the heavy queue."""
    return lane_of_order(task.numbers) is Lane.HEAVY


def _attempt_name(task: RunningTask) -> str:
    return f"{task.task_id}/{task.attempt}"


def _put_memory(state: BucketState, group: str, memory: MemoryTuning) -> None:
    if memory != state.share.memory_of(group):
        state.put_share(state.share.with_memory(group, memory))
