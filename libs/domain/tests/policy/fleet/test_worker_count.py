"""How many workers there should be: up at once, down after a while."""

from __future__ import annotations

from firnline_domain.policy.fleet.worker_count import (
    WorkerCount,
    WorkerLimits,
    decide_worker_count,
)
from hypothesis import given
from hypothesis import strategies as st

IDLE_MS = 60_000
LIMITS = WorkerLimits(0, 4, IDLE_MS)
# Between two looks: often less than the grace, sometimes more.
LOOKS = st.lists(st.tuples(st.integers(0, 9) | st.none(), st.integers(0, 40_000)), max_size=60)


def play(looks: list[tuple[int | None, int]], limits: WorkerLimits) -> list[tuple[int, int]]:
    """Return moment and number after each look at what is wanted then."""
    count, now_ms, found = WorkerCount(limits.minimum), 0, []
    for wanted, later_ms in looks:
        now_ms += later_ms
        count = decide_worker_count(count, wanted, limits, now_ms)
        found.append((now_ms, count.workers))
    return found


def test_a_burst_brings_all_at_once_and_its_end_removes_them_after_a_while() -> None:
    burst = [(0, 1_000), (7, 1_000), (4, 1_000), *[(0, 20_000)] * 4, (0, 1_000)]
    numbers = [number for _, number in play(list(burst), LIMITS)]
    assert numbers == [0, 4, 4, 4, 4, 4, 0, 0]


def test_it_shrinks_to_the_most_that_was_wanted_meanwhile() -> None:
    looks = [(4, 0), (1, 1_000), (3, 30_000), (1, 30_000), (1, 30_000), (1, 60_000)]
    assert [number for _, number in play(list(looks), LIMITS)] == [4, 4, 4, 3, 3, 1]


def test_what_is_wanted_at_a_look_counts_until_the_next() -> None:
    looks = [(4, 0), (3, 1_000), (1, 60_000), (1, 0), (1, 60_000)]
    assert [number for _, number in play(list(looks), LIMITS)] == [4, 4, 3, 3, 1]


def test_a_worker_that_is_needed_again_begins_the_grace_anew() -> None:
    looks = [(4, 0), (1, 1_000), (4, 59_000), (1, 1_000), (1, 59_000)]
    assert [number for _, number in play(list(looks), LIMITS)] == [4] * 5


def test_without_an_answer_nothing_changes_but_into_the_limits() -> None:
    looks = [(4, 0), (0, 1_000), (None, 120_000), (0, 1_000), (0, 59_999)]
    assert [number for _, number in play(list(looks), LIMITS)] == [4] * 5
    assert decide_worker_count(WorkerCount(9), None, LIMITS, 0) == WorkerCount(4)
    assert decide_worker_count(WorkerCount(0), None, WorkerLimits(2, 4), 0) == WorkerCount(2)


def test_a_clock_that_is_set_back_does_not_stop_it_from_shrinking() -> None:
    before = decide_worker_count(WorkerCount(4), 0, LIMITS, 10 * IDLE_MS)
    anew = decide_worker_count(before, 0, LIMITS, 0)
    assert decide_worker_count(anew, 0, LIMITS, IDLE_MS).workers == 0


@given(LOOKS, st.integers(0, 3), st.integers(0, 3))
def test_it_stays_within_its_limits_and_never_below_what_is_wanted(
    looks: list[tuple[int | None, int]], minimum: int, more: int
) -> None:
    limits = WorkerLimits(minimum, minimum + more, IDLE_MS)
    for (wanted, _), (_, number) in zip(looks, play(looks, limits), strict=True):
        assert limits.minimum <= number <= limits.maximum
        assert number >= min(wanted or 0, limits.maximum)


@given(LOOKS)
def test_it_never_shrinks_within_the_grace_after_more_was_wanted(
    looks: list[tuple[int | None, int]],
) -> None:
    """So it does not flap: who grows does not shrink again before the grace is over, and no lower
    than to what was wanted within it."""
    found = play(looks, LIMITS)
    for index, (now_ms, number) in enumerate(found):
        if index and number < found[index - 1][1]:
            for (wanted, _), (moment, _) in zip(looks, found, strict=True):
                if now_ms - IDLE_MS < moment <= now_ms:
                    assert number >= min(wanted or 0, LIMITS.maximum)


@given(LOOKS, st.integers(0, 4))
def test_it_comes_to_what_is_wanted_in_the_end(
    looks: list[tuple[int | None, int]], last: int
) -> None:
    settled: list[tuple[int | None, int]] = [(last, IDLE_MS)] * 10
    assert play([*looks, *settled], LIMITS)[-1][1] == last
