"""The heavy lane's memory: what outcomes show of it, and what is wished for (`memory_tuning`)."""

from __future__ import annotations

from firnline_domain.lanes import Lane, lane_told
from firnline_domain.memory_tuning import MemoryTuning
from firnline_domain.progress import OUT_OF_MEMORY, RunningTask
from firnline_domain.results import TaskFailed
from firnline_domain.values import replace

from firnline_planner.state import State
from firnline_planner.step import WORKER_DIRECTIVES, Output, Step


def noting_failure(state: State, task: RunningTask, event: TaskFailed, now_ms: int) -> None:
    """An order's worker gave it up. Other reasons than its memory say nothing here."""
    if event.reason == OUT_OF_MEMORY and _is_heavy(task):
        after = state.share.memory.after_oom(event.memory, _name(task), task.ordered_at_ms, now_ms)
        _keep(state, after)


def noting_success(state: State, task: RunningTask, now_ms: int) -> None:
    """An order's worker came to its result, whatever becomes of that."""
    if task.committed_at_ms is None and _is_heavy(task):
        _keep(state, state.share.memory.after_success(_name(task), task.ordered_at_ms, now_ms))


def size_workers(bucket: int, state: State, now_ms: int, step: Step) -> None:
    """On a tick, which alone knows its bucket: tell what is not told yet."""
    tuning = state.share.memory.after_time(now_ms)
    if tuning.untold(now_ms):
        directive = tuning.directive(bucket, now_ms)
        step.send([Output(WORKER_DIRECTIVES, f"{directive.lane}/{bucket}", directive)])
        _keep(state, tuning.saying(now_ms))


def _is_heavy(task: RunningTask) -> bool:
    return lane_told(task.numbers) is Lane.HEAVY


def _name(task: RunningTask) -> str:
    return f"{task.task_id}/{task.attempt}"


def _keep(state: State, memory: MemoryTuning) -> None:
    if memory != state.share.memory:
        state.put_share(replace(state.share, memory=memory))
