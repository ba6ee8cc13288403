"""A ceiling per hour that is never passed, and never stops a table for long."""

from __future__ import annotations

import itertools
import random

import pytest
from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.activity.commit_rate import CommitRate, burst_size

START = 1_795_000_000_000


def greedy(most: int, hours: int, step_ms: int, seed: int = 0) -> list[int]:
    """Moments of commits of somebody who commits whenever there is room."""
    dice, pace, found, now_ms = random.Random(seed), CommitRate(), [], START
    while now_ms < START + hours * HOUR_MS:
        if pace.free_at_ms(0, most, now_ms) == now_ms:
            found.append(now_ms)
            pace = pace.with_commits((len(found),), most, now_ms)
        now_ms += dice.randint(1, step_ms)
    return found


@pytest.mark.parametrize("most", [1, 2, 3, 7, 120, 1000])
def test_no_hour_has_more_than_the_ceiling(most: int) -> None:
    moments = greedy(most, 5, 2_000)
    for number, moment in enumerate(moments):
        within = [one for one in moments[number:] if one < moment + HOUR_MS]
        assert len(within) <= most
    assert len(moments) > most  # and the hours after the first have their share


def test_half_may_come_at_once_and_the_others_evenly() -> None:
    moments = greedy(120, 3, 500)
    assert moments[59] - moments[0] < 60_000
    pauses = [b - a for a, b in itertools.pairwise(moments[60:])]
    assert min(pauses) > 58_000
    assert max(pauses) < 61_000


def test_it_says_when_there_is_room() -> None:
    pace = CommitRate().with_commits(tuple(range(60)), 120, START)
    room_ms = pace.free_at_ms(0, 120, START)
    assert room_ms is not None
    assert START + 58_000 < room_ms < START + 61_000
    assert pace.free_at_ms(0, 120, room_ms) == room_ms
    assert pace.free_at_ms(0, 120, room_ms - 2) == room_ms


def test_orders_that_are_out_take_their_room() -> None:
    assert CommitRate().free_at_ms(59, 120, START) == START
    assert CommitRate().free_at_ms(60, 120, START) is None  # only their end makes room
    assert CommitRate().with_commits((1,), 120, START).free_at_ms(59, 120, START) != START


def test_a_commit_that_is_told_twice_counts_once() -> None:
    once = CommitRate().with_commits((1, 2), 120, START)
    assert once.with_commits((2, 1), 120, START + 5) is once
    assert once.with_commits((2, 3), 120, START).level == 3


def test_no_ceiling_holds_nothing_back_and_keeps_nothing() -> None:
    pace = CommitRate().with_commits(tuple(range(1_000)), 0, START)
    assert pace.free_at_ms(10_000, 0, START) == START
    assert len(pace.counted) == 64


def test_an_hour_later_all_of_it_is_there_again() -> None:
    full = CommitRate().with_commits(tuple(range(burst_size(120))), 120, START)
    assert full.free_at_ms(59, 120, START + HOUR_MS) == START + HOUR_MS


def test_a_clock_that_went_back_gives_nothing_away() -> None:
    pace = CommitRate().with_commits((1,), 1, START)
    assert pace.free_at_ms(0, 1, START - HOUR_MS) != START - HOUR_MS
    assert pace.with_commits((2,), 1, START - HOUR_MS).level == 2


def filled(commits: int) -> CommitRate:
    """As many at once, and orders went out just now."""
    pace = CommitRate().with_commits(tuple(range(commits)), 120, START)
    return replace(pace, ordered_ms=START)


def test_the_fuller_the_bucket_the_longer_orders_wait_for_others() -> None:
    waits = [filled(level).batches_until_ms(0, 120, START) - START for level in range(61)]
    assert waits[:5] == [0] * 5  # a table that is seldom committed to waits for nobody
    assert waits == sorted(waits)
    assert 2_000 < waits[15] < 4_000
    assert 58_000 < waits[60] < 61_000


def test_they_wait_from_the_last_orders_on() -> None:
    pace = filled(60)
    assert pace.batches_until_ms(0, 120, START + HOUR_MS) == START + HOUR_MS
    assert pace.batches_until_ms(30, 120, START) > START
    assert filled(4).batches_until_ms(30, 120, START) > START  # orders that are out count


@pytest.mark.parametrize("most", [0, 1, 4, 9])
def test_where_few_commits_are_wanted_or_any_number_nobody_gathers(most: int) -> None:
    pace = replace(CommitRate().with_commits(tuple(range(4)), most, START), ordered_ms=START)
    assert pace.batches_until_ms(0, most, START) == START
