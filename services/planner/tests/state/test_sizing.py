"""What becomes of heavy orders sizes the lane's workers; time is what the test says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from firnline_domain.base.values import replace
from firnline_domain.identity import Scope
from firnline_domain.policy.cost_model import LearnedFactors
from firnline_domain.policy.fleet.worker_memory import (
    REPEAT_MS,
    STEP_DOWN_AFTER,
    MemoryKind,
    Steps,
)
from firnline_domain.records.events import PartitionChange, RewriteConflicted, RewriteSkipped
from firnline_domain.records.orders import RewriteFiles, SizeWorkers
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.results import TaskFailed, TaskRunning
from firnline_domain.settings.groups import Group
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner import meters
from firnline_planner.state.encoding import SHARE, share_from, to_bytes
from firnline_planner.state.fleet_share import FleetShare
from prometheus_client import REGISTRY

from tests.kit.planner_world import TABLE, PlannerWorld

BUCKET = 5
HEAVY = Thresholds(quiet_ms=0, cool_down_ms=0, heavy_bytes=0)  # whatever has deletes is heavy
ORDINARY = Thresholds(quiet_ms=0, cool_down_ms=0)


@dataclass
class World(PlannerWorld):
    """Orders come to whatever end the test wants."""

    limits: Thresholds = HEAVY
    number: int = BUCKET

    def order(self, name: str) -> RewriteFiles:
        """One of a partition of its own."""
        scope = Scope(0, f'["{name}"]')
        deletes = FileTally(fragments=Tally(8, 8, 8), equality_deletes=Tally(8, 8, 8))
        [order] = [
            one
            for one in self.commit(PartitionChange(scope, deletes, FileTally()))
            if isinstance(one, RewriteFiles)
        ]
        return order

    def failed(self, order: RewriteFiles, memory: str | None, reason: str = "out_of_memory") -> Any:
        return self.take(
            TaskFailed(
                order.task_id, TABLE, "main", order.scope, "rewrite", order.attempt, "w", reason,
                "", True, self.now_ms, memory,
            )
        )  # fmt: skip

    def succeeds(self, name: str) -> None:
        order = self.order(name)
        gone = FileTally(fragments=Tally(8, 8, 8), equality_deletes=Tally(8, 8, 8))
        change = PartitionChange(order.scope, FileTally(), gone)
        self.commit(change, task_id=order.task_id)

    @property
    def directives(self) -> list[SizeWorkers]:
        return [one.record for one in self.sent if isinstance(one.record, SizeWorkers)]

    @property
    def keyed(self) -> list[tuple[str, Any]]:
        """Everything that was sent, with its key."""
        return [(one.key, one.record) for one in self.sent]


@pytest.fixture
def world() -> World:
    return World()


def steps_shown(world: World, group: str) -> tuple[float | None, ...]:
    """Heap and other memory, as Prometheus sees them."""
    meters.set_gauges([world.bucket])
    return tuple(shown_steps(group, memory) for memory in MemoryKind)


def shown_steps(group: str, memory: str) -> float | None:
    labels = {"group": group, "memory": memory}
    return REGISTRY.get_sample_value("firnline_worker_memory_steps", labels)


def short(world: World, *names: str, memory: str | None = "heap") -> None:
    for name in names:
        world.failed(world.order(name), memory)


def test_three_heavy_orders_in_a_row_make_one_directive_and_no_more(world: World) -> None:
    short(world, "a", "b")
    world.tick()
    assert world.directives == []
    short(world, "c")
    for _ in range(20):
        world.tick()
        world.restart()
    [one] = world.directives
    assert (one.lane, one.bucket, one.reason) == ("heavy", BUCKET, "out_of_memory")
    assert (one.heap_steps, one.overhead_steps) == (1, 0)
    assert ("heavy/5", one) in world.keyed


def test_the_memory_that_the_workers_told_of_grows(world: World) -> None:
    short(world, "a", "b", "c", memory=None)
    world.tick()
    assert [(one.heap_steps, one.overhead_steps) for one in world.directives] == [(0, 1)]


def test_who_nearly_ran_out_of_memory_counts_once_and_also_if_it_succeeds(world: World) -> None:

    def run(order: RewriteFiles, attempt: int, memory: str | None) -> None:
        said = TaskRunning(order.task_id, TABLE, "main", order.scope, attempt, "w", 0, 0)
        world.take(replace(said, memory=memory))

    for name in "xyz":
        order = world.order(name)
        run(order, order.attempt + 1, "heap")  # another attempt's
        run(order, order.attempt, None)
    world.tick()
    assert world.directives == []
    for name in "abc":
        order = world.order(name)
        for _ in range(2):
            run(order, order.attempt, "heap")
        world.tick()
        assert len(world.directives) == (name == "c")
        world.take(
            RewriteConflicted(
                order.task_id, TABLE, "main", order.scope, ConflictReason.PIN_LOST, "", 1, None, 0
            )
        )
    assert [(one.heap_steps, one.overhead_steps) for one in world.directives] == [(1, 0)]


def test_ordinary_orders_and_other_failures_do_not_count() -> None:
    ordinary = World(limits=ORDINARY)
    short(ordinary, *"abcdef")
    ordinary.tick()
    assert ordinary.directives == []
    other = World(limits=HEAVY)
    for name in "abcdef":
        other.failed(other.order(name), None, "worker_error")
    other.tick()
    assert other.directives == []


def test_each_group_has_wishes_of_its_own(world: World) -> None:
    """Two of three were the default group's: neither has enough for a step."""
    groups = (Group("etl"), Group("adhoc"))
    short(world, "a", "b")
    world.limits = replace(HEAVY, groups=groups, group="etl")
    world.restart()
    short(world, "c", "d", memory=None)
    world.tick()
    assert world.directives == []
    short(world, "e", memory=None)
    world.tick()
    world.tick()
    assert (steps_shown(world, "etl"), steps_shown(world, "default")) == ((0, 1), (0, 0))
    meters.set_gauges([])  # it has lost its buckets
    assert [shown_steps("etl", memory) for memory in MemoryKind] == [0, 0]
    [theirs] = world.directives
    assert (theirs.group, theirs.heap_steps, theirs.overhead_steps) == ("etl", 0, 1)
    assert ("heavy/5/etl", theirs) in world.keyed
    world.limits = replace(HEAVY, groups=groups)
    world.restart()
    short(world, "f")
    world.tick()
    [_, ours] = world.directives
    assert (ours.group, ours.heap_steps, ours.overhead_steps) == ("", 1, 0)
    assert ("heavy/5", ours) in world.keyed


