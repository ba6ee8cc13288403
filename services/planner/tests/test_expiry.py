"""Old snapshots: orders to expire them, and what holds those back."""

from __future__ import annotations

import pytest
from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import replace
from firnline_domain.identity import Scope
from firnline_domain.records.events import (
    PartitionChange,
)
from firnline_domain.records.orders import (
    ExpireSnapshots,
    RewriteFiles,
)
from firnline_domain.records.parts.tallies import FileTally
from firnline_domain.records.results import SnapshotsExpired
from firnline_domain.records.states import ExpiryPlan

from tests.kit.expiries import expired as expired_of
from tests.kit.planner_world import (
    EXPIRING,
    LIMITS,
    TABLE,
    A,
    PlannerWorld,
    failed,
    fragments,
    only,
    part,
)


def test_old_snapshots_are_expired_once_at_a_time(world: PlannerWorld) -> None:
    world.more = {"settings": EXPIRING}
    for _ in range(3):
        world.commit(part(A, 1))
    assert not [one for one in world.tick(3_000_000) if isinstance(one, ExpireSnapshots)]
    [expiry] = [one for one in world.tick(700_000) if isinstance(one, ExpireSnapshots)]
    assert (expiry.retain_last, expiry.older_than_ms) == (1, world.now_ms - 3_600_000)
    assert not [one for one in world.tick(600_000) if isinstance(one, ExpireSnapshots)]
    assert not [one for one in world.commit(part(A, 1)) if isinstance(one, ExpireSnapshots)]
    assert world.state().expiry_reason == "expiry_in_flight"
    done = expired_of(expiry.task_id, TABLE, 2, 1, world.now_ms)
    world.take(done)
    state = world.state()
    assert (state.snapshot_count, state.expiry_reason) == (1, "too_few_snapshots")


def test_an_expiry_is_announced_and_waits_for_the_grace_period(world: PlannerWorld) -> None:
    """Nobody has said that snapshots may go: what would go is found out, told, and waits a day,
    restarts included."""
    world.more = {"settings": {"firnline.retain.hours": "1"}}
    world.commit(part(A, 1))
    [ask] = [one for one in world.commit(part(A, 1)) if isinstance(one, ExpireSnapshots)]
    assert ask.begins_at_ms == world.now_ms + DAY_MS
    world.now_ms += 4_000
    told = expired_of(
        ask.task_id, TABLE, 0, 3, 1, begins_at_ms=ask.begins_at_ms,
        going_snapshots=2, going_files=5, going_bytes=7,
    )  # fmt: skip
    world.take(told)
    begins = world.now_ms + DAY_MS
    state = world.state()
    assert state.expiry_reason == "grace_period"
    assert state.expiry_plan == ExpiryPlan(begins, 2, 5, 7)
    assert state.advised == ("expiry_announced",)
    world.restart()
    assert not [one for one in world.tick(DAY_MS - 10_000) if isinstance(one, ExpireSnapshots)]
    [order] = [one for one in world.tick(20_000) if isinstance(one, ExpireSnapshots)]
    assert (order.begins_at_ms, order.announced_at_ms) == (None, begins - DAY_MS)
    assert (world.state().expiry_plan, world.state().advised) == (None, ())


@pytest.mark.parametrize(("said", "reason"), [("true", "old_snapshots"), ("false", None)])
def test_an_owner_can_begin_or_stop_an_announced_expiry(
    world: PlannerWorld, said: str, reason: str | None
) -> None:
    world.more = {"settings": {"firnline.retain.hours": "0"}}
    world.commit(part(A, 1))
    [ask] = [one for one in world.commit(part(A, 1)) if isinstance(one, ExpireSnapshots)]
    world.take(replace(expired(ask), begins_at_ms=ask.begins_at_ms))
    settings = {"firnline.retain.hours": "0", "firnline.expire.enabled": said}
    records = world.take(world.change(0, None, snapshot_id=None, settings=settings))
    assert next((one.reason for one in records if isinstance(one, ExpireSnapshots)), None) == reason


