"""What is due when, what is not kept, what a restart goes on with."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.errors import PoisonousRecord
from firnline_domain.identity import Scope
from firnline_domain.records.events import (
    PartitionChange,
    TickPassed,
)
from firnline_domain.records.orders import (
    ExpireSnapshots,
    ResyncTable,
    RewriteFiles,
)
from firnline_domain.records.parts.tallies import FileTally, Tally

from tests.kit.planner_world import (
    EXPIRING,
    LIMITS,
    TABLE,
    A,
    B,
    PlannerWorld,
    only,
    part,
    partition_of,
)


def test_a_step_that_is_not_kept_comes_out_the_same_again(world: PlannerWorld) -> None:
    """A crash between sending and keeping repeats the order under the same id."""
    world.commit(part(A, 7))
    change = world.change(2, 1, part(A, 1))
    first = world.bucket.handle(change, world.now_ms)
    world.restart()
    assert world.bucket.handle(change, world.now_ms).outputs == first.outputs
    world.bucket.discard()
    assert world.bucket.handle(change, world.now_ms).outputs == first.outputs


def test_what_was_due_stays_due_where_a_tick_is_not_kept(world: PlannerWorld) -> None:
    world.commit(part(A, 1))
    world.now_ms += 1_000
    tick = TickPassed(0, world.now_ms)
    first = world.bucket.handle(tick, world.now_ms)
    assert first.outputs
    world.bucket.discard()
    assert world.bucket.handle(tick, world.now_ms).outputs == first.outputs


def test_a_restart_goes_on_where_the_state_ends(world: PlannerWorld) -> None:
    order = only(world.commit(part(A, 8)))
    world.head += 1
    assert world.commit(part(A, 1)) == []  # a parent is missing: a request is due in 3 s
    world.restart()
    assert (world.bucket.table_count, world.bucket.in_flight) == (1, 1)
    assert [one for one in world.tick(3_000) if isinstance(one, ResyncTable)]
    world.take(world.change(2, 1, part(A, 1)))
    world.commit(part(A, 1, 8), task_id=order.task_id)
    assert partition_of(world.state(), A).status == "cooling"


def test_a_tick_with_nothing_due_touches_nothing(world: PlannerWorld) -> None:
    world.commit(part(A, 1))
    world.state()
    before = dict(world.store.values)
    assert world.tick() == []
    assert world.store.values == before


def test_a_state_is_shown_once_a_second_at_the_most() -> None:
    world = PlannerWorld(limits=replace(LIMITS, quiet_ms=100))
    world.commit(part(A, 1))
    world.tick(10)
    world.commit(part(A, 8))
    assert only(world.tick(200))  # a visit, for the quiet period is over
    assert len(world.published()) == 1
    world.tick(800)
    assert len(world.published()) == 2


def test_a_request_is_due_by_itself(world: PlannerWorld) -> None:
    world.commit(part(A, 1))
    world.head += 1
    world.commit(part(A, 1))
    assert not [one for one in world.tick(1_500) if isinstance(one, ResyncTable)]
    assert [one for one in world.tick(1_500) if isinstance(one, ResyncTable)]


def test_an_expiry_is_due_by_itself(world: PlannerWorld) -> None:
    world.more = {"settings": EXPIRING}
    large = FileTally(on_target=Tally(1, 1, 1))  # no debt: nothing else ever falls due
    for _ in range(2):
        world.commit(PartitionChange(A, large, FileTally()))
    world.tick(2_000)
    assert [one for one in world.tick(3_600_000) if isinstance(one, ExpireSnapshots)]


def test_global_deletes_burden_every_partition(world: PlannerWorld) -> None:
    world.commit(part(A, 1), part(B, 1))
    deletes = FileTally(equality_deletes=Tally(4, 4, 4))
    records = world.commit(PartitionChange(Scope(1, "[]"), deletes, FileTally()))
    orders = {one.scope: one.reason for one in records if isinstance(one, RewriteFiles)}
    assert (orders[A], orders[B]) == ("global_deletes", "global_deletes")


def test_a_record_that_has_no_business_here_is_poisonous(world: PlannerWorld) -> None:
    with pytest.raises(PoisonousRecord) as poison:
        world.take(TABLE)
    assert poison.value.reason == "unexpected_record"
