"""One world for the planner's tests."""

from __future__ import annotations

import pytest

from tests.kit.planner_world import PlannerWorld


@pytest.fixture
def world() -> PlannerWorld:
    return PlannerWorld()
