"""How often a table is read, learned from reports by clocks that nobody has set."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from firnline_domain.counters.activity.reads import (
    MIN_PER_HOUR,
    MIN_WATCH_MS,
    STEPS,
    TAU_MS,
    Reads,
    after_report,
    load_share,
    rate_of,
    read_by,
    reads_in_force,
    share_read,
)
from firnline_domain.settings.in_force import unreadable_values
from firnline_domain.settings.thresholds import ReadsFrom, Thresholds, resolve_thresholds
from hypothesis import given
from hypothesis import strategies as st

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
START_MS = 1_800_000_000_000


def after_minutes(per_minute: float, minutes: int, start_ms: int = START_MS) -> Reads:
    """A table whose readers scan it evenly, reported once a minute."""
    reads = after_report(None, 1.0, start_ms, start_ms)
    for minute in range(1, minutes + 1):
        at_ms = start_ms + minute * MINUTE_MS
        reads = reads.with_scans(per_minute, at_ms, at_ms)
    return reads


@pytest.mark.parametrize("minutes", [30, 45, 60, 180, 24 * 60])
@pytest.mark.parametrize("per_hour", [0.5, 6.0, 600.0])
def test_an_even_rate_is_right_from_the_start(per_hour: float, minutes: int) -> None:
    reads = after_minutes(per_hour / 60, minutes)
    assert reads.per_hour(reads.as_of_ms) == pytest.approx(per_hour, rel=0.01)
    assert reads.scans_per_hour(reads.as_of_ms) == pytest.approx(per_hour, rel=2 ** (1 / STEPS) - 1)


def test_what_started_the_watch_is_not_counted() -> None:
    """A table that is read once a day is not read once a minute."""
    reads = after_report(None, 1.0, START_MS, START_MS)
    assert reads.per_hour(START_MS) == 0.0
    day = reads.with_scans(1.0, START_MS + DAY_MS, START_MS + DAY_MS)
    assert 1 / 24 < day.per_hour(day.as_of_ms) < 0.2  # it has just been read


def test_nothing_is_believed_in_the_first_half_hour() -> None:
    reads = after_minutes(10.0, 29)
    assert reads.step is None
    assert reads.scans_per_hour(START_MS + MIN_WATCH_MS - 1) is None
    assert reads.scans_per_hour(START_MS + MIN_WATCH_MS) is not None


def test_a_rate_follows_its_readers_within_hours_and_lasts_through_a_gap() -> None:
    reads = after_minutes(1.0, 24 * 60)
    end_ms = reads.as_of_ms
    rates = [reads.scans_per_hour(end_ms + hours * HOUR_MS) or 0.0 for hours in (0, 1, 6, 12, 72)]
    assert rates == sorted(rates, reverse=True)
    assert rates[1] > 0.7 * rates[0]
    assert rates[2] == pytest.approx(rates[0] / math.e, rel=0.2)
    assert rates[-1] == 0.0  # below LEAST


def test_a_report_from_the_future_is_one_of_now() -> None:
    reads = after_minutes(1.0, 60)
    now_ms = reads.as_of_ms + MINUTE_MS
    assert reads.with_scans(5.0, now_ms + DAY_MS, now_ms) == reads.with_scans(5.0, now_ms, now_ms)
    first = after_report(None, 5.0, START_MS + DAY_MS, START_MS)
    assert (first.since_ms, first.as_of_ms) == (START_MS, START_MS)


def test_a_late_report_counts_what_is_left_of_it() -> None:
    reads = after_minutes(1.0, 12 * 60)
    late = reads.with_scans(10.0, reads.as_of_ms - TAU_MS, reads.as_of_ms)
    assert late.as_of_ms == reads.as_of_ms
    assert late.level - reads.level == pytest.approx(10 / math.e)
    assert reads.with_scans(10.0, reads.since_ms, reads.as_of_ms) == reads  # from before the watch


def test_time_that_goes_back_is_that_of_the_last_report() -> None:
    reads = after_minutes(1.0, 60)
    assert reads.per_hour(0) == reads.per_hour(reads.as_of_ms)
    assert reads.with_scans(1.0, reads.as_of_ms, START_MS).as_of_ms == reads.as_of_ms


moments = st.integers(START_MS - DAY_MS, START_MS + 7 * DAY_MS)
reports = st.lists(
    st.tuples(st.floats(-5, 1e12, allow_nan=False), moments, moments), min_size=1, max_size=30
)


@given(reports, moments)
def test_whatever_the_clocks_say(told: list[tuple[float, int, int]], look_ms: int) -> None:
    """Scans, when they were made, and the planner's time: in any order."""
    reads: Reads | None = None
    for scans, at_ms, now_ms in told:
        before, reads = reads, after_report(reads, scans, at_ms, now_ms)
        assert reads.since_ms <= reads.as_of_ms
        assert reads.level >= 0
        if before is not None:
            assert reads.as_of_ms >= before.as_of_ms
            assert reads.since_ms == before.since_ms
            assert reads.as_of_ms <= max(now_ms, before.as_of_ms)
    assert reads is not None
    assert 0 <= reads.per_hour(look_ms) < math.inf
    watched_ms = max(look_ms, reads.as_of_ms) - reads.since_ms
    believed = reads.scans_per_hour(look_ms)
    assert (believed is None) == (watched_ms < MIN_WATCH_MS)
    if believed:
        assert believed == pytest.approx(reads.per_hour(look_ms), rel=0.2)


