"""Writers that are at work in a partition, and windows and clocks that change."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters
from firnline_domain.counters.state.debt import Debt
from firnline_domain.counters.state.work import Partition, PartitionWork, Table
from firnline_domain.identity import Scope
from firnline_domain.records.events import (
    ChangeKind,
    PartitionChange,
)
from firnline_domain.records.orders import (
    ResyncTable,
)
from firnline_domain.records.parts.tallies import FileTally, Tally

from tests.kit.names import TABLE
from tests.kit.partitions import decide
from tests.kit.planner_world import (
    LIMITS,
    A,
    B,
    PlannerWorld,
    only,
    orders,
    part,
    partition_of,
)

NOON = 1_768_219_200_000  # 2026-01-12T12:00Z, a Monday
HOUR_MS = 3_600_000
MB = 1 << 20
KNOWN = Table(TableCounters(TABLE, "main", known=True, head_snapshot_id=7, epoch=1, ordinal=9))


def set_to(**properties: str) -> dict[str, Any]:
    return {f"firnline.{name}": value for name, value in properties.items()}


def merged(scope: Scope, deletes: int) -> PartitionChange:
    """What a MERGE on read adds."""
    added = FileTally(position_deletes=Tally(deletes, deletes, deletes))
    return PartitionChange(scope, added, FileTally())


def with_data() -> PlannerWorld:
    world = PlannerWorld()
    world.commit(part(A, 1), part(B, 1))
    return world


def test_a_hot_partition_waits_until_its_writer_pauses() -> None:
    world = with_data()
    assert not orders(world.commit(merged(A, 8), operation="overwrite"))
    assert only(world.commit(part(B, 8))).scope == B  # another partition is not hot
    state = partition_of(world.state(), A)
    assert (state.reason, state.status) == ("hot", "idle")
    assert not orders(world.tick(5_000))
    assert not orders(world.commit(merged(A, 1), operation="overwrite"))
    assert not orders(world.tick(9_900))
    assert only(world.tick(100)).scope == A


def test_a_partition_that_never_cools_is_served_after_its_longest_wait() -> None:
    """Also where the planner restarts meanwhile."""
    world = with_data()
    began_ms, sent = world.now_ms, []
    while not sent:
        sent = orders(world.commit(merged(A, 8), operation="overwrite") + world.tick(2_000))
        world.restart()
        assert world.now_ms - began_ms < 70_000
    assert world.now_ms - began_ms >= 60_000
    world.commit(merged(A, 0), task_id=sent[0].task_id)


def test_after_a_rewrite_a_hot_partition_waits_anew() -> None:
    world = with_data()
    world.commit(merged(A, 8), operation="overwrite")
    order = only(world.tick(10_000))
    gone = FileTally(position_deletes=Tally(8, 8, 8))
    world.commit(PartitionChange(A, FileTally(), gone), operation="replace", task_id=order.task_id)
    world.tick(LIMITS.cool_down_ms)
    for _ in range(5):
        assert not orders(world.commit(merged(A, 8), operation="overwrite") + world.tick(9_990))
    world.commit(merged(A, 8), operation="overwrite")  # it has waited for 50 s of the minute
    assert partition_of(world.state(), A).reason == "hot"


def test_upserts_and_appends_heat_nothing() -> None:
    world = with_data()
    upserts = FileTally(equality_deletes=Tally(4, 4, 4), position_deletes=Tally(1, 1, 1))
    change = PartitionChange(A, upserts, FileTally())
    assert only(world.commit(change, operation="overwrite")).scope == A


def test_a_window_that_opens_or_closes_is_shown_without_any_event() -> None:
    hours = set_to(
        window="Mon 22:00-23:00 Europe/Berlin", blackout="2026-01-12T21:30Z/2026-01-13T00:00Z"
    )
    world = PlannerWorld(now_ms=NOON, more={"settings": hours})
    world.commit(part(A, 1))
    assert world.state().hold is not None
    seen = []
    for at_ms in (NOON + 9 * HOUR_MS, NOON + 9 * HOUR_MS + HOUR_MS // 2, NOON + 12 * HOUR_MS):
        world.now_ms = at_ms
        world.tick(0)
        seen.append(world.published()[-1].hold and world.published()[-1].hold.reason)
    assert seen == [None, "blackout", "outside_window"]


def test_what_happens_meanwhile_is_shown_at_once() -> None:
    """The showing planned for the window's opening does not stand in its way."""
    world = PlannerWorld(now_ms=NOON, more={"settings": set_to(window="Mon 22:00-23:00")})
    world.commit(part(A, 1))
    world.state()
    world.commit(part(A, 1))
    assert world.state().ordinal == 2


