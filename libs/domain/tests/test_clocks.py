"""The present, by several clocks of which one may be wrong."""

from __future__ import annotations

import pytest
from firnline_domain.clocks import FURTHEST_MS, agreed_now
from firnline_domain.errors import TaskRefused

NOW = 1_796_000_000_000


def test_the_earliest_clock_counts() -> None:
    clocks = {"this host": NOW + 7, "the catalog": NOW, "the storage": NOW + FURTHEST_MS}
    assert agreed_now(clocks, NOW - 10**9) == NOW
    assert agreed_now(clocks, NOW + FURTHEST_MS) == NOW


@pytest.mark.parametrize("wrong", ["this host", "the catalog", "the storage"])
@pytest.mark.parametrize("by", [FURTHEST_MS + 1, -FURTHEST_MS - 1, 10**12, -(10**12), 10**30])
def test_any_clock_that_is_far_from_another_stops_it(wrong: str, by: int) -> None:
    clocks = {"this host": NOW, "the catalog": NOW, "the storage": NOW, wrong: NOW + by}
    with pytest.raises(TaskRefused) as refused:
        agreed_now(clocks, min(clocks.values()))
    assert (refused.value.reason, refused.value.retryable) == ("clocks_differ", True)
    assert all(name in str(refused.value) for name in clocks)
    assert "chronyc" in str(refused.value)


def test_an_order_from_the_future_stops_it() -> None:
    clocks = {"this host": NOW, "the storage": NOW}
    with pytest.raises(TaskRefused, match="the order 2"):
        agreed_now(clocks, NOW + FURTHEST_MS + 1)


@pytest.mark.parametrize("clocks", [{}, {"this host": NOW}])
def test_one_clock_is_none(clocks: dict[str, int]) -> None:
    with pytest.raises(TaskRefused, match="only one clock is known"):
        agreed_now(clocks, NOW)
