"""When the heavy lane's memory grows, and when it is given back."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import pytest
from firnline_domain.base.values import replace
from firnline_domain.policy.fleet.worker_memory import (
    IN_A_ROW,
    MAX_ROLLBACKS,
    MAX_STEPS,
    QUIET_MS,
    REPEAT_MS,
    ROLLBACK_MS,
    STEP_DOWN_AFTER,
    VALID_MS,
    MemoryTuning,
    Steps,
    requested_steps,
    with_steps,
)
from hypothesis import given, settings
from hypothesis import strategies as st

GB = 1 << 30
FRESH = MemoryTuning()


def test_all_steps_may_be_given_back_at_once() -> None:
    grown = replace(FRESH, steps=Steps(heap=3, overhead=1), moved_ms=1_000)
    nearly = replace(grown, success_streak=STEP_DOWN_AFTER - 1)
    after_tasks = nearly.after_success("t/1", 2_000, 2_000, at_once=True)
    after_days = grown.after_time(1_000 + QUIET_MS, at_once=True)
    for found in (after_tasks, after_days):
        assert (found.steps, found.lowered) == (Steps(), True)
    assert nearly.after_success("t/1", 2_000, 2_000).steps == Steps(heap=2)
    assert grown.after_time(1_000 + QUIET_MS).steps == Steps(heap=2)


def after(tuning: MemoryTuning, events: Iterable[str], at_ms: int = 1_000) -> MemoryTuning:
    """h: the heap ended; o: other memory; w: success. Each an order of its own, a second apart."""
    for number, event in enumerate(events):
        now = at_ms + number * 1_000
        name = f"{now}/1"
        if event == "w":
            tuning = tuning.after_success(name, now, now)
        else:
            tuning = tuning.after_oom({"h": "heap", "o": "overhead"}[event], name, now, now)
    return tuning


def test_three_in_a_row_and_only_then() -> None:
    assert after(FRESH, "hh").steps == Steps()
    assert after(FRESH, "hhwhhwhh").steps == Steps()
    assert after(FRESH, "hhh").steps == Steps(heap=1)
    assert after(FRESH, "hhhhh").steps == Steps(heap=1)
    assert after(FRESH, "hhhhhh").steps == Steps(heap=2)


def test_that_memory_grows_which_most_of_them_ran_out_of() -> None:
    assert after(FRESH, "ooh").steps == Steps(overhead=1)
    assert after(FRESH, "hoh").steps == Steps(heap=1)
    untold = FRESH
    for number in range(3):
        untold = untold.after_oom(None, f"{number}/1", 1, 1)
    assert untold.steps == Steps(overhead=1)


def test_a_run_of_successes_takes_a_step_back() -> None:
    raised = after(FRESH, "hhh")
    assert after(raised, "w" * (STEP_DOWN_AFTER - 1), 10_000).steps == Steps(heap=1)
    assert after(raised, "w" * STEP_DOWN_AFTER, 10_000).steps == Steps()
    assert after(raised, "w" * (STEP_DOWN_AFTER - 1) + "hw", 10_000).steps == Steps(heap=1)


def test_a_step_back_that_was_wrong_makes_the_next_wait_twice_as_long() -> None:
    back = after(after(FRESH, "hhh"), "w" * STEP_DOWN_AFTER, 10_000)
    again = after(back, "hhh", 100_000)
    assert (again.steps, again.rollbacks) == (Steps(heap=1), 1)
    assert after(again, "w" * (2 * STEP_DOWN_AFTER - 1), 200_000).steps == Steps(heap=1)
    assert after(again, "w" * 2 * STEP_DOWN_AFTER, 200_000).steps == Steps()
    assert after(back, "hhh", ROLLBACK_MS + 100_000).rollbacks == 0


def test_a_day_without_is_a_step_back_too() -> None:
    """Partitions that succeed leave the lane: there may be no order that could show anything."""
    raised = after(FRESH, "hhhhhh")
    assert raised.after_time(raised.last_oom_ms + QUIET_MS - 1) == raised
    lower = raised.after_time(raised.last_oom_ms + QUIET_MS)
    assert lower.steps == Steps(heap=1)
    assert lower.after_time(lower.moved_ms + QUIET_MS).steps == Steps()
    assert FRESH.after_time(10**15) == FRESH


def test_what_was_ordered_before_a_step_says_nothing_of_the_size_after() -> None:
    raised = after(FRESH, "hhh", 100_000)
    for number in range(10):
        assert raised.after_oom("heap", f"{number}/1", 101_000, 200_000) == raised
        assert raised.after_success(f"{number}/1", 101_000, 200_000) == raised


def test_the_same_task_told_again_counts_once() -> None:
    tuning = FRESH
    for _ in range(5):
        tuning = tuning.after_oom("heap", "t/1", 1, 1)
    assert len(tuning.oom_streak) == 1


def test_successes_of_a_lane_that_lacks_nothing_are_not_even_kept() -> None:
    assert after(FRESH, "w" * 100) is FRESH


def test_a_wish_is_told_when_it_changes_and_daily_while_there_is_one() -> None:
    assert not FRESH.is_unreported(10**15)
    raised = after(FRESH, "hhh")
    assert raised.is_unreported(5_000)
    directive = raised.to_directive("", 3, 5_000)
    assert (directive.lane, directive.bucket, directive.reason) == ("heavy", 3, "out_of_memory")
    assert (directive.heap_steps, directive.overhead_steps) == (1, 0)
    told = raised.as_reported(5_000)
    assert not told.is_unreported(5_000 + REPEAT_MS - 1)
    assert told.is_unreported(5_000 + REPEAT_MS)
    assert told.to_directive("", 3, 5_000 + REPEAT_MS).reason == "repeated"
    back = after(told, "w" * STEP_DOWN_AFTER, 10_000)
    assert back.is_unreported(50_000)
    last = back.to_directive("", 3, 50_000)
    assert (last.heap_steps, last.reason) == (0, "recovered")
    assert not back.as_reported(50_000).is_unreported(10**15)


def test_of_all_buckets_wishes_the_most_holds_and_old_ones_do_not() -> None:
    one = after(FRESH, "hhhhhh").to_directive("", 1, 1_000)
    two = after(FRESH, "ooo").to_directive("", 2, 1_000)
    assert requested_steps([one, two], "", "heavy", 2_000) == Steps(heap=2, overhead=1)
    assert requested_steps([one, two], "", "ordinary", 2_000) == Steps()
    assert requested_steps([one, two], "", "heavy", 1_000 + VALID_MS) == Steps()
    assert requested_steps([], "", "heavy", 1) == Steps()
    assert requested_steps([replace(one, heap_steps=99)], "", "heavy", 1) == Steps(heap=MAX_STEPS)


@pytest.mark.parametrize(
    ("base", "steps", "bytes_"),
    [(GB, 0, GB), (GB, 1, 3 * GB), (GB, 4, 9 * GB), (20 * GB, 1, 24 * GB)],
)
def test_a_step_is_2_gb_or_a_fifth_whichever_is_more(base: int, steps: int, bytes_: int) -> None:
    assert with_steps(base, steps) == bytes_


# Runs of the same, as they come: a fair coin hardly ever shows twenty successes in a row.
histories = st.lists(
    st.tuples(st.sampled_from("howT"), st.integers(1, 60), st.integers(0, 3)), max_size=40
).map(lambda runs: [(event, gap) for event, times, gap in runs for _ in range(times)])
GAPS_MS = (0, 1_000, 3_600_000, 40 * 3_600_000)


@settings(deadline=None, max_examples=200)
@given(histories)
def test_it_never_flaps(history: list[tuple[str, int]]) -> None:
    """In any history: bounded; a step up only right after three in a row, a step down only after a
    whole run of successes or a whole day since the last step or trouble."""
    tuning, now, names = FRESH, 0, count()
    ooms = successes = 0
    quiet_since = 0
    for event, gap in history:
        now += GAPS_MS[gap]
        before, name = tuning, str(next(names))
        if event == "T":
            tuning = tuning.after_time(now)
        elif event == "w":
            tuning = tuning.after_success(name, now, now)
            ooms, successes = 0, successes + 1
        else:
            tuning = tuning.after_oom("heap" if event == "h" else "overhead", name, now, now)
            ooms, successes = ooms + 1, 0
        assert 0 <= tuning.steps.heap <= MAX_STEPS
        assert 0 <= tuning.steps.overhead <= MAX_STEPS
        assert 0 <= tuning.rollbacks <= MAX_ROLLBACKS
        if tuning.steps != before.steps:
            if tuning.lowered:
                assert (
                    successes >= STEP_DOWN_AFTER << before.rollbacks
                    or now - quiet_since >= QUIET_MS
                )
                assert event in "wT"
            else:
                assert event in "ho"
                assert ooms >= IN_A_ROW
            ooms = successes = 0
        if tuning.steps != before.steps or event in "ho":
            quiet_since = now


def test_a_groups_wish_is_for_its_own_workers() -> None:
    ours = after(FRESH, "hhh").to_directive("", 1, 1_000)
    theirs = after(FRESH, "ooo").to_directive("etl", 1, 1_000)
    assert theirs.group == "etl"
    assert requested_steps([ours, theirs], "", "heavy", 2_000) == Steps(heap=1)
    assert requested_steps([ours, theirs], "etl", "heavy", 2_000) == Steps(overhead=1)
    assert requested_steps([ours, theirs], "adhoc", "heavy", 2_000) == Steps()
