"""What a filter says of time, as Java's clients and others tell it, and which partitions of a table
that means."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.identity import TableName
from firnline_domain.records.events import PartitionClock, ScannedRange, TableLayout
from firnline_gateway.reads.scan_counts import MAX_RANGES, ScanCounts, ScannedTable, ages_of
from firnline_gateway.rest.scan_bounds import TimeBounds, bounds_of, span_of
from firnline_gateway.rest.scan_report import Scan, scan_of
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.tests.conftest import UUID
from services.gateway.tests.scan_report import encoded

NOW_MS = int(datetime(2026, 11, 24, 13, 30, tzinfo=UTC).timestamp() * 1_000)
TODAY_MS = NOW_MS // DAY_MS * DAY_MS
DAY = PartitionClock(0, 0, "day", "ts")
HOUR = PartitionClock(0, 0, "hour", "ts")
MONTH = PartitionClock(0, 0, "month", "ts")


def condition(kind: str, value: Any, term: Any = "ts") -> dict[str, Any]:
    return {"type": kind, "term": term, "value": value}


def both(left: Any, right: Any, kind: str = "and") -> dict[str, Any]:
    return {"type": kind, "left": left, "right": right}


def any_of(*values: str) -> dict[str, Any]:
    return {"type": "in", "term": "ts", "values": list(values)}


WEEK, TWO_DAYS_AGO = condition("gt-eq", "(date-6-days-ago)"), condition("eq", "(date-2-days-ago)")
BY_DAY = {"type": "transform", "transform": "day", "term": "ts"}


def scan(filter: Any) -> Scan:
    found = scan_of(encoded(1, filter=filter), NOW_MS)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("value", "span"),
    [
        ("(date-today)", (TODAY_MS, TODAY_MS + DAY_MS - 1)),
        ("(date-3-days-ago)", (TODAY_MS - 3 * DAY_MS, TODAY_MS - 2 * DAY_MS - 1)),
        ("(date-1-days-from-now)", (TODAY_MS + DAY_MS, TODAY_MS + 2 * DAY_MS - 1)),
        ("(timestamp-about-now)", (NOW_MS - 300_000, NOW_MS + 300_000)),
        ("(timestamp-5-hours-ago)", (NOW_MS - 6 * HOUR_MS, NOW_MS - 5 * HOUR_MS)),
        ("(timestamp-4-days-ago)", (NOW_MS - 5 * DAY_MS, NOW_MS - 4 * DAY_MS)),
        ("(timestamp-2-hours-from-now)", (NOW_MS + 2 * HOUR_MS, NOW_MS + 3 * HOUR_MS)),
        ("2026-11-24", (TODAY_MS, TODAY_MS + DAY_MS - 1)),
        ("2026-11-24T13:30:00+00:00", (NOW_MS, NOW_MS)),
        ("2026-11-24T14:30:00.000000+01:00", (NOW_MS, NOW_MS)),
        ("(date)", None),
        ("(timestamp)", None),
        ("(2-digit-int)", None),
        ("(hash-0a1b2c3d)", None),
        ("2026-13-99", None),
        (20261124, None),
        (None, None),
        ("", None),
    ],
)
def test_the_time_that_a_value_stands_for(value: Any, span: tuple[int, int] | None) -> None:
    assert span_of(value, NOW_MS) == span


@pytest.mark.parametrize(
    ("filter", "clock", "ages"),
    [
        (condition("gt-eq", "(date-today)"), DAY, (None, 0)),
        (condition("eq", "(date-3-days-ago)"), DAY, (3, 3)),
        (condition("gt-eq", "(date-6-days-ago)"), DAY, (None, 6)),
        (both(WEEK, condition("lt", "(date-today)")), DAY, (1, 6)),
        (both(WEEK, condition("lt-eq", "(date-today)")), DAY, (None, 6)),
        (both(condition("eq", "(date-6-days-ago)"), TWO_DAYS_AGO, "or"), DAY, (2, 6)),
        (both(WEEK, condition("eq", "x", "id"), "or"), DAY, None),
        (both(WEEK, condition("eq", "x", "id")), DAY, (None, 6)),
        (any_of("(date-1-days-ago)", "(date-9-days-ago)"), DAY, (1, 9)),
        (any_of("(date-1-days-ago)", "(... 98 values hidden)"), DAY, (None, None)),
        (condition("gt", "(timestamp-5-hours-ago)"), HOUR, (None, 6)),
        (condition("gt", "(timestamp-5-hours-ago)"), DAY, (None, 0)),
        (condition("gt", "(timestamp-13-hours-ago)"), DAY, (None, 0)),  # at midnight
        (condition("gt", "(timestamp-14-hours-ago)"), DAY, (None, 1)),
        (condition("lt", "(timestamp-13-hours-ago)"), DAY, (1, None)),
        (condition("gt", "(timestamp-7-days-ago)"), DAY, (None, 7)),
        (condition("gt", "(timestamp-40-days-ago)"), MONTH, (None, 1)),
        (condition("lt", "(timestamp-40-days-ago)"), MONTH, (1, None)),
        (condition("gt", "(timestamp)"), DAY, (None, None)),
        (condition("gt", "(date-5-days-from-now)"), DAY, (None, 0)),
        (condition("eq", "(date-today)", BY_DAY), DAY, (None, 0)),
        (condition("eq", "(date-today)", "other"), DAY, None),
        (condition("not-eq", "(date-today)"), DAY, None),
        (True, DAY, None),
        (condition("gt-eq", "(date-today)"), None, None),
    ],
)  # fmt: skip
def test_the_partitions_that_a_filter_reaches(
    filter: Any, clock: PartitionClock | None, ages: tuple[int | None, int | None] | None
) -> None:
    assert ages_of(scan(filter), clock, NOW_MS) == ages


def test_scans_are_counted_by_the_partitions_that_they_reach() -> None:
    layout = TableLayout((), ("ts",), DAY)
    counts, table = ScanCounts(0), ScannedTable(TableName(UUID, ("a",), "t"), layout)
    today, week = (scan(condition("gt-eq", f"(date-{x})")) for x in ("today", "6-days-ago"))
    counts.add_scans(table, [today, week, today, scan(True)], NOW_MS)
    [event] = counts.take_events(9, NOW_MS)
    assert event.scans == 4
    assert event.ranges == (ScannedRange(None, 0, 2, 2), ScannedRange(None, 6, 1, 1))
    many = [scan(condition("eq", f"(date-{x}-days-ago)")) for x in range(1, 80)]
    counts.add_scans(table, many, NOW_MS)
    [event] = counts.take_events(9, NOW_MS)
    assert (event.scans, len(event.ranges)) == (79, MAX_RANGES)


@given(
    st.recursive(
        st.one_of(
            st.booleans(),
            st.builds(
                condition,
                st.sampled_from(["gt", "gt-eq", "lt", "lt-eq", "eq", "starts-with", "is-null"]),
                st.one_of(st.text(), st.integers(), st.none(), st.just("(date-today)")),
            ),
        ),
        lambda inner: st.builds(both, inner, inner, st.sampled_from(["and", "or", "not"])),
        max_leaves=20,
    )
)
def test_no_filter_makes_a_scan_unreadable(filter: Any) -> None:
    ages = ages_of(scan(filter), DAY, NOW_MS)
    assert ages is None or len(ages) == 2


@given(st.sampled_from(["gt", "gt-eq", "lt", "lt-eq", "eq"]), st.integers(0, 89))
def test_bounds_contain_the_day_that_they_are_of(kind: str, days: int) -> None:
    found = bounds_of(kind, [f"(date-{days}-days-ago)"], NOW_MS)
    begins_ms = TODAY_MS - days * DAY_MS
    assert found.from_ms in (None, begins_ms)
    assert found.until_ms in (None, begins_ms + DAY_MS - 1, begins_ms - 1)
    assert (found.until_ms == begins_ms - 1) == (kind == "lt")
    assert found != TimeBounds()
