"""Medians, intervals, bars, and ratios taken pair by pair."""

from __future__ import annotations

import statistics

import pytest

from bench.rewrite.figures import Bar, Figure, figure, ratio_bar


def test_a_figure_is_the_median_between_the_lowest_and_the_highest():
    assert figure([5.0, 1.0, 2.0]) == Figure(2.0, 1.0, 5.0)
    assert figure([1.0, 2.0, 3.0, 10.0]).median == 2.5


def test_nothing_has_no_median():
    with pytest.raises(statistics.StatisticsError):
        figure([])


@pytest.mark.parametrize(
    ("limit", "met"), [(2.0, True), (1.999, False), (None, None)], ids=["at it", "above", "shown"]
)
def test_a_bar_is_met_by_the_median(limit, met):
    assert Bar("CPU", limit, Figure(2.0, 1.0, 9.0)).met is met


def test_a_bar_says_whether_it_is_met():
    assert str(Bar("CPU", 2.0, Figure(2.0, 1.0, 9.0))).startswith("pass  CPU: 2 [1-9], bar 2")
    assert str(Bar("CPU", 1.0, Figure(2.0, 1.0, 9.0))).startswith("FAIL")
    assert "bar" not in str(Bar("CPU", None, Figure(2.0, 1.0, 9.0)))


def test_ratios_are_of_the_same_round():
    """By pairs: 1/10, 40/20 and 3/30; the ratio of the medians would be 3/20."""
    bar = ratio_bar("CPU", 0.2, [1.0, 40.0, 3.0], [10.0, 20.0, 30.0])
    assert bar.found == Figure(0.1, 0.1, 2.0)
    assert bar.as_json() == {
        "what": "CPU",
        "limit": 0.2,
        "found": {"median": 0.1, "low": 0.1, "high": 2.0},
        "met": True,
    }


def test_rounds_without_a_partner_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        ratio_bar("CPU", None, [1.0, 2.0], [1.0])
