"""By which columns a table's readers filter, of reports in any order and any number."""

from __future__ import annotations

import math

import pytest
from firnline_domain.counters.activity.filters import (
    MAX_COLUMNS,
    MIN_SCANS,
    TAU_MS,
    Filters,
    Use,
    after_scan_report,
)
from firnline_domain.records.events import FilteredBy, TableLayout, TableScanned
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.names import TABLE

MINUTE_MS = 60_000
START_MS = 1_800_000_000_000
FILES = 10
LAYOUT = TableLayout(("ts",), ("day",))


def scanned(
    by: dict[str, int],
    at_ms: int = START_MS,
    *,
    scans: int | None = None,
    read: float = 1.0,
    layout: TableLayout | None = LAYOUT,
) -> TableScanned:
    """A report of so many scans by column, each of which read that share of ten files."""
    every = max(by.values(), default=0) if scans is None else scans
    uses = tuple(FilteredBy(name, one, round(one * FILES * read)) for name, one in by.items())
    return TableScanned(TABLE, at_ms - MINUTE_MS, at_ms, every, every * FILES, uses, layout)


def after(filters: Filters | None, event: TableScanned, now_ms: int | None = None) -> Filters:
    found = after_scan_report(filters, event, FILES, event.to_ms if now_ms is None else now_ms)
    assert found is not None
    return found


def test_the_first_report_counts() -> None:
    found = after(None, scanned({"id": 4, "day": 2}, scans=9, read=0.5))
    uses = (Use("id", 4.0, 2.0), Use("day", 2.0, 1.0))
    assert found == Filters(START_MS, 9.0, uses, LAYOUT)


@pytest.mark.parametrize("event", [scanned({}), scanned({"id": 4}, layout=None)])
def test_nothing_is_kept_where_there_is_nothing_to_advise(event: TableScanned) -> None:
    assert after_scan_report(None, event, FILES, START_MS) is None


def test_an_even_rate_is_what_a_day_brings() -> None:
    found: Filters | None = None
    for hour in range(24 * 14):
        found = after(found, scanned({"id": 3}, START_MS + hour * 60 * MINUTE_MS, scans=6))
    assert found is not None
    assert found.use_of("id") == pytest.approx(72, rel=0.05)
    assert found.scans == pytest.approx(144, rel=0.05)
    assert found.use_of("ts") == 0.0


def test_scans_without_a_filter_count_for_the_share_alone() -> None:
    found = after(after(None, scanned({"id": 4})), scanned({}, scans=6))
    assert (found.scans, found.uses) == (10.0, (Use("id", 4.0, 4.0),))


def test_counts_decay_over_a_day_and_are_forgotten() -> None:
    found = after(None, scanned({"id": 4}))
    day = found.decay_to(START_MS + TAU_MS)
    assert day.use_of("id") == pytest.approx(4 / math.e)
    assert day.scans == pytest.approx(4 / math.e)
    assert found.decay_to(START_MS - 1) == found
    long_ms = START_MS + round(TAU_MS * math.log(4 / MIN_SCANS))
    assert after_scan_report(found, scanned({}, long_ms - 1_000), FILES, long_ms) is not None
    assert after_scan_report(found, scanned({}, long_ms + 1_000), FILES, long_ms + 1_000) is None


def test_a_report_from_the_future_is_one_of_now_and_a_late_one_counts_what_is_left() -> None:
    found = after(None, scanned({"id": 4}))
    now_ms = START_MS + MINUTE_MS
    early = after(found, scanned({"id": 4}, now_ms + TAU_MS), now_ms)
    assert early == after(found, scanned({"id": 4}, now_ms), now_ms)
    late = after(found, scanned({"id": 4}, START_MS - TAU_MS), START_MS)
    assert late.as_of_ms == START_MS
    assert late.use_of("id") == pytest.approx(4 + 4 / math.e)
    assert after(None, scanned({"id": 4}, START_MS + 1), START_MS).as_of_ms == START_MS


def test_the_newest_layout_that_is_told_holds() -> None:
    found = after(None, scanned({"id": 4}))
    assert after(found, scanned({"id": 4}, layout=None)).layout == LAYOUT
    assert after(found, scanned({}, layout=TableLayout())).layout == TableLayout()


def test_a_column_that_is_used_steadily_gets_in_and_one_that_is_not_stays_out() -> None:
    found = after(None, scanned({f"old{number}": 100 for number in range(MAX_COLUMNS)}))
    for number in range(1, 6):
        found = after(found, scanned({"new": 30}, START_MS + number))
    assert found.use_of("new") > 0
    assert [one.column for one in found.uses[:3]] == ["old0", "old1", "old2"]
    found = after(None, scanned({f"old{number}": 100 for number in range(MAX_COLUMNS)}))
    for number in range(50):
        busy = {f"old{one}": 2 for one in range(MAX_COLUMNS)} | {f"once{number}": 1}
        found = after(found, scanned(busy, START_MS + number))
    assert {one.column for one in found.uses} == {f"old{number}" for number in range(MAX_COLUMNS)}
    assert found.uses[0].scans == pytest.approx(200, rel=0.01)


reports = st.builds(
    lambda by, at_ms, scans, read, layout: scanned(
        by, START_MS + at_ms, scans=scans, read=read, layout=layout
    ),
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 1_000), max_size=6),
    st.integers(-(10**9), 10**9),
    st.integers(0, 1_000),
    st.floats(0, 3),
    st.sampled_from([None, LAYOUT]),
)


@given(st.lists(st.tuples(reports, st.integers(-(10**9), 10**9)), max_size=12))
def test_whatever_comes_there_are_few_columns_in_order(
    came: list[tuple[TableScanned, int]],
) -> None:
    found: Filters | None = None
    for event, ms in came:
        found = after_scan_report(found, event, FILES, START_MS + ms)
        if found is None:
            continue
        counts = [one.scans for one in found.uses]
        assert 0 < len(counts) <= MAX_COLUMNS
        assert counts == sorted(counts, reverse=True)
        assert all(MIN_SCANS <= one.scans < math.inf for one in found.uses)
        assert all(0 <= one.whole <= one.scans * (1 + 1e-9) for one in found.uses)