def test_a_clock_that_was_set_back_does_not_hide_the_table(world: PlannerWorld) -> None:
    world.now_ms += HOUR_MS
    world.commit(part(A, 1))
    assert world.state().head_snapshot_id == 1
    world.commit(part(A, 1))
    world.now_ms -= HOUR_MS
    world.commit(part(A, 1))
    assert world.state().head_snapshot_id == 3


def test_a_clock_that_was_set_back_does_not_keep_a_table_waiting(world: PlannerWorld) -> None:
    world.commit(part(A, 1))
    world.now_ms += HOUR_MS
    world.head += 1  # its event is lost
    world.commit(part(A, 1))
    world.now_ms -= HOUR_MS
    world.commit(part(A, 1))
    asked = [record for _ in range(10) for record in world.tick()]
    assert [type(one) for one in asked if isinstance(one, ResyncTable)] == [ResyncTable]


def test_a_look_at_a_dropped_table_does_not_forget_it_early(world: PlannerWorld) -> None:
    """The moment of forgetting is a day away, and no clock was set back."""
    world.commit(part(A, 9))
    gone = world.change(0, None, snapshot_id=None, kind=ChangeKind.REMOVED, event_id="gone")
    world.take(gone)
    world.state()
    for _ in range(3):
        world.tick(LIMITS.deadline_ms)
    assert world.bucket.table_count == 1


@pytest.mark.parametrize(("quiet_ms", "every_ms"), [(60_000, 40_000), (1_000, 800)])
def test_a_writer_that_never_rests_delays_a_merge_until_max_wait_and_no_longer(
    quiet_ms: int, every_ms: int
) -> None:
    max_wait_ms = 200 * every_ms
    limits = replace(LIMITS, quiet_ms=quiet_ms, max_wait_ms=max_wait_ms, target_bytes=128 * MB)
    world = PlannerWorld(limits=limits)
    larger = FileTally(undersized=Tally(1, 1_000, 60 * MB))
    began_ms = world.now_ms
    while not (sent := orders(world.commit(PartitionChange(A, larger, FileTally())))):
        sent = orders(world.tick(every_ms - 10))
        if sent:
            break
        assert world.now_ms < began_ms + max_wait_ms + 3 * every_ms, "it starves"
    assert (sent[0].action, sent[0].reason) == ("merge", "undersized")
    assert world.now_ms >= began_ms + max_wait_ms  # until then it was left to its writer


def test_what_a_conversion_left_leaves_the_storage_though_a_writer_never_rests() -> None:
    limits = replace(LIMITS, quiet_ms=60_000, retain_hours=1.0, max_wait_ms=HOUR_MS // 2)
    limits = replace(limits, recycle=True)
    since_ms = 10_000_000
    holds = FileTally(on_target=Tally(20, 2_000, 20 * 512 * MB), deletion_vectors=Tally(1, 5, 50))
    work = PartitionWork(positions_since_ms=since_ms, floor=Debt(position_deletes=1))
    for now_ms, reason in ((HOUR_MS - 1, "healthy"), (HOUR_MS, "recycling")):
        now_ms += since_ms
        counters = PartitionCounters(A, 1, 1, holds, changed_ms=now_ms - 40_000)
        assert decide(KNOWN, Partition(counters, work), limits, now_ms).reason == reason
