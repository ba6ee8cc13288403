"""A table on its way from v2 to v3: announced, upgraded, then a partition at a time."""

from __future__ import annotations

import pytest
from firnline_domain.base.times import DAY_MS
from firnline_domain.policy.table_action.upgrade_format import FormatReason
from firnline_domain.policy.triggers.table import TriggerReason
from firnline_domain.policy.triggers.v2_deletes import UPGRADE
from firnline_domain.records.events import PartitionChange
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.results import TableResult
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.planner_world import TABLE, A, B, PlannerWorld, committed, only, orders

FILE = 128 << 20
LONG = 10**15
LIMITS = Thresholds(  # readers and age ask for nothing
    target_bytes=FILE, reads_per_hour=0.0, max_age_ms=LONG, max_wait_ms=LONG, format_version=3
)
BIG = FileTally(
    on_target=Tally(4, 4_000_000, 4 * FILE),
    position_deletes=Tally(1, 10, 1_000),
    equality_deletes=Tally(1, 10, 1_000),
)


@pytest.fixture
def world() -> PlannerWorld:
    return PlannerWorld(limits=LIMITS)


def upgrade_of(records: list[object]) -> TableOrder:
    [order] = [one for one in records if isinstance(one, TableOrder) and one.action == UPGRADE]
    return order


def result(order: TableOrder, **numbers: float) -> TableResult:
    return TableResult(order.task_id, TABLE, order.action, None, "w", 0, numbers)


def test_announced_upgraded_and_then_converted_until_nothing_of_v2_is_left(
    world: PlannerWorld,
) -> None:
    changes = [PartitionChange(scope, BIG, FileTally()) for scope in (A, B)]
    told = upgrade_of(world.commit(*changes))
    assert told.reason == FormatReason.FORMAT_ANNOUNCED
    world.take(result(told, announced=1))
    assert world.state().actions[UPGRADE] == FormatReason.FORMAT_GRACE
    assert world.state().v2_partitions is None
    order = upgrade_of(world.tick(DAY_MS))
    world.restart()
    world.take(result(order, to_version=3))
    assert not orders([one.record for one in world.sent])
    world.commit(format_version=3)
    assert world.state().v2_partitions == 2
    sent = orders([one.record for one in world.sent])
    assert {one.scope for one in sent} == {A, B}
    assert {(one.action, one.reason, one.min_dead_ratio) for one in sent} == {
        ("convert", TriggerReason.V2_DELETES, 1.0)
    }
    gone = FileTally(position_deletes=Tally(1, 10, 1_000), equality_deletes=Tally(1, 10, 1_000))
    vectors = FileTally(deletion_vectors=Tally(4, 20, 400))
    for order in sent:
        change = PartitionChange(order.scope, vectors, gone)
        world.commit(change, format_version=3, task_id=order.task_id)
        world.take(committed(order, world.head))
    world.tick(60_000)
    assert world.state().v2_partitions == 0
    assert not [one for _ in range(5) for one in orders(world.tick(3_600_000))]


def test_what_is_left_once_is_not_ordered_again(world: PlannerWorld) -> None:
    change = PartitionChange(A, BIG, FileTally())
    told = upgrade_of(world.commit(change, format_version=3))
    assert told.reason == FormatReason.FORMAT_VERSION  # v3 already: nothing to announce
    world.take(result(told, to_version=3))
    world.tick(60_000)
    order = only([one.record for one in world.sent])
    world.take(committed(order))
    assert not [one for _ in range(5) for one in orders(world.tick(3_600_000))]
    assert world.state().v2_partitions == 1