def expired(order: ExpireSnapshots) -> SnapshotsExpired:
    return expired_of(order.task_id, TABLE, 0, 2, 1)


def test_a_table_with_files_of_others_is_left_alone_and_its_owner_told(world: PlannerWorld) -> None:
    world.more = {"settings": {"firnline.retain.hours": "1"}}
    world.commit(part(A, 1), external_files=1)
    world.commit(part(A, 1))
    assert not [one for one in world.tick(2 * DAY_MS) if isinstance(one, ExpireSnapshots)]
    state = world.state()
    assert (state.expiry_reason, state.advised) == ("external_files", ("external_files",))
    agreed = world.take(world.change(0, None, snapshot_id=None, settings=EXPIRING))
    assert [one.reason for one in agreed if isinstance(one, ExpireSnapshots)] == ["old_snapshots"]


def test_files_of_others_on_another_branch_count_as_well(world: PlannerWorld) -> None:
    world.commit(part(A, 2))
    world.take(world.change(5, 1, part(A, 9), ref="audit", external_files=9))
    world.tick(2 * DAY_MS * 5)
    assert world.state().expiry_reason == "external_files"


def test_what_a_worker_finds_is_remembered(world: PlannerWorld) -> None:
    world.more = {"settings": {"firnline.retain.hours": "1"}}
    world.commit(part(A, 1))
    [ask] = [one for one in world.commit(part(A, 1)) if isinstance(one, ExpireSnapshots)]
    world.take(replace(expired(ask), refused_reason="external_files"))
    assert not [one for one in world.tick(9 * DAY_MS) if isinstance(one, ExpireSnapshots)]
    assert world.state().expiry_reason == "external_files"


def test_statuses_are_of_all_partitions_and_not_of_those_shown(world: PlannerWorld) -> None:
    scopes = [Scope(0, f'["{number}"]') for number in range(150)]
    records = world.commit(*(part(one, 8) for one in scopes))
    for _ in range(3):
        for order in [one for one in records if isinstance(one, RewriteFiles)]:
            world.take(failed(order, retryable=False))
        records = world.tick(60_000)
    large = [PartitionChange(Scope(1, f'["{n}"]'), fragments(20), FileTally()) for n in range(120)]
    world.more = {"settings": {"firnline.rewrite.quiet-ms": "900000"}}
    world.commit(*large)
    state = world.state()
    assert (len(state.partitions), state.partition_count) == (100, 270)
    assert sum(state.statuses.values()) == 270
    assert state.debt_files == 150 * 7 + 120 * 19  # one file is left of each


def test_unknown_snapshots_are_not_none_at_all(world: PlannerWorld) -> None:
    world.commit(part(A, 2))
    world.take(world.change(5, 1, part(A, 9), ref="audit"))
    world.commit(part(A, 1))
    assert world.state().snapshot_count is None


def test_a_refused_expiry_shows_its_reason(world: PlannerWorld) -> None:
    world.more = {"settings": EXPIRING}
    world.commit(part(A, 1))
    world.commit(part(A, 1))
    [expiry] = [one for one in world.tick(3_700_000) if isinstance(one, ExpireSnapshots)]
    world.take(expired_of(expiry.task_id, TABLE, 0, 2, 1, refused_reason="gc_disabled"))
    assert world.state().expiry_reason == "gc_disabled"


def test_the_expiry_spares_what_tasks_in_flight_started_from() -> None:
    world = PlannerWorld(limits=replace(LIMITS, deadline_ms=DAY_MS))
    world.more = {"settings": EXPIRING}
    world.commit(part(A, 1))
    world.tick(60_000)
    order = only(world.commit(part(A, 8)))
    [expiry] = [one for one in world.tick(7_200_000) if isinstance(one, ExpireSnapshots)]
    assert expiry.protected_snapshot_ids == (order.trigger_snapshot_id,)
    assert expiry.older_than_ms == order.ordered_at_ms
