"""No minute has more calls than it may."""

from __future__ import annotations

import random

import pytest
from firnline_listener.core.call_budget import CallBudget


@pytest.mark.parametrize("per_minute", [1, 7, 60, 600])
def test_no_minute_has_more_calls(per_minute: int) -> None:
    now, dice = [0.0], random.Random(per_minute)

    def sleep(seconds: float) -> None:
        now[0] += seconds

    budget = CallBudget(per_minute, lambda: now[0], sleep)
    calls = list[float]()
    while now[0] < 600:
        budget.take_call()
        calls.append(now[0])
        if dice.random() < 0.02:
            sleep(dice.random() * 90)
    for at in calls:
        assert sum(at <= one < at + 60 for one in calls) <= per_minute
    assert len(calls) > per_minute  # and it is used


def test_a_call_is_left_besides_those_that_are_reserved() -> None:
    budget = CallBudget(20, lambda: 0.0)
    assert budget.has_call(1)
    assert not budget.has_call(2)
    budget.take_call()
    budget.take_call()
    assert not budget.has_call()
