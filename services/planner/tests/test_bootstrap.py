"""What a planner refuses to start with."""

from __future__ import annotations

import pytest
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import Misconfigured
from firnline_planner.bootstrap import run, thresholds_of
from firnline_planner.settings import PlannerSettings


def test_an_unknown_driver_is_named_with_those_that_there_are() -> None:
    settings = PlannerSettings(kafka="127.0.0.1:1", state_dir="/nowhere", driver="storm")
    with pytest.raises(Misconfigured, match="'storm' is none of faust, kafka"):
        run(settings, Log("planner"))


@pytest.mark.parametrize("hours", [float("nan"), float("inf"), -1.0, 1e-300])
def test_a_budget_that_is_no_number(hours: float) -> None:
    settings = PlannerSettings(kafka="127.0.0.1:1", state_dir="/nowhere", budget_gb_hours=hours)
    with pytest.raises(Misconfigured, match="FIRNLINE_BUDGET_GB_HOURS="):
        run(settings, Log("planner"))


@pytest.mark.parametrize("quota", ["nan", "inf", "1e999", "1e-300", "-1", "٣", "0", "1_0"])
def test_a_quota_that_is_no_number(quota: str) -> None:
    settings = PlannerSettings(kafka="127.0.0.1:1", state_dir="/nowhere", groups=f"etl={quota}")
    with pytest.raises(Misconfigured, match="FIRNLINE_GROUPS"):
        run(settings, Log("planner"))


def test_how_memory_is_given_back_is_a_default() -> None:
    text = '{"firnline.memory.back-at-once": "true"}'
    settings = PlannerSettings(kafka="127.0.0.1:1", state_dir="/nowhere", defaults=text)
    assert thresholds_of(settings).memory_back_at_once


def test_groups_that_cannot_be_read() -> None:
    settings = PlannerSettings(kafka="127.0.0.1:1", state_dir="/nowhere", groups="ETL")
    with pytest.raises(Misconfigured, match="FIRNLINE_GROUPS: 'ETL': the name of a group"):
        run(settings, Log("planner"))
