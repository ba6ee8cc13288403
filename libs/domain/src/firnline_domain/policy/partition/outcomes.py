"""Update a partition's work: by changes, orders, successes, failures and users."""

from __future__ import annotations

from zlib import crc32

from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.debt import NO_DEBT, Debt
from firnline_domain.counters.state.work import ROWS_DIFFER, UNDONE, PartitionWork, RunningTask
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.triggers.full_rewrites import after_freeze, after_full
from firnline_domain.policy.triggers.sorting import after_sort
from firnline_domain.records.parts.dead_rows import Histogram
from firnline_domain.records.parts.slices import Slice
from firnline_domain.records.results import OUT_OF_MEMORY
from firnline_domain.settings.thresholds import Thresholds

BACK_OFF_MS = 10_000  # doubles with each failure in a row
BACK_OFF_MAX_MS = 30 * 60_000
PARK_AFTER = 3  # failures in a row that no retry can help
PARK_AFTER_ANY = 10  # failures in a row that are the partition's own: over an hour of trying
# reasons that say nothing of the partition
ENVIRONMENTAL = frozenset(
    {
        "unreachable",
        "pin_lost",
        "open_branch",
        "unpublished_wap",
        "paused",
        "trigger_gone",
        "deadline",  # its worker was lost, or slow: the same partition may be done in a minute
        "deadline_passed",
    }
)
LEAVE_HEAVY_AFTER = 3  # rewrites in a row that had room enough
HEAD_START = 0.5  # of its waits, at the most
# A commit that is counted later than this was there before Firnline, or its clock is wrong.
LATEST_MS = DAY_MS
PARKED_MS = DAY_MS  # then one more try; a change of the table's settings frees it at once


def after_change(
    work: PartitionWork, holds: Debt, added: Debt, now_ms: int, committed_ms: int | None = None
) -> PartitionWork:
    """Return a partition's work after a change that the counters include: `added` has arrived, the
    floor is at most `holds`, and times since when there is debt are set or cleared. `holds`: all
    debt there is now; `added`: what writers added; `committed_ms`: commit time; None = now."""
    at_ms = min(now_ms if committed_ms is None else committed_ms, now_ms)
    arrived_ms = work.arrived_commit_ms
    if added != NO_DEBT and arrived_ms is None:
        arrived_ms = at_ms if now_ms - at_ms < LATEST_MS else now_ms
    grown = replace(
        work,
        floor=work.floor.at_most(holds),
        arrived=work.arrived + added,
        arrived_commit_ms=arrived_ms if any(holds.compactable) else None,
    )
    if added != NO_DEBT and work.frozen_seen_ms:
        grown = replace(grown, frozen_seen_ms=0)
    if added.equality_deletes or work.equality_since_ms is not None:
        grown = _with_equality_ages(grown, holds, added, at_ms)
    return with_debt_ages(grown, holds, now_ms)


def _with_equality_ages(work: PartitionWork, holds: Debt, added: Debt, at_ms: int) -> PartitionWork:
    """Set the times of the oldest equality delete that is there, and that came since the order."""
    arrived_ms = work.equality_arrived_ms
    if added.equality_deletes:
        arrived_ms = at_ms if arrived_ms is None else min(arrived_ms, at_ms)
    since_ms = at_ms if work.equality_since_ms is None else work.equality_since_ms
    there = holds.equality_deletes > 0
    return replace(
        work,
        equality_since_ms=since_ms if there else None,
        equality_arrived_ms=arrived_ms if there else None,
    )


def with_debt_ages(work: PartitionWork, holds: Debt, now_ms: int) -> PartitionWork:
    """Set the times since which there is debt."""
    positions = _keep_start(work.positions_since_ms, holds.position_deletes > 0, now_ms)
    if positions != work.positions_since_ms:
        work = replace(work, positions_since_ms=positions)
    grown = holds.above(work.floor)
    counted = _keep_start(work.debt_since_ms, any(grown.compactable), now_ms)
    undersized = _keep_start(work.undersized_since_ms, grown.undersized > 0, now_ms)
    if (counted, undersized) == (work.debt_since_ms, work.undersized_since_ms):
        return work if grown != NO_DEBT else replace(work, hot_since_ms=None)
    oldest_ms = None
    if counted is not None:
        began_ms = work.arrived_commit_ms if work.debt_since_ms is None else work.oldest_commit_ms
        oldest_ms = counted if began_ms is None else began_ms
    return replace(
        work,
        debt_since_ms=counted,
        oldest_commit_ms=oldest_ms,
        undersized_since_ms=undersized,
        hot_since_ms=work.hot_since_ms if grown != NO_DEBT else None,
    )