def test_what_becomes_of_an_order_is_its_groups_whatever_the_table_is_in_by_then(
    world: World,
) -> None:
    world.limits = replace(HEAVY, groups=(Group("etl"),), group="etl")
    world.restart()
    orders = [world.order(name) for name in "abc"]
    world.limits = HEAVY  # the group has ended
    world.restart()
    for order in orders:
        world.failed(order, "heap")
    world.tick()
    assert [(one.group, one.heap_steps) for one in world.directives] == [("etl", 1)]


def test_a_groups_wish_ends_as_any_other(world: World) -> None:
    world.limits = replace(HEAVY, groups=(Group("etl"),), group="etl")
    world.restart()
    short(world, "a", "b", "c")
    world.tick()
    for number in range(STEP_DOWN_AFTER):
        world.succeeds(f"w{number}")
    world.tick()
    assert [(one.group, one.heap_steps) for one in world.directives] == [("etl", 1), ("etl", 0)]
    kept = share_from(world.store.values[SHARE])
    assert share_from(to_bytes(kept)) == kept
    assert kept.memory_of("etl").lowered
    assert not kept.memory_of("").lowered


def test_a_failure_told_twice_counts_once(world: World) -> None:
    order = world.order("a")
    for _ in range(3):
        world.failed(order, "heap")
    world.tick()
    assert world.directives == []


def test_who_came_to_a_result_had_enough_whatever_became_of_it(world: World) -> None:
    short(world, "a", "b")
    order = world.order("c")
    world.take(
        RewriteConflicted(
            order.task_id, TABLE, "main", order.scope, ConflictReason.PIN_LOST, "", 1, None, 0
        )
    )
    short(world, "d", "e")
    world.tick()
    assert world.directives == []


def test_an_order_that_did_nothing_shows_nothing(world: World) -> None:
    short(world, "a", "b")
    order = world.order("c")
    world.take(RewriteSkipped(order.task_id, TABLE, "main", order.scope, "nothing_to_do", 0))
    short(world, "d")
    world.tick()
    assert len(world.directives) == 1


def test_a_run_of_successes_takes_it_back(world: World) -> None:
    short(world, "a", "b", "c")
    world.tick()
    for number in range(STEP_DOWN_AFTER - 1):
        world.succeeds(f"w{number}")
    world.tick()
    assert len(world.directives) == 1
    world.succeeds("last")
    world.tick()
    assert [one.heap_steps for one in world.directives] == [1, 0]
    assert world.directives[-1].reason == "recovered"


def test_it_is_taken_back_at_once_where_the_deployment_says_so(world: World) -> None:
    world.limits = replace(HEAVY, memory_back_at_once=True)
    world.restart()
    short(world, *"abcdef")
    world.tick()
    assert [one.heap_steps for one in world.directives] == [2]
    world.tick(REPEAT_MS)
    assert [one.heap_steps for one in world.directives] == [2, 0]
    short(world, *"ghijkl")
    world.tick()
    for number in range(2 * STEP_DOWN_AFTER):
        world.succeeds(f"w{number}")
    world.tick()
    assert [one.heap_steps for one in world.directives] == [2, 0, 2, 0]


def test_a_wish_is_repeated_daily_while_it_holds_and_ends_without_trouble(world: World) -> None:
    """A day without trouble is a step back; where there is trouble every day, the wish stays."""
    short(world, "a", "b", "c")
    world.tick()
    short(world, "d")
    world.tick(REPEAT_MS - 1_000)
    short(world, "e")
    world.tick(1_000)
    assert [(one.heap_steps, one.reason) for one in world.directives] == [
        (1, "out_of_memory"),
        (1, "repeated"),
    ]
    world.tick(REPEAT_MS)
    assert world.directives[-1].heap_steps == 0
    for _ in range(5):
        world.tick(REPEAT_MS)
    assert len(world.directives) == 3


def test_what_was_learned_is_kept(world: World) -> None:
    short(world, "a", "b", "c")
    world.tick()
    kept = share_from(world.store.values[SHARE])
    assert kept.memory.reported == Steps(heap=1)
    assert share_from(to_bytes(kept)) == kept
    share = FleetShare(prices={"etl": LearnedFactors(2.0, 0.5)})
    assert share_from(to_bytes(share)) == share


def test_a_fleet_without_trouble_keeps_and_says_nothing(world: World) -> None:
    for number in range(30):
        world.succeeds(f"w{number}")
        world.tick()
    assert world.directives == []
    assert SHARE not in world.store.values
