"""What people order: to unpark, to hold, to pause; and what a comparison parks."""

from __future__ import annotations

import pytest
from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import replace
from firnline_domain.errors import PoisonousRecord
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import (
    ChangeKind,
    OutputsSwept,
    PartitionChange,
)
from firnline_domain.records.orders import (
    ExpireSnapshots,
    HoldPartitions,
    PauseMaintenance,
    ResumeMaintenance,
    RewriteFiles,
    RunAction,
    UnparkTable,
)
from firnline_domain.records.parts.slices import Slice
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.results import RowsCompared

from tests.kit.planner_world import (
    LIMITS,
    TABLE,
    A,
    B,
    PlannerWorld,
    committed,
    failed,
    only,
    orders,
    part,
    partition_of,
    table_orders,
)

PACED = {"settings": {"firnline.commit.max-per-hour": "4", "firnline.rewrite.cool-down-ms": "0"}}


def unpark(partition: str | None = None) -> UnparkTable:
    return UnparkTable(TABLE, "main", partition, "ops", 1)


def parked(world: PlannerWorld) -> None:
    """A and B hold debt, and are parked."""
    records = world.commit(part(A, 8), part(B, 8))
    for _ in range(3):
        for order in [one for one in records if isinstance(one, RewriteFiles)]:
            world.take(failed(order, retryable=False))
        records = world.tick(60_000)
    assert not [one for one in records if isinstance(one, RewriteFiles)]


def test_a_parked_table_is_ordered_again_when_a_person_says_so(world: PlannerWorld) -> None:
    parked(world)
    assert [one.reason for one in world.state().partitions] == ["out_of_memory"] * 2
    orders = [one for one in world.take(unpark()) if isinstance(one, RewriteFiles)]
    assert {(one.scope, one.attempt) for one in orders} == {(A, 4), (B, 4)}
    assert [one for one in world.take(unpark()) if isinstance(one, RewriteFiles)] == []


def asked(action: str, partition: str | None = None, every: bool = False) -> RunAction:
    return RunAction(TABLE, "main", action, partition, every, "ops", 1)


def rewrites(records: list[object]) -> list[tuple[object, str, str]]:
    found = [one for one in records if isinstance(one, RewriteFiles)]
    return sorted((one.scope, one.action, one.reason) for one in found)


def test_a_person_has_every_partition_rewritten_whatever_its_debt(world: PlannerWorld) -> None:
    assert rewrites(world.commit(part(A, 2), part(B, 3))) == []
    found = world.take(asked("full", every=True))
    assert rewrites(found) == [(A, "full", "requested"), (B, "full", "requested")]
    assert rewrites(world.take(asked("full", every=True))) == []  # both are under way


def test_or_one_partition_once_it_has_rested(world: PlannerWorld) -> None:
    world.commit(part(A, 2), part(B, 3))
    order = only(world.take(asked("merge", B.partition)))
    assert (order.scope, order.action, order.min_dead_ratio) == (B, "merge", 1.0)
    world.take(committed(order, 2))
    world.commit(part(B, 1, 3), task_id=order.task_id)
    assert rewrites(world.take(asked("compact", B.partition))) == []
    assert rewrites(world.tick(LIMITS.cool_down_ms)) == [(B, "compact", "requested")]
    assert rewrites(world.tick(600)) == []


def test_or_what_the_policy_chooses_by_the_action_that_is_asked_for(world: PlannerWorld) -> None:
    world.more = {"settings": {"firnline.window": "00:00-00:01"}}
    world.now_ms = 12 * 3_600_000
    world.commit(part(A, 9), part(B, 2))
    assert rewrites(world.take(asked("compact"))) == []  # a window is a window
    pause = PauseMaintenance(TABLE, "x", "ops", 1)
    world.more = {}
    world.take(pause)
    assert rewrites(world.take(asked("compact", every=True))) == []


