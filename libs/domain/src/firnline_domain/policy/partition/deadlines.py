"""Decide when an order counts as lost: not while it waits, nor while its worker reports that it
runs. Pure.

To wait in a queue is nobody's failure: the broker keeps an order for days, and whatever its worker
dies of, the next one reads it again. So the clock that matters begins with the work."""

from __future__ import annotations

from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.work import RunningTask
from firnline_domain.policy.cost_model import FIRNLINE
from firnline_domain.records.events import RewriteCommitted
from firnline_domain.records.results import TaskRunning
from firnline_domain.settings.thresholds import Thresholds

HEARTBEAT_MS = 60_000
# A worker's death is noticed by the broker within seconds, and its order begun anew by another one
# within minutes, unless there is none.
SILENCE_MS = 5 * HEARTBEAT_MS
# An order that nobody has begun by then is ordered again, as its partition is by then. Workers
# refuse it from then on. The committer, too, has a word on every result by then.
QUEUE_MS = 12 * HOUR_MS
TIMES_EXPECTED = 4  # several tasks share a worker's cores, and prices are estimates
MAX_RUN_MS = 12 * HOUR_MS  # a result that took longer is too old to commit (`output_lifetimes`)


def waits_for_worker(task: RunningTask) -> bool:
    """Return True if the task has no sign of a worker since it was sent."""
    untouched = task.deadline_ms == task.ordered_at_ms + QUEUE_MS
    return untouched and task.begun_ms is None and task.committed_at_ms is None


def run_ms(cpu_s: float, limits: Thresholds) -> int:
    """Return how long a task may run that is expected to take that much CPU: at least the table's
    deadline, and else no longer than its result is worth."""
    expected_ms = int(min(cpu_s / FIRNLINE.cores * 1000 * TIMES_EXPECTED, MAX_RUN_MS))
    return max(limits.deadline_ms, expected_ms)


def after_commit(
    task: RunningTask, said: RewriteCommitted, limits: Thresholds, now_ms: int
) -> RunningTask:
    """Keep the task in flight until the counters contain the commit (docs/architecture.md, rule 6),
    which comes by another topic."""
    return replace(
        awaiting_counters(task, limits, now_ms),
        committed_snapshot_ids=said.snapshot_ids,
        committed_at_ms=said.committed_at_ms,
        slice=said.slice,
    )


def awaiting_counters(task: RunningTask, limits: Thresholds, now_ms: int) -> RunningTask:
    """Return the task while it waits for its commit in the counters: its worker has finished."""
    return replace(task, begun_ms=None, deadline_ms=now_ms + limits.deadline_ms)


def after_heartbeat(task: RunningTask, said: TaskRunning, now_ms: int) -> RunningTask:
    """Return the task after a heartbeat of its worker: it counts as lost only after the next
    heartbeats are missed, or after the longest time of any such task."""
    if said.attempt != task.attempt or task.committed_at_ms is not None:
        return task  # of an earlier order; or the committer has spoken since
    if said.finished:  # it waits once more
        return replace(task, begun_ms=None, deadline_ms=now_ms + QUEUE_MS)
    begun_ms = min(said.started_at_ms, now_ms)
    # By our clock: what is reported late was missed meanwhile, and its worker lives all the same.
    deadline_ms = min(now_ms + SILENCE_MS, begun_ms + task.run_ms)
    return replace(task, begun_ms=begun_ms, deadline_ms=deadline_ms)
