"""What an order's end leaves behind: floors, pauses, failures in a row."""

from __future__ import annotations

import pytest
from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.debt import NO_DEBT, Debt, debt_of
from firnline_domain.counters.state.work import PartitionWork, RunningTask, TableWork
from firnline_domain.identity import Scope
from firnline_domain.policy.partition.outcomes import (
    BACK_OFF_MAX_MS,
    BACK_OFF_MS,
    PARK_AFTER_ANY,
    after_change,
    after_failure,
    after_order,
    after_settings_change,
    after_success,
    after_unpark,
    committed_late,
    rows_differed,
    taken_back,
)
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds

NOW = 1_000_000
TASK = RunningTask("t", Scope(1, "[]"), "compact", "fragments", 1, 1, 0, 0)
LIMITS = Thresholds(cool_down_ms=500)


def pauses(work: PartitionWork, times: int, retryable: bool, reason: str = "x") -> list[int]:
    found = []
    for _ in range(times):
        work = after_failure(work, reason, retryable, NOW)
        assert work.until_ms is not None
        found.append(work.until_ms - NOW)
    return found


def test_debt_counts_files_by_kind() -> None:
    holds = FileTally(
        fragments=Tally(5, 1, 1),
        on_target=Tally(9, 1, 1),
        equality_deletes=Tally(2, 1, 1),
        position_deletes=Tally(3, 1, 1),
        deletion_vectors=Tally(4, 1, 1),
    )
    assert debt_of(holds, 1 << 30, 6) == Debt(5, 2, 7, 6)


def test_failures_back_off_ever_longer_up_to_a_cap() -> None:
    found = pauses(PartitionWork(), 20, retryable=True, reason="unreachable")
    assert found[:3] == [BACK_OFF_MS, 2 * BACK_OFF_MS, 4 * BACK_OFF_MS]
    assert found[-1] == BACK_OFF_MAX_MS


def test_failures_of_its_own_park_a_partition_in_the_end() -> None:
    found = pauses(PartitionWork(), PARK_AFTER_ANY, retryable=True, reason="worker_error")
    assert max(found[:-1]) <= BACK_OFF_MAX_MS
    assert found[-1] == DAY_MS


def test_what_the_surroundings_did_parks_nothing() -> None:
    work = PartitionWork(own_failures=PARK_AFTER_ANY - 1, failures=PARK_AFTER_ANY - 1)
    for reason in ("unreachable", "deadline", "deadline_passed"):
        assert after_failure(work, reason, True, NOW).pause == "backing_off"
    assert after_failure(work, "worker_error", True, NOW).pause == "parked"


def test_a_commit_after_the_deadline_ends_a_row_of_failures() -> None:
    spent = PartitionWork(failures=10, own_failures=10, failure="worker_error", last_attempt=3)
    work = committed_late(spent.with_pause("parked", NOW + DAY_MS, NOW), "t", LIMITS, NOW)
    assert (work.pause, work.until_ms) == ("cooling", NOW + 500)
    assert (work.failures, work.own_failures, work.failure) == (0, 0, "")
    assert work.attempt == spent.attempt  # of an order that is out meanwhile
    told_twice = replace(spent, last_task_id="t")
    assert committed_late(told_twice, "t", LIMITS, NOW) == told_twice
    for held in (taken_back(spent, NOW + DAY_MS, NOW), rows_differed(spent, NOW)):
        after = committed_late(held, "t", LIMITS, NOW)
        assert (after.pause, after.until_ms) == (held.pause, held.until_ms)


def test_a_hold_outlasts_whatever_ends_meanwhile() -> None:
    later = NOW + DAY_MS
    work = taken_back(PartitionWork(), later, NOW)
    assert (work.pause, work.until_ms) == ("undone", later)
    for after in (
        after_success(work, NO_DEBT, TASK, LIMITS, NOW),
        after_failure(work, "x", True, NOW),
    ):
        assert (after.pause, after.until_ms) == ("undone", later)
    assert after_settings_change(work) == work
    free = after_unpark(work)
    assert (free.pause, free.until_ms) == ("", None)


def test_no_attempt_has_the_number_of_an_earlier_one() -> None:
    """After a success is taken back, and after failures are forgotten: the trigger may be the
    same, so the task's id is, and a worker remembers the attempts that it has finished."""
    work = after_failure(after_failure(PartitionWork(), "x", True, NOW), "x", False, NOW)
    assert work.attempt == 3
    assert after_unpark(work).attempt == 3
    done = after_success(work, NO_DEBT, TASK, LIMITS, NOW)
    assert done.attempt == 1  # of another task
    undone = after_unpark(taken_back(done, NOW + DAY_MS, NOW))
    assert undone.attempt == 4
    assert (
        after_unpark(taken_back(taken_back(undone, NOW + DAY_MS, NOW), NOW + DAY_MS, NOW)).attempt
        == 4
    )


def test_what_was_taken_back_left_no_floor() -> None:
    work = PartitionWork(floor=Debt(fragments=1))
    assert taken_back(work, NOW, NOW).floor == NO_DEBT