def test_a_full_rewrite_that_was_asked_for_goes_on_in_slices(world: PlannerWorld) -> None:
    world.commit(part(A, 2))
    order = only(world.take(asked("full", every=True)))
    assert order.reason == "requested"
    done = Slice("full", "requested", 1, 0.0, 3, 300, None)
    world.take(replace(committed(order, 2), slice=done))
    found = world.commit(part(A, 1, 1), task_id=order.task_id)
    following = only(found)
    assert (following.after, following.action) == (done, "full")


def test_closed_partitions_are_frozen_at_a_persons_word(world: PlannerWorld) -> None:
    given = {"firnline.freeze.after-hours": "1", "firnline.rewrite.max-age-ms": "86400000"}
    world.more = {"settings": given}
    world.commit(part(A, 3))
    everywhere = FileTally(equality_deletes=Tally(1, 9, 99))  # by which it is closed, and waits
    world.commit(PartitionChange(Scope(0, "[]"), everywhere, FileTally()))
    assert rewrites(world.tick(2 * 3_600_000)) == []
    world.commit(part(B, 3))
    assert rewrites(world.take(asked("freeze"))) == [(A, "full", "closed")]


def test_an_action_on_the_table_is_ordered_once(world: PlannerWorld) -> None:
    world.commit(part(A, 1))
    [order] = table_orders(world.take(asked("rewrite_manifests")))
    assert (order.action, order.reason) == ("rewrite_manifests", "requested")
    assert table_orders(world.take(asked("rewrite_manifests"))) == []
    [expiry] = table_orders(world.take(asked("expire")))
    assert isinstance(expiry, ExpireSnapshots)
    assert (expiry.agreed, expiry.begins_at_ms) == (True, None)
    assert table_orders(world.take(asked("expire"))) == []


def test_an_action_that_nobody_knows_is_no_order(world: PlannerWorld) -> None:
    world.commit(part(A, 1))
    with pytest.raises(PoisonousRecord, match="polish"):
        world.take(asked("polish"))


def test_parking_is_counted_once(world: PlannerWorld) -> None:
    """`firnline_partitions_parked_total`: what an alarm watches."""
    order, outcomes = only(world.commit(part(A, 8))), []
    for _ in range(3):
        step = world.bucket.handle(failed(order, retryable=False), world.now_ms)
        world.bucket.commit()
        outcomes += step.outcomes
        order = next(iter(orders(world.tick(60_000))), order)
    assert outcomes.count("parked") == 1


def test_one_partition_is_unparked_alone(world: PlannerWorld) -> None:
    parked(world)
    assert only(world.take(unpark(A.partition))).scope == A
    assert partition_of(world.state(), B).status == "parked"


def test_an_order_about_an_unknown_table_does_nothing(world: PlannerWorld) -> None:
    assert world.take(unpark()) == []
    assert world.take(HoldPartitions(TABLE, "main", (A,), "undone", 2, "ops", 1)) == []


def test_a_held_partition_is_not_ordered_until_its_moment_or_a_word(world: PlannerWorld) -> None:
    world.commit(part(A, 7))
    until = world.now_ms + DAY_MS
    world.take(HoldPartitions(TABLE, "main", (A,), "undone", until, "ops", 1))
    assert [one for one in world.commit(part(A, 9)) if isinstance(one, RewriteFiles)] == []
    shown = partition_of(world.state(), A)
    assert (shown.status, shown.reason, shown.until_ms) == ("parked", "undone", until)
    assert only(world.take(unpark())).scope == A


def test_a_hold_ends_by_itself(world: PlannerWorld) -> None:
    world.commit(part(A, 7))
    world.take(HoldPartitions(TABLE, "main", (A,), "undone", world.now_ms + 60_000, "ops", 1))
    world.commit(part(A, 9))
    assert only(world.tick(60_000)).scope == A


def test_swept_outputs_are_in_no_counter(world: PlannerWorld) -> None:
    world.commit(part(A, 3))
    assert world.take(OutputsSwept(TABLE, 1, 2, 0, {}, "committer", 1)) == []


def pause(table: TableName | None = None) -> PauseMaintenance:
    return PauseMaintenance(table, "migration", "ops", 900_000)


