"""What actions on a whole table cost is learned from their results, one small step at a time."""

from __future__ import annotations

import math

import pytest
from firnline_domain.policy.cost.dollars import expected_s, pace_after
from firnline_domain.policy.cost_model import (
    LEARNING,
    MAX_FACTOR,
    MAX_STEP_RATIO,
    LearnedFactors,
    cost_model,
)
from firnline_domain.settings.thresholds import Thresholds
from hypothesis import given
from hypothesis import strategies as st

PACES = st.floats(1 / MAX_FACTOR, MAX_FACTOR)
STEP = math.pow(MAX_STEP_RATIO, LEARNING)  # 1.149


@given(PACES, st.floats(allow_nan=True, allow_infinity=True), st.integers(-(2**63), 2**63 - 1))
def test_no_result_moves_a_price_by_more_than_a_step(
    pace: float, expected: float, worked_ms: int
) -> None:
    after = pace_after(pace, expected, worked_ms)
    assert pace / STEP * 0.999 <= after <= pace * STEP * 1.001
    assert 1 / MAX_FACTOR <= after <= MAX_FACTOR


@given(PACES, st.floats(0.25, 4.0), st.floats(1.0, 10_000.0))
def test_results_that_agree_are_believed_in_the_end(
    pace: float, true: float, expected: float
) -> None:
    for _ in range(100):
        pace = pace_after(pace, expected, round(true * expected * 1_000))
    assert pace == pytest.approx(true, rel=0.15)


@given(st.floats(0.25, 4.0), st.floats(0.1, 1_000.0))
def test_one_lie_among_twenty_results_is_nearly_forgotten(true: float, expected: float) -> None:
    honest = round(true * expected * 1_000)
    pace = pace_after(true, expected, 10**15)
    for _ in range(20):
        pace = pace_after(pace, expected, honest)
    assert pace == pytest.approx(true, rel=0.05)


def test_each_action_has_its_own_and_before_it_that_of_rewrites() -> None:
    costs = cost_model(Thresholds(), LearnedFactors(rewrites=3.0), {"expire": 0.5})
    assert (costs.action_factor("expire"), costs.action_factor("remove_orphans")) == (0.5, 3.0)


def test_of_an_order_that_nobody_has_weighed_nothing_is_learned() -> None:
    assert expected_s({}) is None
    assert expected_s({"price_cpu_s": 3.0, "price_pace": 0.0}) is None
    assert expected_s({"price_cpu_s": 3.0, "price_pace": 2.0}) == 1.5
