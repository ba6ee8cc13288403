"""What holds a table back: the ceiling of commits, windows, other maintainers."""

from __future__ import annotations

from typing import Any

from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import replace
from firnline_domain.identity import Scope
from firnline_domain.records.events import (
    ChangeKind,
    PartitionChange,
    RewriteSkipped,
)
from firnline_domain.records.orders import (
    ExpireSnapshots,
)

from tests.kit.planner_world import (
    AGREED,
    LIMITS,
    TABLE,
    A,
    B,
    C,
    PlannerWorld,
    committed,
    only,
    orders,
    part,
    partition_of,
)

PACED = {"settings": {"firnline.commit.max-per-hour": "4", "firnline.rewrite.cool-down-ms": "0"}}
NOON = 1_768_219_200_000  # 2026-01-12T12:00Z, a Monday
HOUR_MS = 3_600_000


def test_more_commits_than_the_ceiling_wait_their_turn() -> None:
    """4 an hour: 2 at once, then one every 20 minutes; a restart forgets none of them."""
    world = PlannerWorld(more=PACED)
    for _ in range(2):
        order = only(world.commit(part(A, 8)))
        world.commit(part(A, 0, 8), task_id=order.task_id)
        world.take(committed(order, world.head, at_ms=world.now_ms))
    world.restart()
    assert not orders(world.commit(part(A, 8)))
    state = world.state()
    assert state.hold is not None
    assert (state.hold.reason, partition_of(state, A).reason) == (
        "commit_ceiling",
        "commit_ceiling",
    )
    assert partition_of(state, A).numbers["max_commits"] == 4
    wait_ms = (partition_of(state, A).until_ms or 0) - world.now_ms
    assert 19 * 60_000 < wait_ms <= 20 * 60_000
    assert not orders(world.tick(wait_ms - 1_000))
    assert only(world.tick(1_100)).scope == A
    assert world.state().hold is not None  # the next one


def test_orders_that_are_out_take_room_until_they_end() -> None:
    world = PlannerWorld(more=PACED)
    [first] = orders(world.commit(part(C, 10)))
    world.tick(1)
    [_] = orders(world.commit(part(B, 9)))
    world.tick(1)
    assert not orders(world.commit(part(A, 8)))
    assert partition_of(world.state(), A).reason == "commit_ceiling"
    skipped = RewriteSkipped(first.task_id, TABLE, "main", C, "nothing_to_do", 0)
    assert only(world.take(skipped)).scope == A


def test_orders_of_one_moment_take_the_room_of_one() -> None:
    """Their results share a commit, so the ceiling lets all of them go, and then nobody."""
    world = PlannerWorld(
        more={"settings": {**PACED["settings"], "firnline.commit.max-per-hour": "2"}}
    )
    sent = orders(world.commit(part(A, 8), part(B, 9), part(C, 10)))
    assert [(order.scope, order.batch_size) for order in sent] == [(C, 3), (B, 3), (A, 3)]
    world.tick(1)
    later = Scope(0, '["d"]')
    assert not orders(world.commit(part(later, 8)))
    assert partition_of(world.state(), later).reason == "commit_ceiling"


def test_results_that_shared_a_commit_count_once() -> None:
    world = PlannerWorld(more=PACED)
    first, second = orders(world.commit(part(A, 8), part(B, 8)))
    both = f"{first.task_id},{second.task_id}"
    world.commit(part(A, 0, 8), part(B, 0, 8), task_id=both)
    for order in (first, second):
        world.take(committed(order, world.head, at_ms=world.now_ms))
    assert only(world.commit(part(A, 8))).scope == A


def test_a_commit_of_an_order_given_up_for_lost_counts() -> None:
    world = PlannerWorld(more=PACED)
    order = only(world.commit(part(A, 8)))
    world.tick(LIMITS.deadline_ms + 20_000)
    for snapshot in (901, 902, 903):
        world.take(committed(replace(order, task_id=f"x{snapshot}"), snapshot, at_ms=world.now_ms))
    assert not orders(world.commit(part(B, 8)))


def set_to(**properties: str) -> dict[str, Any]:
    return {f"firnline.{name}": value for name, value in properties.items()}


def test_outside_its_window_a_table_waits_until_it_opens() -> None:
    world = PlannerWorld(
        now_ms=NOON, more={"settings": set_to(window="Mon 22:00-23:00 Europe/Berlin")}
    )
    assert not orders(world.commit(part(A, 8)))
    state = world.state()
    assert (partition_of(state, A).reason, partition_of(state, A).until_ms) == (
        "outside_window",
        NOON + 9 * HOUR_MS,
    )
    assert state.hold is not None
    assert (state.hold.reason, state.hold.detail) == (
        "outside_window",
        "Mon 22:00-23:00 Europe/Berlin",
    )
    world.now_ms = NOON + 9 * HOUR_MS - 1_000
    assert not orders(world.tick(0))
    order = only(world.tick(1_000))
    world.now_ms += HOUR_MS // 10  # what is out ends normally, whatever the window says
    world.commit(part(A, 1, 8), task_id=order.task_id)
    assert partition_of(world.state(), A).status != "in_flight"


