"""Correct what a clock that was ahead has left in a planner's state when it is set back.

A moment that is kept is either the past (since when, when last) or an end (until when). By a clock
that was a day ahead both lie in what is the future now, and everything that waits for them would
wait for a day. So the past becomes now, and an end counts again from now, or is over."""

from __future__ import annotations

from typing import Any, TypeVar

from firnline_domain.base.times import CLOCKS_DIFFER_MS, HOUR_MS
from firnline_domain.base.values import Value, replace
from firnline_domain.counters.state.work import (
    ROWS_DIFFER,
    UNDONE,
    ActionWork,
    Partition,
    RunningTask,
    Table,
    TableWork,
)
from firnline_domain.policy.partition.deadlines import QUEUE_MS, SILENCE_MS

# Names that end in `_ms` and are no moments.
LENGTHS = frozenset({"run_ms", "slow_ms", "slow_expected_ms", "turnaround_ms", "max_age_ms"})
ENDS = frozenset({"until_ms", "deadline_ms", "due_ms", "reconcile_ms", "publish_ms"})
ACTION_MS = HOUR_MS  # the longest that an order on a table, or a reported commit, is waited for


def set_table_back(table: Table, now_ms: int) -> Table:
    """Return the table as if what was kept later than now had been kept now; all of its partitions
    are to be decided about. The same table if nothing was."""
    after: Table = set_value_back(table, now_ms)
    if after is table and not _has_late_end(table.work, now_ms):
        return table
    work = after.work
    publish_ms = None if work.publish_ms is None else min(work.publish_ms, now_ms)
    work = replace(
        work,
        running=tuple(_set_task_back(one, now_ms) for one in table.work.running),
        expiry=_set_action_back(work.expiry, table.work.expiry, now_ms),
        actions={
            name: _set_action_back(one, table.work.actions[name], now_ms)
            for name, one in work.actions.items()
        },
        reconcile_ms=now_ms,
        publish_ms=publish_ms,
    )
    return replace(after, work=work)


def set_partition_back(partition: Partition, now_ms: int) -> Partition:
    """Return the partition as if what was kept later than now had been kept now. A pause that was
    begun later is over, unless a person has ordered it, or has to look first: then it begins now.
    """
    after: Partition = set_value_back(partition, now_ms)
    begun_ms, work = partition.work.paused_ms, after.work
    if begun_ms is None or not _is_late(begun_ms, now_ms):
        return after
    until_ms = None
    if work.until_ms is not None and (work.pause == UNDONE or work.failure == ROWS_DIFFER):
        until_ms = now_ms + max(work.until_ms - begun_ms, 0)
    pause = work.pause if until_ms is not None else ""
    paused_ms = now_ms if until_ms is not None else None
    work = replace(work, pause=pause, until_ms=until_ms, paused_ms=paused_ms)
    return replace(after, work=work)


def _is_late(at_ms: int, now_ms: int) -> bool:
    """Return True if a kept time is after now, by more than clocks differ."""
    return at_ms > now_ms + CLOCKS_DIFFER_MS


def set_value_back(value: Any, now_ms: int) -> Any:
    """Set every past time that is late to now, however deep it lies."""
    if isinstance(value, Value):
        changed = {
            name: after
            for name in value.__struct_fields__
            if (after := _set_field_back(name, before := getattr(value, name), now_ms))
            is not before
        }
        return replace(value, **changed) if changed else value
    if isinstance(value, tuple):
        items = [set_value_back(one, now_ms) for one in value]
        same = all(one is other for one, other in zip(items, value, strict=True))
        return value if same else tuple(items)
    if isinstance(value, dict):
        pairs = {key: set_value_back(one, now_ms) for key, one in value.items()}
        return value if all(pairs[key] is one for key, one in value.items()) else pairs
    return value


def _set_field_back(name: str, value: Any, now_ms: int) -> Any:
    if isinstance(value, int):
        is_past = name.endswith("_ms") and name not in LENGTHS and name not in ENDS
        return now_ms if is_past and _is_late(value, now_ms) else value
    return set_value_back(value, now_ms)


def _has_late_end(work: TableWork, now_ms: int) -> bool:
    """Return True if a time limit of the table, its actions or its tasks is after now, by more than
    clocks differ."""
    ends = (work.reconcile_ms, work.publish_ms, work.expiry.due_ms, work.expiry.deadline_ms)
    others = (end for one in work.actions.values() for end in (one.due_ms, one.deadline_ms))
    tasks = (task.deadline_ms for task in work.running)
    late = (end for end in (*ends, *others, *tasks) if end is not None)
    return any(_is_late(end, now_ms) for end in late)


def _set_task_back(task: RunningTask, now_ms: int) -> RunningTask:
    """Return the task with the time that it has left, and no more than any task has."""
    after: RunningTask = set_value_back(task, now_ms)
    ahead_ms = task.ordered_at_ms - after.ordered_at_ms
    longest_ms = QUEUE_MS
    if task.committed_at_ms is not None:
        longest_ms = ACTION_MS
    elif task.begun_ms is not None:
        longest_ms = SILENCE_MS
    deadline_ms = min(task.deadline_ms - ahead_ms, now_ms + longest_ms)
    return after if deadline_ms == task.deadline_ms else replace(after, deadline_ms=deadline_ms)


A = TypeVar("A", bound=ActionWork)


def _set_action_back(work: A, before: A, now_ms: int) -> A:
    """Return the work without a round that ended later than now, and without an announcement made
    later: it was for another time, so it is repeated."""
    finished = before.finished_ms is not None and _is_late(before.finished_ms, now_ms)
    announced = before.announced_ms is not None and _is_late(before.announced_ms, now_ms)
    return replace(
        work,
        finished_ms=None if finished else work.finished_ms,
        announced_ms=None if announced else work.announced_ms,
        deadline_ms=min(work.deadline_ms, now_ms + ACTION_MS),
        due_ms=None if work.due_ms is None else min(work.due_ms, now_ms),
    )
