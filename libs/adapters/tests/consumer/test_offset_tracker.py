"""Nothing commits past a record that is not done."""

from __future__ import annotations

from firnline_adapters.consumer.offset_tracker import OffsetTracker
from hypothesis import given
from hypothesis import strategies as st


def test_it_stops_at_the_first_open_record() -> None:
    mark = OffsetTracker(10)
    for offset in (10, 11, 12):
        mark.mark_read(offset)
    mark.mark_done(12)
    mark.mark_done(10)
    assert mark.committable == 11


def test_nothing_read_is_the_start() -> None:
    assert OffsetTracker(7).committable == 7


@given(st.permutations(range(8)), st.integers(0, 8))
def test_low_is_the_smallest_not_done(order: list[int], finished: int) -> None:
    mark = OffsetTracker(0)
    for offset in range(8):
        mark.mark_read(offset)
    for offset in order[:finished]:
        mark.mark_done(offset)
        mark.mark_done(offset)
    assert mark.committable == min(set(range(8)) - set(order[:finished]), default=8)