def with_head_start(work: PartitionWork, name: str) -> PartitionWork:
    """Give a head start to a partition that was counted for the first time, with the debt of years
    and with a whole lake beside it: what it waits for (its age, its readers, `max-wait-ms`) comes
    sooner by a share that its name decides, or all of them would fall due in one minute."""
    return replace(work, head_start=HEAD_START * crc32(name.encode()) / 2**32)


def _keep_start(since_ms: int | None, there: bool, now_ms: int) -> int | None:
    if not there:
        return None
    return now_ms if since_ms is None else since_ms


def after_order(work: PartitionWork) -> PartitionWork:
    """Return the work after an order went out: without pause and request, and without the new debt
    unless a pass goes on."""
    work = replace(work, pause="", until_ms=None, paused_ms=None, requested="")
    if work.unfinished is not None:
        return work
    return replace(work, arrived=NO_DEBT, arrived_commit_ms=None, equality_arrived_ms=None)


def taken_back(work: PartitionWork, until_ms: int, now_ms: int) -> PartitionWork:
    """Return the work after an operator undid its rewrite: the same is not repeated before
    `until_ms`. The floor that it left no longer counts."""
    earlier = max(work.earlier_attempts, work.last_attempt)
    known = replace(work, floor=NO_DEBT, dead_rows=(), positions_seen=0)
    return replace(known, earlier_attempts=earlier).with_pause(UNDONE, until_ms, now_ms)


def after_success(
    work: PartitionWork,
    holds: Debt,
    task: RunningTask,
    limits: Thresholds,
    now_ms: int,
    positions: int = 0,
    changed_ms: int = 0,
) -> PartitionWork:
    """Record that a task is done and its commit, if it made one, is in the counters.

    What it left, without what came meanwhile, is the floor from now on. Only a merge can do
    anything about undersized files, and one that has lessened them may do so again. After a slice
    that is not the last of its pass there is no floor yet. Where files were chosen by their dead
    rows alone, equality deletes still wait for a conversion. `positions`: rows that are dead by
    position, in the counters. `changed_ms`: the partition's last change in them."""
    if task.slice is not None and not task.slice.is_last:
        return _with_next_slice(work, task, task.slice)
    full, floor = task.action == Action.FULL, holds.above(work.arrived)
    merged = full or task.action == Action.MERGE
    lessened = not full and holds.undersized < task.numbers.get("undersized", 0)
    known = (0 if lessened else holds.undersized) if merged else work.floor.undersized
    took_all = full or (task.action == Action.COMPACT and task.min_dead_ratio == 0)
    if task.action == Action.COMPACT and not took_all:
        waiting = min(work.floor.equality_deletes, holds.equality_deletes)
        floor = replace(floor, equality_deletes=waiting)
    if task.action == Action.SORT:  # it was not for the debt, most of which it has left
        floor = work.floor.at_most(holds)
    rested = PartitionWork(
        floor=replace(floor, undersized=min(known, holds.undersized)),
        arrived=work.arrived,
        arrived_commit_ms=work.arrived_commit_ms,
        undersized_since_ms=work.undersized_since_ms if not merged or lessened else None,
        equality_since_ms=_oldest_left_ms(work, holds),
        equality_arrived_ms=work.equality_arrived_ms if holds.equality_deletes else None,
        positions_since_ms=None if took_all else work.positions_since_ms,
        chosen_ms=now_ms if task.min_dead_ratio < 1 else work.chosen_ms,
        dead_rows=task.dead_rows,
        positions_seen=positions,
        pause=work.pause,
        until_ms=work.until_ms,
        paused_ms=work.paused_ms,
        last_task_id=task.task_id,
        last_attempt=work.attempt,
        touched_ms=work.touched_ms,
        failure=ROWS_DIFFER if work.failure == ROWS_DIFFER else "",
    )
    rested = after_full(_with_room(rested, work), work, full, changed_ms, now_ms)
    rested = after_sort(rested, work, task.action == Action.SORT, changed_ms, now_ms)
    rested = after_freeze(rested, work, task, limits, changed_ms)
    return with_debt_ages(
        rested.with_pause("cooling", now_ms + limits.cool_down_ms, now_ms), holds, now_ms
    )


def _oldest_left_ms(work: PartitionWork, holds: Debt) -> int | None:
    """Return when the oldest remaining equality delete came, in ms since 1970: the first since the
    pass began, or an earlier one if more remain. None if none remains."""
    if not holds.equality_deletes:
        return None
    if holds.equality_deletes > work.arrived.equality_deletes:
        return work.equality_since_ms
    return work.equality_arrived_ms