def test_a_blackout_goes_before_a_window_and_the_table_goes_on_after_it() -> None:
    both = set_to(window="00:00-24:00", blackout="2026-01-12T12:00Z/2026-01-12T13:00Z")
    world = PlannerWorld(now_ms=NOON, more={"settings": both})
    assert not orders(world.commit(part(A, 8)))
    assert partition_of(world.state(), A).reason == "blackout"
    world.now_ms = NOON + HOUR_MS
    assert only(world.tick(0)).scope == A


def test_the_fleets_window_holds_where_the_table_has_none_of_its_own() -> None:
    world = PlannerWorld(now_ms=NOON, limits=replace(LIMITS, window="Sun 01:00-02:00"))
    assert not orders(world.commit(part(A, 8)))
    assert only(world.commit(part(A, 1), settings=set_to(window="12:00-13:00"))).scope == A


def test_a_window_that_cannot_be_read_stops_the_table_and_not_the_planner() -> None:
    world = PlannerWorld(now_ms=NOON, more={"settings": set_to(window="at night")})
    assert not orders(world.commit(part(A, 8)))
    state = world.state()
    assert partition_of(state, A).reason == "unreadable_window"
    assert state.hold is not None
    assert "Mon-Fri 22:00-06:00 Europe/Berlin" in state.hold.detail
    assert only(world.commit(part(A, 1), settings={})).scope == A


def test_nothing_expires_outside_the_window() -> None:
    old = {"snapshot_count": 9, "oldest_snapshot_ms": NOON - 10 * DAY_MS}
    world = PlannerWorld(
        now_ms=NOON, more=old | {"settings": set_to(window="13:00-14:00") | AGREED}
    )
    assert not orders(world.commit(part(A, 1), kind=ChangeKind.ABSOLUTE))
    assert world.state().expiry_reason == "outside_window"
    world.now_ms = NOON + HOUR_MS
    assert any(isinstance(one, ExpireSnapshots) for one in world.tick(0))


def rewritten_by_others(world: PlannerWorld, *parts: PartitionChange, **more: Any) -> list[Any]:
    maker = {"engine-name": "spark", "app-id": "local-7"}
    return world.commit(*parts, operation="replace", maker=maker, **more)


def test_a_rewrite_by_somebody_else_is_given_minutes_and_named() -> None:
    world = PlannerWorld()
    world.commit(part(A, 9), part(B, 7), settings=set_to(enabled="false"))
    rewritten_by_others(world, part(A, 1, 9))
    assert not orders(world.commit(part(B, 9)))
    state = world.state()
    assert state.hold is not None
    assert (state.hold.reason, partition_of(state, B).reason) == (
        "other_maintainer",
        "other_maintainer",
    )
    assert "engine-name spark" in state.hold.detail
    assert only(world.tick(5 * 60_000)).scope == B


def test_a_maintainer_that_comes_again_is_yielded_to_for_an_hour_also_after_a_restart() -> None:
    world = PlannerWorld()
    for _ in range(2):
        rewritten_by_others(world, part(A, 1))
        for order in orders(world.tick(DAY_MS)):
            world.take(RewriteSkipped(order.task_id, TABLE, "main", A, "nothing_to_do", 0))
    rewritten_by_others(world, part(A, 9))
    assert not orders(world.commit(part(B, 9)))
    world.restart()
    assert not orders(world.tick(HOUR_MS - 60_000))
    assert {order.scope for order in orders(world.tick(60_000))} == {A, B}


def test_our_own_rewrites_made_or_handed_over_hold_nothing_up() -> None:
    world = PlannerWorld()
    order = only(world.commit(part(A, 8)))
    rewritten_by_others(world, part(A, 1, 8), task_id=order.task_id)
    assert world.state().hold is None
    rewritten_by_others(world, part(A, 1, 1), task_id="an order lost long ago")
    assert only(world.commit(part(B, 8))).scope == B


def test_a_table_may_yield_to_nobody() -> None:
    world = PlannerWorld(more={"settings": {"firnline.yield-ms": "0"}})
    rewritten_by_others(world, part(A, 1))
    assert only(world.commit(part(B, 8))).scope == B


def test_expiry_yields_to_nobody() -> None:
    """It meets nobody at the same files, and somebody has to do it."""
    old = {"snapshot_count": 9, "oldest_snapshot_ms": 1}
    world = PlannerWorld(now_ms=10 * DAY_MS, more={"settings": set_to(enabled="false")})
    world.commit(part(A, 1), kind=ChangeKind.ABSOLUTE, **old)
    sent = rewritten_by_others(world, part(A, 1), settings={})
    assert any(isinstance(one, ExpireSnapshots) for one in sent)
    assert world.state().hold is not None


def test_a_v4_table_is_held_until_somebody_can_read_it() -> None:
    """Its counters are empty, whatever it was before."""
    world = PlannerWorld()
    assert orders(world.commit(part(A, 8)))
    world = PlannerWorld()
    world.commit(part(A, 1))
    unread = {"kind": ChangeKind.ABSOLUTE, "format_version": 4, "snapshot_count": 0}
    assert not orders(world.commit(**unread))
    state = world.state()
    assert state.hold is not None
    assert state.hold.reason == "format_version_4"
    assert not state.waiting_for_resync
    assert not world.tick(10 * 86_400_000)
