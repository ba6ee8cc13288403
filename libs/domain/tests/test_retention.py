"""When snapshots are expired, and why not: a line per case, at NOW."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.counters import TableCounters
from firnline_domain.identity import Scope, TableName, task_id
from firnline_domain.progress import ExpiryWork, RunningTask, Table, TableWork
from firnline_domain.retention import (
    DEADLINE_MS,
    ExpiryReason,
    after_expired,
    decide_expiry,
    expiry_ended,
    expiry_order,
)
from firnline_domain.thresholds import DAY_MS, HOUR_MS, Thresholds
from firnline_domain.values import replace

NOW = 100 * DAY_MS
OLD = NOW - 5 * DAY_MS - 1  # just older than the default retention
LIMITS = Thresholds()


def table(work: TableWork | None = None, **counters: Any) -> Table:
    known = TableCounters(
        TableName("u", ("db",), "t"),
        "main",
        known=True,
        head_snapshot_id=77,
        snapshot_count=9,
        oldest_snapshot_ms=OLD,
    )
    return Table(replace(known, **counters), work or TableWork())


def expiry(**work: Any) -> TableWork:
    return TableWork(expiry=ExpiryWork(**work))


def task(trigger: int, ordered_at_ms: int) -> RunningTask:
    return RunningTask(f"t{trigger}", Scope(0, "[]"), "c", "r", trigger, 1, ordered_at_ms, NOW + 9)


REFUSED = [
    ("a day too young", table(oldest_snapshot_ms=OLD + DAY_MS), LIMITS,
     ExpiryReason.NOTHING_OLD_ENOUGH, NOW + DAY_MS),
    ("exactly as old as retained", table(oldest_snapshot_ms=OLD + 1), LIMITS,
     ExpiryReason.NOTHING_OLD_ENOUGH, NOW + 1),
    ("kept for longer by hours", table(), Thresholds(retain_hours=24 * 30),
     ExpiryReason.NOTHING_OLD_ENOUGH, OLD + 30 * DAY_MS + 1),
    ("gc.enabled=false", table(), Thresholds(gc_enabled=False), ExpiryReason.GC_DISABLED, None),
    ("firnline.enabled=false", table(), Thresholds(enabled=False), ExpiryReason.DISABLED, None),
    ("only as many as are to be kept", table(snapshot_count=3), Thresholds(min_snapshots=3),
     ExpiryReason.TOO_FEW, None),
    ("one snapshot is always kept", table(snapshot_count=1), Thresholds(min_snapshots=0),
     ExpiryReason.TOO_FEW, None),
    ("one is out", table(expiry(task_id="x", deadline_ms=NOW + 1)), LIMITS,
     ExpiryReason.IN_FLIGHT, NOW + 1),
    ("too soon after the last", table(expiry(finished_ms=NOW - 1)), LIMITS,
     ExpiryReason.TOO_SOON, NOW - 1 + LIMITS.expire_interval_ms),
    ("nothing was expired three times", table(expiry(finished_ms=NOW - 1, fruitless=3)), LIMITS,
     ExpiryReason.TOO_SOON, NOW - 1 + 8 * LIMITS.expire_interval_ms),
    ("a task was ordered before", table(TableWork(running=(task(5, OLD),))), LIMITS,
     ExpiryReason.HELD_BY_TASK, None),
    ("dropped", table(removed=True), LIMITS, ExpiryReason.REMOVED, None),
    ("age unknown", table(oldest_snapshot_ms=None), LIMITS, ExpiryReason.UNKNOWN, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "of_it", "limits", "reason", "until_ms"), REFUSED, ids=[one[0] for one in REFUSED]
)
def test_not_ordered(
    case: str, of_it: Table, limits: Thresholds, reason: ExpiryReason, until_ms: int | None
) -> None:
    decision = decide_expiry(of_it, limits, NOW)
    assert (decision.reason, decision.until_ms) == (reason, until_ms)
    assert decision.older_than_ms is None


ORDERED = [
    ("old enough", table(), LIMITS, NOW - 5 * DAY_MS),
    ("by hours", table(), Thresholds(retain_hours=2), NOW - 2 * HOUR_MS),
    ("how many is not known", table(snapshot_count=None), LIMITS, NOW - 5 * DAY_MS),
    ("the last order was lost", table(expiry(task_id="x", deadline_ms=NOW)), LIMITS,
     NOW - 5 * DAY_MS),
    ("a task in flight bounds it", table(TableWork(running=(task(5, OLD + 1),))), LIMITS, OLD + 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "of_it", "limits", "older_than_ms"), ORDERED, ids=[one[0] for one in ORDERED]
)
def test_ordered(case: str, of_it: Table, limits: Thresholds, older_than_ms: int) -> None:
    decision = decide_expiry(of_it, limits, NOW)
    assert (decision.reason, decision.older_than_ms) == (ExpiryReason.OLD_SNAPSHOTS, older_than_ms)


def test_the_order_protects_what_tasks_in_flight_started_from() -> None:
    work = TableWork(running=(task(8, NOW - 9), task(5, NOW - 7), task(8, NOW)))
    decision = decide_expiry(table(work), LIMITS, NOW)
    order, kept = expiry_order(table(work), decision, Thresholds(min_snapshots=4), NOW)
    assert order.protected_snapshot_ids == (5, 8)
    assert (order.retain_last, order.older_than_ms) == (4, NOW - 5 * DAY_MS)
    assert order.task_id == kept.task_id == task_id("u", "main", "0", "expire", 77)
    assert kept.deadline_ms == NOW + DEADLINE_MS


def test_the_next_round_at_the_same_head_is_another_task() -> None:
    first = table()
    order, kept = expiry_order(first, decide_expiry(first, LIMITS, NOW), LIMITS, NOW)
    later = NOW + DAY_MS
    second = table(TableWork(expiry=expiry_ended(kept, 3, "", NOW)))
    again, _ = expiry_order(second, decide_expiry(second, LIMITS, later), LIMITS, later)
    assert again.task_id != order.task_id


def test_rounds_that_expire_nothing_are_counted_until_one_does() -> None:
    work = expiry_ended(expiry_ended(ExpiryWork(task_id="x"), 0, "", 1), 0, "no", 2)
    assert (work.fruitless, work.rounds, work.refused, work.task_id) == (2, 2, "no", None)
    assert expiry_ended(work, 1, "", 3).fruitless == 0


def left(of_it: Table) -> int | None:
    return of_it.counters.snapshot_count


def test_what_our_expiry_did_is_not_taken_off_twice() -> None:
    ours = table(expiry(task_id="x"))
    told_first = after_expired(ours, 4)
    ended = replace(told_first.work, expiry=expiry_ended(told_first.work.expiry, 4, "", NOW))
    assert (left(told_first), ended.expiry.untold) == (9, 0)
    told_last = after_expired(table(TableWork(expiry=expiry_ended(ExpiryWork(), 4, "", NOW))), 4)
    assert (left(told_last), told_last.work.expiry.untold) == (9, 0)


def test_after_anothers_expiry_the_number_is_unknown() -> None:
    assert left(after_expired(table(), 4)) is None


def test_a_clock_that_was_set_back_does_not_stop_expiry() -> None:
    ahead = table(TableWork(expiry=expiry_ended(ExpiryWork(), 3, "", NOW + 3_600_000)))
    assert decide_expiry(ahead, LIMITS, NOW).reason is ExpiryReason.OLD_SNAPSHOTS
