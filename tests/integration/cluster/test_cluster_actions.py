"""All else that a worker does, on executors that share nothing with it, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import psutil
import pytest

from tests.integration.cluster import steps
from tests.integration.cluster.conftest import World
from tests.integration.cluster.test_executor_loss import wait_for
from tests.kit.spark_driver import SparkDriver

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]


@contextmanager
def losing_one(world: World) -> Iterator[None]:
    """Executors take tasks and do nothing with them; at the end one is killed, the others go on."""
    trees = [[one, *one.children(recursive=True)] for one in wait_for(world.cluster.executors)]
    _each(trees, psutil.Process.suspend)
    try:
        yield
    finally:
        _each(trees[:1], psutil.Process.kill)
        _each(trees[1:], psutil.Process.resume)


def _each(trees: list[list[psutil.Process]], call: Callable[[psutil.Process], None]) -> None:
    for one in [process for tree in trees for process in tree]:
        with suppress(psutil.NoSuchProcess):
            call(one)


def while_one_is_lost(
    world: World, driver: SparkDriver, step: Callable[..., Any], name: str
) -> Any:
    with ThreadPoolExecutor(1) as pool:
        with losing_one(world):
            running = pool.submit(driver, step, name)
            with suppress(TimeoutError):  # a new executor may have been quicker
                running.result(8)
        return running.result(600)


def test_icebergs_own_action_and_its_comparison_outlive_an_executor(
    world: World, driver: SparkDriver
) -> None:
    rows = driver(steps.make, "handed")
    assert while_one_is_lost(world, driver, steps.hand_over, "handed") is not None
    assert driver(steps.rows, "handed") == rows
    assert driver(steps.compare, "handed", "c1").startswith("equal"), "read on executors"


def test_an_expiry_needs_no_executor(world: World, driver: SparkDriver) -> None:
    """It is the driver's alone (docs/decisions/0043): with every executor frozen, and one of them
    killed, it comes to its end."""
    rows = driver(steps.make, "expired")
    assert driver(steps.hand_over, "expired") is not None
    with losing_one(world), ThreadPoolExecutor(1) as pool:
        expired, files = pool.submit(driver, steps.expire_all, "expired").result(120)
    assert expired >= 2
    assert files >= steps.FILES
    assert driver(steps.rows, "expired") == rows


def test_a_large_set_is_stored_fetched_once_per_host_and_gone(
    world: World, driver: SparkDriver
) -> None:
    rows = driver(steps.make, "stored")
    result = driver(steps.rewrite, "stored", 0)
    assert world.ours("-set") == []
    fetched = {path.rsplit("/", 1)[1] for path in _scratch(world) if _is_set(path)}
    assert len(fetched) <= 1, "one set, one name on every host"
    assert driver(steps.commit, "stored", result) == rows
    for _ in range(5):  # an executor that was busy when the task ended forgets with its next group
        if not fetched & {path.rpartition("/")[2] for path in _scratch(world)}:
            break
        driver(steps.rewrite, "stored", 0)
    else:
        pytest.fail(f"{fetched} are kept")


def _is_set(path: str) -> bool:
    return "/firnline-sets/" in path and path.endswith(".arrow")


def _scratch(world: World) -> list[str]:
    return [path for host in world.cluster.hosts for path in host.scratch()]


def test_what_executors_lack_is_one_line_with_its_remedy(world: World, driver: SparkDriver) -> None:
    assert driver(steps.checked) == []
    lines = driver(steps.checked, "http://10.213.7.99:1")
    assert lines
    assert all("cannot read the tables' storage" in line for line in lines)
    assert all("reach the endpoint" in line for line in lines)