@given(st.integers(0, 60), st.lists(st.floats(0.7, 1.4), min_size=1, max_size=60))
def test_a_rate_beside_a_border_does_not_go_to_and_fro(step: int, noise: list[float]) -> None:
    """Each change of the step makes the table be looked at: all of its partitions."""
    per_minute = 2 ** ((step + 0.5) / STEPS) / 60
    reads = after_minutes(per_minute, 120)
    steps = []
    for number, one in enumerate([*noise, 1.4, 0.6, 1.4, 0.6]):
        at_ms = START_MS + (121 + number) * MINUTE_MS
        reads = reads.with_scans(per_minute * one, at_ms, at_ms)
        steps.append(reads.step)
    assert sum(a != b for a, b in pairwise(steps)) <= 1


def test_rates_are_few_numbers() -> None:
    found = {after_minutes(1 + number / 1_000, 31).in_force() for number in range(500)}
    assert found == {2 ** (step / STEPS) for step in (24, 25, 26)}
    assert {rate_of(step) for step in range(STEPS + 1)} == {2 ** (n / STEPS) for n in range(5)}
    assert after_minutes(MIN_PER_HOUR / 70, 31).in_force() == 0.0


@given(st.integers(0, 10**9), st.integers(0, 10**12), st.integers(0, 10**9))
def test_a_share_is_one(scans: int, files: int, there: int) -> None:
    assert 0 <= share_read(scans, files, there) <= 1


@pytest.mark.parametrize(
    ("scans", "files", "there", "share"),
    [(1, 10, 10, 1.0), (4, 10, 10, 0.25), (2, 0, 10, 0.0), (1, 50, 10, 1.0), (1, 0, 0, 1.0)],
)
def test_a_scan_counts_by_what_it_read(scans: int, files: int, there: int, share: float) -> None:
    assert share_read(scans, files, there) == share


@pytest.mark.parametrize(
    ("reads_from", "reported", "in_force"),
    [
        ("assumed", 50.0, 3.0),
        ("at-least", 50.0, 50.0),
        ("at-least", 0.5, 3.0),
        ("at-least", None, 3.0),
        ("reported", 50.0, 50.0),
        ("reported", 0.0, 0.0),
        ("reported", None, 3.0),
    ],
)
def test_whose_word_holds(reads_from: str, reported: float | None, in_force: float) -> None:
    limits = resolve_thresholds(
        {"firnline.reads-per-hour": "3", "firnline.reads-from": f" {reads_from} "}
    )
    assert limits.reads_from is ReadsFrom(reads_from)
    assert reads_in_force(limits, reported) == in_force


def test_limits_stay_as_they_are_where_readers_change_nothing() -> None:
    limits = Thresholds(reads_per_hour=100.0)
    reads = after_minutes(1.0, 60)
    assert read_by(limits, reads.scans_per_hour(reads.as_of_ms)) is limits
    busy = after_minutes(4.0, 60)
    rate = read_by(limits, busy.scans_per_hour(busy.as_of_ms)).reads_per_hour
    assert rate == pytest.approx(240, rel=0.1)


def test_a_word_that_is_none_of_these_counts_as_unset() -> None:
    settings = {"firnline.reads-from": "guessed"}
    assert resolve_thresholds(settings).reads_from is ReadsFrom.AT_LEAST
    assert list(unreadable_values(settings)) == [
        "firnline.reads-from=guessed cannot be read and counts as unset: "
        "write a word: assumed or at-least or reported"
    ]


@given(st.integers(1, 200))
def test_what_a_load_reaches_is_the_mean_over_partitions_of_a_prior_without_scale(n: int) -> None:
    """One to two of them is as likely as ten to twenty."""
    reached = [1 - math.log(place + 1) / math.log(n + 1) for place in range(n)]
    assert load_share(None, n) == pytest.approx(sum(reached) / n)
    assert [load_share(age, n) for age in range(n)] == pytest.approx(reached)
    assert (load_share(-1, n), load_share(n, n), load_share(5 * n, n)) == (1.0, 0.0, 0.0)


def test_a_load_reads_all_of_a_table_that_has_one_partition_or_none() -> None:
    assert load_share(None, 0) == load_share(None, 1) == load_share(0, 1) == 1.0
    mean = [load_share(None, n) for n in (10**6, 365, 20)]
    assert 0.05 < mean[0] < mean[1] < mean[2] < 0.31
