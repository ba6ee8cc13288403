"""When an order counts as lost, and what that says of its partition."""

from __future__ import annotations

from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.policy.partition.deadlines import HEARTBEAT_MS, QUEUE_MS, SILENCE_MS
from firnline_domain.records.events import PartitionChange
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.results import TaskRunning
from firnline_domain.settings.thresholds import ConversionPolicy

from tests.kit.planner_world import (
    LIMITS,
    TABLE,
    A,
    PlannerWorld,
    committed,
    failed,
    only,
    orders,
    part,
    partition_of,
)

GB = 1 << 30
MINUTE_MS = 60_000


def running(world: PlannerWorld, order: RewriteFiles, started_ms: int) -> TaskRunning:
    return TaskRunning(
        order.task_id, TABLE, "main", order.scope, order.attempt, "w", started_ms, world.now_ms
    )


def upsert(files: int, data: Tally | None = None) -> PartitionChange:
    deletes = Tally(files, files, files)
    return PartitionChange(A, FileTally(on_target=data or Tally(), equality_deletes=deletes), NONE)


NONE = FileTally()


def test_a_task_of_36_minutes_that_always_commits_is_never_lost() -> None:
    """Its table's deadline is 10 minutes, writers commit every minute, and an hour of queue comes
    before each start: ten such orders in a row used to park the partition. All of it is in one
    order (`slices`)."""
    limits = replace(LIMITS, cheap_bytes=1 << 50, convert=ConversionPolicy.NEVER, slice_ms=0)
    world = PlannerWorld(limits=limits)
    order = only(world.commit(upsert(4, Tally(320, 10**9, 40 * GB))))
    for _ in range(12):
        sent = [one for _ in range(60) for one in world.tick(MINUTE_MS) + world.commit(upsert(1))]
        began_ms = world.now_ms
        for _ in range(36):
            sent += world.tick(MINUTE_MS)
            sent += world.take(running(world, order, began_ms))
            sent += world.commit(upsert(1))
        assert not orders(sent)
        shown = partition_of(world.state(), A)
        assert (shown.status, shown.failures) == ("in_flight", 0)
        gone = FileTally(equality_deletes=Tally(4, 4, 4))
        after = world.commit(PartitionChange(A, NONE, gone), task_id=order.task_id)
        order = only(after + world.tick(6_000))


def test_an_order_that_waits_has_not_failed(world: PlannerWorld) -> None:
    """It is ordered again after half a day, under another number, and nothing backs off."""
    order = only(world.commit(part(A, 8)))
    assert not orders(world.tick(QUEUE_MS - 11))
    assert order.deadline_ms - order.ordered_at_ms == QUEUE_MS  # nobody begins it any more then
    again = only(world.tick(11))
    assert (again.task_id, again.attempt) == (order.task_id, 2)
    shown = partition_of(world.state(), A)
    assert (shown.status, shown.failures) == ("in_flight", 0)
    assert world.take(failed(order, retryable=False)) == []  # of the first order
    assert partition_of(world.state(), A).status == "in_flight"


def test_an_order_that_was_begun_and_is_silent_is_lost(world: PlannerWorld) -> None:
    order = only(world.commit(part(A, 8)))
    began_ms = world.now_ms
    world.tick(HEARTBEAT_MS)
    world.take(running(world, order, began_ms))
    world.restart()  # what a worker has said is kept
    world.tick(SILENCE_MS - 2_001)
    assert partition_of(world.state(), A).status == "in_flight"  # 2 s later
    world.tick(1)
    shown = partition_of(world.state(), A)
    assert (shown.status, shown.reason, shown.failures) == ("backing_off", "deadline", 1)
    again = only(world.tick(10_000))
    assert (again.task_id, again.attempt) == (order.task_id, 2)


def test_a_task_that_hangs_is_lost_though_its_worker_lives(world: PlannerWorld) -> None:
    order = only(world.commit(part(A, 8)))
    assert order.run_ms == LIMITS.deadline_ms  # it was expected to take a second
    began_ms = world.now_ms
    while world.now_ms < began_ms + LIMITS.deadline_ms - MINUTE_MS:
        world.tick(MINUTE_MS)
        world.take(running(world, order, began_ms))
        assert partition_of(world.state(), A).status == "in_flight"
    world.tick(2 * MINUTE_MS)
    assert partition_of(world.state(), A).reason == "deadline"


def test_a_deadline_parks_nothing(world: PlannerWorld) -> None:
    order = only(world.commit(part(A, 8)))
    for number in range(1, 15):
        world.take(running(world, order, world.now_ms))
        world.tick(SILENCE_MS)
        shown = partition_of(world.state(), A)
        assert (shown.status, shown.failures) == ("backing_off", number)
        order = only(world.tick(HOUR_MS // 2))


def test_a_commit_after_the_deadline_is_a_success(world: PlannerWorld) -> None:
    order = only(world.commit(part(A, 8)))
    for _ in range(12):
        world.take(running(world, order, world.now_ms))
        world.tick(SILENCE_MS)
        assert partition_of(world.state(), A).status == "backing_off"
        assert not orders(world.take(committed(order, world.head + 1, at_ms=world.now_ms)))
        assert not orders(world.commit(part(A, 8, 8), task_id=order.task_id))
        shown = partition_of(world.state(), A)
        assert (shown.failures, shown.status) == (0, "cooling")
        order = only(world.tick(10_000))


def test_what_an_earlier_attempt_says_keeps_nothing_alive(world: PlannerWorld) -> None:
    order = only(world.commit(part(A, 8)))
    world.take(running(world, order, world.now_ms))
    world.tick(SILENCE_MS)
    again = only(world.tick(10_000))
    world.take(running(world, again, world.now_ms))
    for _ in range(5):
        world.tick(MINUTE_MS)
        world.take(running(world, order, 0))  # of attempt 1
    assert partition_of(world.state(), A).failures == 2


def test_a_result_that_waits_for_the_committer_is_not_lost(world: PlannerWorld) -> None:
    order = only(world.commit(part(A, 8)))
    began_ms = world.now_ms
    world.tick(HEARTBEAT_MS)
    world.take(running(world, order, began_ms))
    world.take(replace(running(world, order, began_ms), finished=True))
    assert not orders(world.tick(QUEUE_MS - 2_000))
    shown = partition_of(world.state(), A)
    assert shown.failures == 0
    assert shown.status == "in_flight"


def test_a_commit_that_no_change_tells_of_frees_its_partition_without_a_failure(
    world: PlannerWorld,
) -> None:
    order = only(world.commit(part(A, 8)))
    world.take(committed(order, 99, at_ms=world.now_ms))
    assert not orders(world.tick(LIMITS.deadline_ms - 1))
    assert only(world.tick(1)).attempt == 2
    assert partition_of(world.state(), A).failures == 0


def test_heartbeats_make_nobody_look_at_all_partitions(world: PlannerWorld) -> None:
    order = only(world.commit(part(A, 8)))
    began_ms = world.now_ms
    world.tick(2_000)
    for _ in range(5):
        world.tick(MINUTE_MS)
        assert not world.effects.fully_reconciled
        world.take(running(world, order, began_ms))
        assert not world.effects.fully_reconciled