def test_unparking_twice_is_unparking_once() -> None:
    work = after_failure(
        PartitionWork(failures=2, non_retryable=2, own_failures=2), "out_of_memory", False, NOW
    )
    free = after_unpark(work)
    assert (work.pause, free.pause, free.failures, free.own_failures) == ("parked", "", 0, 0)
    assert after_unpark(free) == free
    cooling = PartitionWork(pause="cooling", until_ms=5)
    assert after_unpark(cooling) == cooling


def test_hopeless_failures_park_the_partition() -> None:
    assert pauses(PartitionWork(), 3, retryable=False) == [BACK_OFF_MS, 2 * BACK_OFF_MS, DAY_MS]
    work = after_failure(PartitionWork(failures=2, non_retryable=2), "out_of_memory", False, NOW)
    assert (work.pause, work.failure, work.failures) == ("parked", "out_of_memory", 3)


def test_retryable_failures_never_park() -> None:
    work = PartitionWork()
    for _ in range(9):
        work = after_failure(work, "x", True, NOW)
    assert work.pause == "backing_off"


def test_success_forgets_failures_and_cools_down() -> None:
    work = after_success(PartitionWork(failures=5, non_retryable=2), NO_DEBT, TASK, LIMITS, NOW)
    assert (work.failures, work.non_retryable) == (0, 0)
    assert (work.pause, work.until_ms, work.last_task_id) == ("cooling", NOW + 500, "t")


def test_the_floor_is_what_a_rewrite_left_without_what_came_meanwhile() -> None:
    work = after_order(PartitionWork(arrived=Debt(fragments=50)))
    work = after_change(work, Debt(fragments=13), Debt(fragments=3), NOW)
    work = after_success(work, Debt(fragments=5), TASK, LIMITS, NOW)
    assert work.floor == Debt(fragments=2)
    assert work.debt_since_ms == NOW


def test_the_floor_sinks_with_what_is_there() -> None:
    work = PartitionWork(floor=Debt(10, 4, 2, 1))
    assert after_change(work, Debt(3, 9, 1, 0), NO_DEBT, NOW).floor == Debt(3, 4, 1, 0)


def test_debt_ages_from_when_it_began_and_not_while_there_is_none() -> None:
    work = after_change(PartitionWork(), Debt(fragments=1), NO_DEBT, NOW)
    assert after_change(work, Debt(fragments=2), NO_DEBT, NOW + 5).debt_since_ms == NOW
    assert after_change(work, NO_DEBT, NO_DEBT, NOW + 5).debt_since_ms is None
    rested = PartitionWork(floor=Debt(fragments=4))
    assert after_change(rested, Debt(fragments=4), NO_DEBT, NOW).debt_since_ms is None


def test_new_settings_free_what_failed_and_nothing_else() -> None:
    parked = PartitionWork(pause="parked", until_ms=9, failures=3, non_retryable=3, failure="x")
    assert after_settings_change(parked) == PartitionWork(failure="x", earlier_attempts=3)
    cooling = PartitionWork(pause="cooling", until_ms=9)
    assert after_settings_change(cooling) == cooling


def test_a_partition_has_one_order_out_at_most() -> None:
    def task(name: str, scope: Scope) -> RunningTask:
        return RunningTask(name, scope, "compact", "r", 1, 1, 0, 9)

    here, there = Scope(0, "[1]"), Scope(0, "[2]")
    work = (
        TableWork().add_task(task("a", here)).add_task(task("b", there)).add_task(task("c", here))
    )
    assert [one.task_id for one in work.running] == ["b", "c"]
    found = work.task_of(here)
    assert found is not None
    assert (found.task_id, work.find_task("a"), work.find_task("b") is not None) == (
        "c",
        None,
        True,
    )
    assert work.drop_task(found).task_of(here) is None


def test_the_next_look_is_the_earliest_asked_for() -> None:
    assert (
        TableWork()
        .reconciled_by(9)
        .reconciled_by(5)
        .reconciled_by(7)
        .reconciled_by(None)
        .reconcile_ms
        == 5
    )


MERGED = replace(TASK, action="merge", numbers={"undersized": 9.0})


@pytest.mark.parametrize(
    ("case", "task", "left", "floor", "since"),
    [
        ("a compaction can do nothing about them", TASK, 9, 0, 5),
        ("a merge that did nothing will do nothing", MERGED, 9, 9, None),
        ("one that took some may take more", MERGED, 6, 0, 5),
        ("one that took all", MERGED, 0, 0, None),
    ],
)
def test_the_floor_of_undersized_files_is_a_merges(
    case: str, task: RunningTask, left: int, floor: int, since: int | None
) -> None:
    work = PartitionWork(undersized_since_ms=5)
    work = after_success(work, Debt(undersized=left), task, LIMITS, NOW)
    assert (work.floor.undersized, work.undersized_since_ms) == (floor, since)


def test_a_compaction_keeps_the_floor_that_a_merge_has_set() -> None:
    merged = after_success(PartitionWork(), Debt(undersized=9), MERGED, LIMITS, NOW)
    for left, floor in ((9, 9), (4, 4), (9, 4)):
        merged = after_success(merged, Debt(undersized=left), TASK, LIMITS, NOW)
        assert merged.floor.undersized == floor
