"""A rewrite on executors that share nothing with the driver but the object store."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from tests.integration.cluster import steps
from tests.integration.cluster.conftest import CANARY, World
from tests.kit.spark_driver import SparkDriver

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.long]


def wait_for(seen: Callable[[], Any], seconds: float = 120.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := seen()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def test_a_rewrite_outlives_an_executor_that_is_killed(world: World, driver: SparkDriver) -> None:
    rows = driver(steps.make, "killed")
    lost = wait_for(world.cluster.executors)[0]
    frozen = [lost, *lost.children(recursive=True)]
    for one in frozen:  # it takes its group, and does nothing
        one.suspend()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(driver, steps.rewrite, "killed")
        wait_for(lambda: world.ours(".parquet"))  # the other one has written
        assert not running.done()
        for one in frozen:
            one.kill()
        result = running.result(300)
    assert (result.mode, len(result.groups)) == ("native", 2)
    assert sum(group.rows_masked for group in result.groups) == steps.FILES
    assert result.output_list is None  # names of the first try may yet be written to
    assert driver(steps.commit, "killed", result) == rows
    driver(steps.sweep, "killed")
    left = set(world.ours()) - set(driver(steps.live_names, "killed"))
    assert {name for name in left if not name.endswith(".rows.puffin")} == set()


def test_nobody_on_the_hosts_sees_a_secret(world: World, driver: SparkDriver) -> None:
    secrets = {CANARY, *(keys.secret for keys in world.catalog.handed_out)}
    assert len(secrets) > 1
    everyone = [*driver.tree, *(one for host in world.cluster.hosts for one in host.tree)]
    events = [path.read_text() for path in (world.folder / "events").rglob("*") if path.is_file()]
    assert "redacted" in "".join(events)
    shown = [*map(_told, everyone), *events, *world.cluster.read_logs()]
    assert [secret for secret in secrets for text in shown if secret in text] == []


def _told(process: psutil.Process) -> str:
    """What a process tells everybody of itself."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