def _with_next_slice(work: PartitionWork, task: RunningTask, done: Slice) -> PartitionWork:
    after = replace(
        work,
        unfinished=done,
        floor=NO_DEBT,
        last_task_id=task.task_id,
        last_attempt=work.attempt,
        hot_since_ms=None,
        failures=0,
        non_retryable=0,
        own_failures=0,
        earlier_attempts=0,
        failure=ROWS_DIFFER if work.failure == ROWS_DIFFER else "",
        out_of_memory=0,
        success_streak=0,
    )
    return _with_room(after, work)


def after_late_report(
    work: PartitionWork, task_id: str, done: Slice | None, left: Histogram
) -> PartitionWork:
    """Return the work after a report of the committer that came after the commit was in the
    counters, when the task had ended."""
    if work.last_task_id != task_id:
        return work
    if done is None or done.is_last:
        return replace(work, dead_rows=left) if left else work
    after = replace(work, unfinished=done, floor=NO_DEBT)
    return (
        replace(after, pause="", until_ms=None, paused_ms=None)
        if work.pause == "cooling"
        else after
    )


def _with_room(rested: PartitionWork, work: PartitionWork) -> PartitionWork:
    """Return `rested` after one more success, still marked as short of memory until
    LEAVE_HEAVY_AFTER of them in a row."""
    success_streak = work.success_streak + 1
    if not work.out_of_memory or success_streak >= LEAVE_HEAVY_AFTER:
        return rested
    return replace(rested, out_of_memory=work.out_of_memory, success_streak=success_streak)


def has_succeeded(work: PartitionWork, task: RunningTask) -> bool:
    """Return True if the work already counts this task as done."""
    return (work.last_task_id, work.last_attempt) == (task.task_id, task.attempt)


def after_failure(work: PartitionWork, reason: str, retryable: bool, now_ms: int) -> PartitionWork:
    """Record that a task came to an end without a commit."""
    failures, non_retryable = work.failures + 1, work.non_retryable + (not retryable)
    own = work.own_failures + (reason not in ENVIRONMENTAL)
    after = replace(
        work, failures=failures, non_retryable=non_retryable, own_failures=own, failure=reason
    )
    if reason == OUT_OF_MEMORY:
        after = replace(after, out_of_memory=work.out_of_memory + 1, success_streak=0)
    if non_retryable >= PARK_AFTER or (own >= PARK_AFTER_ANY and reason not in ENVIRONMENTAL):
        return after.with_pause("parked", now_ms + PARKED_MS, now_ms)
    back_off = min(BACK_OFF_MS << min(failures - 1, 12), BACK_OFF_MAX_MS)
    return after.with_pause("backing_off", now_ms + back_off, now_ms)


def waited_in_vain(work: PartitionWork) -> PartitionWork:
    """Return the work after a task that no worker began for hours, or whose result had no answer:
    that is no failure. The next task has another number, so that a late report is not taken for its
    own."""
    return replace(work, earlier_attempts=work.earlier_attempts + 1)


def committed_late(
    work: PartitionWork, task_id: str, limits: Thresholds, now_ms: int
) -> PartitionWork:
    """Return the work after a commit of a rewrite that counted as lost: earlier failures are over,
    and the counters will soon include it. A task that is running keeps its number."""
    if work.last_task_id == task_id:
        return work  # reported twice
    spent = work.earlier_attempts + work.failures
    after = replace(work, failures=0, non_retryable=0, own_failures=0, earlier_attempts=spent)
    if work.failure == ROWS_DIFFER:
        return after  # a person has to look first
    after = replace(after, failure="")
    if work.pause not in ("parked", "backing_off"):
        return after
    return after.with_pause("cooling", now_ms + limits.cool_down_ms, now_ms)


def rows_differed(work: PartitionWork, now_ms: int) -> PartitionWork:
    """Return the work after a commit that changed what readers see: suspended until an operator
    checks it."""
    return replace(work, failure=ROWS_DIFFER).with_pause("parked", now_ms + PARKED_MS, now_ms)


def after_settings_change(work: PartitionWork) -> PartitionWork:
    """Record that the table's settings changed: what failed may work now."""
    if work.pause not in ("parked", "backing_off"):
        return work
    spent = work.earlier_attempts + work.failures
    seen = replace(work, failure="") if work.failure == ROWS_DIFFER else work
    return replace(
        seen,
        pause="",
        until_ms=None,
        paused_ms=None,
        failures=0,
        non_retryable=0,
        own_failures=0,
        earlier_attempts=spent,
    )


def after_unpark(work: PartitionWork) -> PartitionWork:
    """Record that a user has unparked it: whatever failed or was held may be tried again."""
    return after_settings_change(replace(work, pause="parked") if work.pause == UNDONE else work)
