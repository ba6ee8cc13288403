"""An executor that takes more memory than its manager allows."""

from __future__ import annotations

import pytest

from tests.integration.cluster import steps
from tests.integration.cluster.conftest import World
from tests.kit.spark_cluster import SPARK_MASTER
from tests.kit.spark_driver import SparkDriver

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]


def test_an_executor_beyond_its_limit_is_out_of_memory_and_the_next_task_runs(
    world: World, driver: SparkDriver
) -> None:
    if world.cluster.master == SPARK_MASTER:
        pytest.skip("Spark's own master kills no executor for its memory")
    rows = driver(steps.make, "limited")
    is_out_of_memory, kind, text = driver(steps.exhaust_memory)
    assert (is_out_of_memory, kind) == (True, "overhead"), text
    if world.cluster.master == "yarn":
        assert "killed by YARN for exceeding physical memory limits" in text
    result = driver(steps.rewrite, "limited")
    assert driver(steps.commit, "limited", result) == rows
