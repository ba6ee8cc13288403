"""Groups of workers, missing changes, dropped tables, other branches."""

from __future__ import annotations

import pytest
from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import replace
from firnline_domain.records.events import (
    ChangeKind,
)
from firnline_domain.records.orders import (
    ExpireSnapshots,
    ResyncTable,
    RewriteFiles,
)
from firnline_domain.records.states import TableAdvice
from firnline_domain.settings.groups import parse_groups, unserved_text
from firnline_planner.state.encoding import PARTITION
from firnline_planner.state.encoding import TABLE as TABLE_KEYS

from tests.kit.planner_world import (
    EXPIRING,
    LIMITS,
    A,
    B,
    PlannerWorld,
    failed,
    fragments,
    only,
    part,
)

GROUPS = replace(LIMITS, groups=parse_groups("etl,adhoc"))


@pytest.mark.parametrize(
    ("settings", "topic"),
    [
        ({}, "rewrite-tasks"),
        ({"firnline.group": "etl"}, "rewrite-tasks.etl"),
        ({"firnline.group": "adhoc"}, "rewrite-tasks.adhoc"),
        ({"namespace:firnline.group": "etl"}, "rewrite-tasks.etl"),
        ({"namespace:firnline.group": "etl", "firnline.group": "default"}, "rewrite-tasks"),
        ({"firnline.group": "bi"}, "rewrite-tasks"),
    ],
)
def test_an_order_waits_with_the_tables_group(settings: dict[str, str], topic: str) -> None:
    world = PlannerWorld(limits=GROUPS, more={"settings": settings})
    only(world.commit(part(A, 8)))
    assert [one for one in world.topics if one.startswith("rewrite")] == [topic]


def test_a_group_has_both_lanes_and_a_table_may_change_its_group() -> None:
    world = PlannerWorld(limits=GROUPS, more={"settings": {"firnline.group": "etl"}})
    world.take(failed(only(world.commit(part(A, 8))), retryable=True))
    only(world.tick(10_000))
    world.more = {"settings": {"firnline.group": "adhoc"}}
    only(world.commit(part(B, 8)))
    rewrites = [one for one in world.topics if one.startswith("rewrite")]
    assert rewrites == ["rewrite-tasks.etl", "rewrite-tasks-heavy.etl", "rewrite-tasks.adhoc"]


def test_a_group_that_the_fleet_lacks_stops_nothing_and_is_told_until_it_is_there() -> None:
    world = PlannerWorld(limits=GROUPS, more={"settings": {"firnline.group": "bi"}})
    records = world.commit(part(A, 8)) + world.tick()
    assert only(records)
    [told] = [one for one in records if isinstance(one, TableAdvice)]
    assert (told.rule, told.withdrawn) == ("unknown_group", False)
    assert told.finding.startswith(
        "firnline.group=bi of the table: no such group in this deployment"
    )
    assert "FIRNLINE_GROUPS" in told.remedy
    [shown] = [one for one in world.state().in_force or () if one.name == "firnline.group"]
    assert (shown.value, shown.problem) == ("bi", unserved_text("bi", GROUPS.groups))
    world.limits = replace(LIMITS, groups=parse_groups("etl,bi"))
    world.restart()
    after = world.commit(part(B, 8)) + world.tick()
    assert [one.withdrawn for one in after if isinstance(one, TableAdvice)] == [True]
    assert [one for one in world.topics if one.startswith("rewrite")][-1] == "rewrite-tasks.bi"


def test_expiries_are_the_default_groups() -> None:
    settings = {**EXPIRING, "firnline.group": "etl"}
    world = PlannerWorld(limits=GROUPS, more={"settings": settings})
    for _ in range(3):
        world.commit(part(A, 1))
    assert [one for one in world.tick(3_700_000) if isinstance(one, ExpireSnapshots)]
    orders = {one for one in world.topics if "-tasks" in one}
    assert orders == {"table-tasks", "rewrite-tasks.etl"}


def test_while_something_is_missing_nothing_is_ordered_and_afterwards_everything(
    world: PlannerWorld,
) -> None:
    world.commit(part(A, 1))
    world.head += 1
    missing = world.change(2, 1, part(B, 9))
    assert world.commit(part(A, 9)) == []
    [request] = [one for one in world.tick(3_000) if isinstance(one, ResyncTable)]
    assert (request.known_snapshot_id, request.reason) == (1, "missing_parent")
    assert world.state().waiting_for_resync
    orders = [one for one in world.take(missing) if isinstance(one, RewriteFiles)]
    assert {order.scope for order in orders} == {A, B}
    assert not world.state().waiting_for_resync


def test_partitions_that_absolute_counters_do_not_mention_are_empty(world: PlannerWorld) -> None:
    world.commit(part(A, 2), part(B, 3))
    world.take(world.change(9, 8, part(B, 4), kind=ChangeKind.ABSOLUTE))
    state = world.state()
    assert [(one.scope, one.holds) for one in state.partitions] == [(B, fragments(4))]
    assert (state.partition_count, state.holds, state.epoch) == (1, fragments(4), 2)


def test_a_table_that_lived_before_us_is_asked_for_at_once(world: PlannerWorld) -> None:
    world.head = 40
    [request] = world.commit(part(A, 1))
    assert isinstance(request, ResyncTable)
    assert (request.known_snapshot_id, request.reason) == (None, "first_seen")


def test_a_dropped_table_is_shown_as_such_and_forgotten_after_a_day(world: PlannerWorld) -> None:
    world.commit(part(A, 9))
    gone = world.change(0, None, snapshot_id=None, kind=ChangeKind.REMOVED, event_id="gone")
    assert world.take(gone) == []
    state = world.state()
    assert (state.removed, state.partitions, state.partition_count) == (True, (), 0)
    assert not [key for key in world.store.values if key.startswith(PARTITION)]
    world.tick(DAY_MS)
    assert world.store.values == {}
    assert world.bucket.table_count == 0


def test_other_branches_are_not_counted_but_may_hold_snapshots(world: PlannerWorld) -> None:
    world.commit(part(A, 2))
    assert world.take(world.change(5, 1, part(A, 99), ref="audit")) == []
    assert world.state().holds == fragments(2)
    assert len([key for key in world.store.values if key.startswith(TABLE_KEYS)]) == 1
    world.take(world.change(0, None, snapshot_id=None, kind=ChangeKind.REMOVED, ref="audit"))
    assert not world.state().removed
