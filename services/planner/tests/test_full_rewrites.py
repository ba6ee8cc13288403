"""Every file of a partition once in an interval: the partitions one after the other, and each once
where nothing changes."""

from __future__ import annotations

from typing import Any

from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.identity import Scope
from firnline_domain.records.events import PartitionChange
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.planner_world import PlannerWorld, committed

MB = 1 << 20
COUNT = 48
WEEKLY = {"firnline.rewrite.full-interval-ms": str(7 * DAY_MS)}
LIMITS = Thresholds(
    quiet_ms=0, target_bytes=128 * MB, reads_per_hour=0.0, max_commits=0, max_wait_ms=60 * DAY_MS
)
SCOPES = [Scope(0, f"[{number}]") for number in range(COUNT)]
LARGE = FileTally(on_target=Tally(4, 4_000_000, 512 * MB), deletion_vectors=Tally(1, 10, 100))


def rewrites(records: list[Any]) -> list[RewriteFiles]:
    return [one for one in records if isinstance(one, RewriteFiles)]


def world_of_large_partitions(settings: dict[str, str]) -> PlannerWorld:
    world = PlannerWorld(limits=LIMITS, more={"settings": settings})
    parts = [PartitionChange(scope, LARGE, FileTally()) for scope in SCOPES]
    assert rewrites(world.commit(*parts)) == []
    return world


def lived(world: PlannerWorld, for_ms: int) -> list[tuple[int, RewriteFiles]]:
    """(When, order) of so long; a worker answers at once and leaves large files, no deletes."""
    found, ends_ms = list[tuple[int, RewriteFiles]](), world.now_ms + for_ms
    pending = list[RewriteFiles]()
    while world.now_ms < ends_ms:
        pending += rewrites(world.tick(HOUR_MS // 2))
        while pending:
            order = pending.pop(0)
            found.append((world.now_ms, order))
            clean = FileTally(on_target=Tally(4, 4_000_000, 512 * MB))
            change = PartitionChange(order.scope, clean, LARGE)
            told = {"task_id": order.task_id, "operation": "replace"}
            pending += rewrites(world.commit(change, **told))
            pending += rewrites(world.take(committed(order, world.head)))
    return found


def test_partitions_are_rewritten_all_over_the_interval_and_then_rest() -> None:
    world = world_of_large_partitions(WEEKLY)
    found = lived(world, 7 * DAY_MS)
    assert {order.action for _, order in found} == {"full"}
    assert sorted(order.scope for _, order in found) == sorted(SCOPES)
    days = [(at_ms - 1_000_000) // DAY_MS for at_ms, _ in found]
    assert max(days.count(day) for day in range(7)) < COUNT // 3
    assert min(days.count(day) for day in range(7)) > 0
    assert lived(world, 30 * DAY_MS) == []


def test_a_partition_that_changed_has_its_turn_again_an_interval_later() -> None:
    world = world_of_large_partitions(WEEKLY)
    first = {order.scope: at_ms for at_ms, order in lived(world, 7 * DAY_MS)}
    vector = FileTally(deletion_vectors=Tally(1, 10, 100))
    world.commit(PartitionChange(SCOPES[0], vector, FileTally()), operation="delete")
    [(at_ms, order)] = lived(world, 30 * DAY_MS)
    assert order.scope == SCOPES[0]
    assert 0 <= at_ms - first[SCOPES[0]] - 7 * DAY_MS <= HOUR_MS


def test_without_the_property_or_once_it_is_gone_there_is_none() -> None:
    assert lived(world_of_large_partitions({}), 9 * DAY_MS) == []
    world = world_of_large_partitions(WEEKLY)
    world.more = {"settings": {}}
    world.commit()
    assert lived(world, 9 * DAY_MS) == []