def resume(table: TableName | None = None) -> ResumeMaintenance:
    return ResumeMaintenance(table, "ops", 950_000)


@pytest.mark.parametrize("table", [None, TABLE])
def test_a_paused_table_gets_no_orders_until_it_goes_on(table: TableName | None) -> None:
    world = PlannerWorld()
    world.commit(part(A, 1))
    world.take(pause(table))
    assert not orders(world.commit(part(A, 8)))
    state = world.state()
    assert state.hold is not None
    assert (state.hold.reason, state.hold.since_ms, state.hold.until_ms, state.hold.detail) == (
        "paused",
        900_000,
        None,
        "by ops: migration",
    )
    assert (partition_of(state, A).reason, partition_of(state, A).status) == ("paused", "idle")
    assert world.bucket.paused_table_count == 1
    assert only(world.take(resume(table))).scope == A
    assert world.bucket.paused_table_count == 0
    assert world.state().hold is None


def test_a_pause_survives_a_restart_and_holds_for_tables_that_come_later() -> None:
    world = PlannerWorld()
    world.take(pause())
    world.restart()
    assert not orders(world.commit(part(A, 8)))
    world.restart()
    assert not orders(world.tick(LIMITS.max_age_ms))
    assert only(world.take(resume())).scope == A


def test_a_table_paused_by_name_stays_paused_when_the_fleet_goes_on() -> None:
    world = PlannerWorld()
    world.take(pause(TABLE))
    world.take(pause())
    world.take(resume())
    assert not orders(world.commit(part(A, 8)))
    world.take(resume(TableName("other", ("db",), "t")))
    assert not orders(world.tick())
    assert only(world.take(resume(TABLE))).scope == A


def test_a_task_that_is_out_when_the_switch_is_pulled_ends_as_ever() -> None:
    world = PlannerWorld()
    order = only(world.commit(part(A, 8)))
    world.take(pause())
    assert partition_of(world.state(), A).status == "in_flight"
    world.commit(part(A, 1, 8), task_id=order.task_id)
    world.take(committed(order, world.head))
    assert partition_of(world.state(), A).status == "cooling"


def test_nothing_expires_while_paused() -> None:
    world = PlannerWorld(more={"snapshot_count": 9, "oldest_snapshot_ms": 1})
    world.now_ms = 10 * DAY_MS
    world.take(pause())
    assert not orders(world.commit(part(A, 1), kind=ChangeKind.ABSOLUTE))
    assert world.state().expiry_reason == "paused"
    assert any(isinstance(one, ExpireSnapshots) for one in world.take(resume()))


def compared(order: RewriteFiles, outcome: str) -> RowsCompared:
    return RowsCompared(
        order.task_id, TABLE, "main", order.scope, (9,), outcome, "rows_differ", "", None, None,
        "w", 1,
    )  # fmt: skip


@pytest.mark.parametrize("in_flight", [True, False])
def test_a_commit_that_differs_parks_its_partition_until_a_person_has_looked(
    world: PlannerWorld, in_flight: bool
) -> None:
    """Also where its counters come later than the comparison."""
    order = only(world.commit(part(A, 8)))
    world.take(committed(order, world.head + 1))
    if in_flight:
        world.take(compared(order, "differ"))
    world.commit(part(A, 1, 8), task_id=order.task_id)
    if not in_flight:
        world.take(compared(order, "differ"))
    assert [one for one in world.commit(part(A, 30)) if isinstance(one, RewriteFiles)] == []
    assert [one for one in world.tick(3_600_000) if isinstance(one, RewriteFiles)] == []
    shown = partition_of(world.state(), A)
    assert (shown.status, shown.reason) == ("parked", "rows_differ")
    assert only(world.take(unpark())).scope == A


def test_a_commit_that_is_equal_or_was_not_read_changes_nothing(world: PlannerWorld) -> None:
    order = only(world.commit(part(A, 8)))
    assert world.take(compared(order, "equal")) == []
    assert world.take(compared(order, "skipped")) == []
    assert partition_of(world.state(), A).status == "in_flight"
