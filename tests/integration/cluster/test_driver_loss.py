"""A worker that is killed with its driver while executors write for it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import psutil
import pytest

from tests.integration.cluster import steps
from tests.integration.cluster.conftest import World
from tests.integration.cluster.test_executor_loss import wait_for
from tests.kit.spark_driver import SparkDriver, spark_driver

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]


@contextmanager
def worker(world: World, name: str) -> Iterator[SparkDriver]:
    """On a disk of its own."""
    environment = {**world.environment, "FIRNLINE_STATE_DIR": str(world.folder / name)}
    with spark_driver(environment) as made:
        yield made


def test_an_order_whose_driver_was_killed_is_done_by_another_and_nothing_is_left(
    world: World,
) -> None:
    with worker(world, "first") as first:
        rows = first(steps.make, "orphaned")
        order = first(steps.order, "orphaned")
        frozen = wait_for(world.cluster.executors)[0]
        theirs = {one.pid for one in world.cluster.executors()}
        tree = [frozen, *frozen.children(recursive=True)]
        for one in tree:  # it takes its group, and does nothing
            one.suspend()
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(first, steps.rewrite_of, order, 0)
            wait_for(lambda: world.ours(".parquet"))  # the other one has written
            first.kill()
            with pytest.raises(EOFError):
                running.result(60)
        for one in tree:  # and now it goes on, for nobody
            with suppress(psutil.NoSuchProcess):
                one.resume()
    left = set(world.ours())
    assert {name.rpartition(".")[2] for name in left} >= {"json", "parquet"}
    assert world.ours("-set"), "stored for executors"
    wait_for(lambda: theirs.isdisjoint(one.pid for one in world.cluster.executors()))
    with worker(world, "second") as second:
        result = second(steps.rewrite_of, order, 0)
        assert (result.task_id, result.attempt) == (order.task_id, order.attempt), "redelivered"
        written = {file.path.rpartition("/")[2] for g in result.groups for file in g.outputs}
        assert written.isdisjoint(left), "names of its own"
        assert second(steps.commit, "orphaned", result) == rows
        gone = {path.rpartition("/")[2] for path in second(steps.sweep, "orphaned")}
        assert {name for name in left if name.endswith(("-set", ".parquet"))} <= gone
        live = set(second(steps.live_names, "orphaned"))
        assert {name for name in world.ours() if not name.endswith(".rows.puffin")} == live
        assert world.store.uploads() == []
        assert second(steps.rows, "orphaned") == rows
