"""A worker that is killed with its driver in the middle of an expiry, at each of its steps, while
its executors are there: another one ends it, and exactly what no snapshot has is gone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from firnline_domain.records.orders import ExpireSnapshots

from tests.integration.cluster import steps
from tests.integration.cluster.conftest import World
from tests.integration.cluster.test_driver_loss import worker
from tests.integration.cluster.test_executor_loss import wait_for
from tests.kit.spark_driver import SparkDriver

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]
BEFORE_ITS_COMMIT = None
REMOVALS = (0, 1, 3)  # after its commit alone, among data files, among manifests


def stored(world: World, namespace: str) -> set[str]:
    """Names of the table's files, without what its catalog and other actions keep."""
    files = (path for path in world.bucket.rglob("*") if path.is_file())
    names = (path.name for path in files if f"/{namespace}/" in str(path))
    return {name for name in names if not name.endswith((".json", ".puffin"))}


def killed_halfway(
    world: World,
    one: SparkDriver,
    namespace: str,
    order: ExpireSnapshots,
    removals: int | None,
    earlier: int = 0,
) -> set[str]:
    """What is stored when the worker dies, so many removals after its start, and those of the one
    before it among them: S3 does not say that a file was gone already."""
    new = (removals or 0) - earlier
    before, stands = stored(world, namespace), world.folder / f"{namespace}.{removals}.stands"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(one, steps.expire_halfway, order, removals, stands)
        wait_for(lambda: stands.exists() or running.done())
        assert not running.done(), running.result()
        wait_for(lambda: len(before - stored(world, namespace)) >= new)
        one.kill()
        with pytest.raises(EOFError):
            running.result(60)
    left = stored(world, namespace)
    assert len(before - left) == new
    return left


def test_an_expiry_whose_driver_is_killed_again_and_again_is_ended_by_another(world: World) -> None:
    namespace = "halfway"
    with worker(world, "expirer_0") as first:
        rows = first(steps.history, namespace)
        made, needed = first(steps.reachable, namespace)
        all_files, order = stored(world, namespace), first(steps.expire_order, namespace)
        assert needed <= all_files
        assert wait_for(world.cluster.executors)
        left = killed_halfway(world, first, namespace, order, BEFORE_ITS_COMMIT)
        assert [name.rpartition(".")[2] for name in left - all_files] == ["expiry"]
    for number, removals in enumerate(REMOVALS):
        with worker(world, f"expirer_{number + 1}") as another:
            there, needed = another(steps.reachable, namespace)
            assert there == (2 if number else made), "by the first one's commit"
            assert needed <= left, "gone, though a snapshot has it"
            earlier = REMOVALS[number - 1] if number else 0
            left = killed_halfway(world, another, namespace, order, removals, earlier)
    with worker(world, "last") as last:
        there, needed = last(steps.reachable, namespace)
        assert (there, needed <= left) == (2, True)
        assert {name.rpartition(".")[2] for name in left - needed} >= {"avro", "expiry"}
        removed = len(left - needed) - 1 + REMOVALS[-1]  # all but the journal, and those once more
        assert last(steps.expire_of, order) == (0, removed)
        assert stored(world, namespace) == needed
        assert last(steps.rows_and_kept, namespace) == rows
