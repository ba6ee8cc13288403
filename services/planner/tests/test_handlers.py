"""Records in, orders out, over one bucket in memory; time is what the test says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from firnline_domain.errors import PoisonousRecord
from firnline_domain.identity import Scope, TableName
from firnline_domain.policy.costs import FIRNLINE, Work
from firnline_domain.records.events import (
    ChangeKind,
    ConflictReason,
    FilesChanged,
    OutputsSwept,
    PartitionChange,
    RewriteCommitted,
    RewriteConflicted,
    RewriteSkipped,
    TickPassed,
)
from firnline_domain.records.orders import (
    ExpireSnapshots,
    HoldPartitions,
    PauseMaintenance,
    ResumeMaintenance,
    ResyncTable,
    RewriteFiles,
    UnparkTable,
)
from firnline_domain.records.results import RowsCompared, SnapshotsExpired, TaskFailed
from firnline_domain.records.states import ExpiryPlan, PartitionState, TableAdvice, TableState
from firnline_domain.records.tallies import FileTally, Tally
from firnline_domain.settings.groups import groups_of, unserved
from firnline_domain.settings.thresholds import Thresholds
from firnline_domain.times import DAY_MS
from firnline_domain.values import replace
from firnline_planner.bucket import Bucket
from firnline_planner.effects import Effects
from firnline_planner.state.encoding import PARTITION
from firnline_planner.state.encoding import TABLE as TABLE_KEYS
from firnline_planner.state.stores import MemoryStore

TABLE = TableName("u1", ("db",), "t")
A, B, C = Scope(0, '["a"]'), Scope(0, '["b"]'), Scope(0, '["c"]')
AGREED = {"firnline.expire.enabled": "true"}
EXPIRING = {"firnline.retain.hours": "1", **AGREED}
SMALL_ONES = tuple(Scope(0, f'["{number}"]') for number in range(8))
LIMITS = Thresholds(quiet_ms=0, cool_down_ms=5_000, deadline_ms=600_000)


def fragments(count: int) -> FileTally:
    return FileTally(fragments=Tally(count, count, count))


def part(scope: Scope, added: int, removed: int = 0) -> PartitionChange:
    return PartitionChange(scope, fragments(added), fragments(removed))


@dataclass
class World:
    """A bucket, a clock and a table whose snapshots are numbered."""

    pairs: MemoryStore = field(default_factory=MemoryStore)
    now_ms: int = 1_000_000
    head: int = 0
    limits: Thresholds = LIMITS
    more: dict[str, Any] = field(default_factory=dict)  # of every change
    shown: list[TableState] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)  # of all that was sent

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.bucket = Bucket(self.pairs, self.limits)

    def take(self, record: object) -> list[Any]:
        step: Effects = self.bucket.handle(record, self.now_ms)
        self.bucket.commit()
        records = [output.record for output in step.outputs]
        self.topics += [output.topic for output in step.outputs]
        self.shown.extend(one for one in records if isinstance(one, TableState))
        return records

    def commit(self, *parts: PartitionChange, **more: Any) -> list[Any]:
        self.head += 1
        return self.take(self.change(self.head, self.head - 1 or None, *parts, **more))

    def change(
        self, snapshot: int, parent: int | None, *parts: PartitionChange, **more: Any
    ) -> Any:
        self.now_ms += 10
        values: dict[str, Any] = {
            "event_id": f"e{snapshot}",
            "table": TABLE,
            "ref": "main",
            "kind": ChangeKind.DELTA,
            "snapshot_id": snapshot,
            "parent_snapshot_id": parent,
            "sequence_number": snapshot,
            "timestamp_ms": self.now_ms,
            "operation": "append",
            "partitions": parts,
            "format_version": 2,
            "observed_at_ms": self.now_ms,
            **self.more,
            **more,
        }
        return FilesChanged(**values)

    def tick(self, ms: int = 1_000) -> list[Any]:
        self.now_ms += ms
        return self.take(TickPassed(0, self.now_ms))

    def state(self) -> TableState:
        """The newest state, shown at the latest a second from now."""
        self.tick(2_000)
        return self.shown[-1]


def only(records: list[Any]) -> RewriteFiles:
    [order] = [one for one in records if isinstance(one, RewriteFiles)]
    return order


def of(state: TableState, scope: Scope) -> PartitionState:
    return next(one for one in state.partitions if one.scope == scope)


def committed(order: RewriteFiles, *snapshots: int, at_ms: int = 10**12) -> RewriteCommitted:
    return RewriteCommitted(
        task_id=order.task_id,
        table=TABLE,
        ref="main",
        scope=order.scope,
        snapshot_ids=snapshots,
        start_snapshot_id=1,
        files_removed=0,
        files_added=0,
        equality_deletes_removed=0,
        position_deletes_removed=0,
        bytes_before=0,
        bytes_after=0,
        rows_in=0,
        rows_masked=0,
        rows_out=0,
        mode="native",
        redelivered=False,
        committed_at_ms=at_ms,
    )


def failed(order: RewriteFiles, retryable: bool) -> TaskFailed:
    return TaskFailed(
        order.task_id, TABLE, "main", order.scope, "rewrite", order.attempt, "w", "out_of_memory",
        "", retryable, 0,
    )  # fmt: skip


def conflicted(order: RewriteFiles, reason: ConflictReason) -> RewriteConflicted:
    return RewriteConflicted(order.task_id, TABLE, "main", order.scope, reason, "", 1, None, 0)


@pytest.fixture
def world() -> World:
    return World()


def test_fragments_pile_up_until_an_order_and_only_one(world: World) -> None:
    assert [world.commit(part(A, 1)) for _ in range(7)] == [[]] * 7
    order = only(world.commit(part(A, 1)))
    assert (order.scope, order.reason, order.trigger_snapshot_id) == (A, "fragments", 8)
    assert world.commit(part(A, 50)) == []
    assert of(world.state(), A).status == "in_flight"


def test_an_order_ends_when_the_counters_contain_its_commit(world: World) -> None:
    order = only(world.commit(part(A, 8)))
    assert world.take(committed(order, 99)) == []
    assert of(world.state(), A).status == "in_flight"  # told, but not yet in the counters
    world.commit(part(A, 1, 8), task_id=order.task_id)
    assert of(world.state(), A).status == "cooling"


def test_the_committers_word_and_the_commit_may_come_in_any_order(world: World) -> None:
    order = only(world.commit(part(A, 8)))
    world.commit(part(A, 1, 8))  # its task id is not known to the enricher
    world.take(committed(order, world.head))
    assert of(world.state(), A).status == "cooling"


def test_a_commit_that_is_found_in_absolute_counters_ends_the_order(world: World) -> None:
    order = only(world.commit(part(A, 8)))
    world.take(committed(order, 55, at_ms=world.now_ms + 5))
    world.take(world.change(60, 55, part(A, 1), kind=ChangeKind.ABSOLUTE))
    assert of(world.state(), A).status == "cooling"


def test_one_snapshot_may_serve_several_tasks(world: World) -> None:
    orders = [one for one in world.commit(part(A, 8), part(B, 8)) if isinstance(one, RewriteFiles)]
    world.commit(part(A, 1, 8), part(B, 1, 8), task_id=",".join(one.task_id for one in orders))
    state = world.state()
    assert (of(state, A).status, of(state, B).status) == ("cooling", "cooling")


def test_a_rewrite_that_would_change_nothing_is_never_ordered(world: World) -> None:
    """H10: 8 fragments that cannot be merged are left; the same counters never order again."""
    order = only(world.commit(part(A, 8)))
    world.commit(part(A, 8, 8), task_id=order.task_id)
    assert all(not isinstance(one, RewriteFiles) for one in world.tick(DAY_MS))
    assert of(world.state(), A).reason == "fixed_point"
    for _ in range(7):
        assert not world.commit(part(A, 1))
    assert only(world.commit(part(A, 1))).numbers["new_fragments"] == 8


def test_what_came_while_the_task_ran_is_debt(world: World) -> None:
    order = only(world.commit(part(A, 8)))
    world.commit(part(A, 8))
    world.commit(part(A, 1, 8), task_id=order.task_id)
    again = only(world.tick(5_000))
    assert (again.scope, again.trigger_snapshot_id) == (A, 3)


def test_a_skipped_task_sets_the_floor_too(world: World) -> None:
    order = only(world.commit(part(A, 9)))
    world.take(RewriteSkipped(order.task_id, TABLE, "main", A, "nothing_to_do", 0))
    assert not [one for one in world.tick(60_000) if isinstance(one, RewriteFiles)]
    assert of(world.state(), A).reason == "fixed_point"


def test_an_order_that_ran_out_of_memory_goes_where_there_is_room(world: World) -> None:
    """Until three rewrites in a row were well there."""
    world.take(failed(only(world.commit(part(A, 8))), retryable=True))
    for _ in range(4):
        world.restart()
        order = only(world.tick(10_000) + world.commit(part(A, 8)))
        world.commit(part(A, 0, 8), task_id=order.task_id)
    lanes = [topic for topic in world.topics if topic.startswith("rewrite")]
    assert lanes == ["rewrite-tasks", *["rewrite-tasks-heavy"] * 3, "rewrite-tasks"]


def priced(world: World, took: RewriteCommitted) -> float:
    """CPU seconds that a like rewrite is foretold after sixty of these, and a restart."""
    for _ in range(60):
        world.take(took)
    world.restart()
    world.commit(part(B, 1))
    return of(world.state(), B).numbers["rewrite_cpu_s"]


def test_prices_are_those_of_the_workers_that_there_are(world: World) -> None:
    order = only(world.commit(part(A, 8)))
    took = replace(committed(order, 9), bytes_before=10**9, bytes_after=10**9)
    expected_ms = int(1000 * FIRNLINE.wall_s(Work(10**9, 10**9)))
    plain = priced(world, took)
    assert priced(world, replace(took, worked_ms=3 * expected_ms)) == pytest.approx(3 * plain, 0.02)
    fast = replace(took, worked_ms=expected_ms // 9)
    for other in (replace(fast, mode="handed_over"), replace(fast, redelivered=True), took):
        assert priced(world, other) == pytest.approx(3 * plain, 0.02)


def test_a_failed_task_is_tried_again_after_a_pause_as_the_same_task(world: World) -> None:
    order = only(world.commit(part(A, 8)))
    world.take(failed(order, retryable=True))
    shown = of(world.state(), A)
    assert (shown.status, shown.reason, shown.failures) == ("backing_off", "out_of_memory", 1)
    again = only(world.tick(10_000))
    assert (again.task_id, again.attempt) == (order.task_id, 2)


def test_an_order_that_came_again_after_its_commit_waits_for_the_committers_word(
    world: World,
) -> None:
    order = only(world.commit(part(A, 8)))
    world.take(replace(failed(order, retryable=True), reason="already_committed"))
    assert of(world.state(), A).status == "in_flight"
    gone = replace(failed(order, retryable=True), reason="trigger_gone")
    for _ in range(12):  # says nothing of the partition: never parked
        world.take(gone)
        assert of(world.state(), A).status == "backing_off"
        gone = replace(gone, task_id=only(world.tick(1_800_000)).task_id)


def test_hopeless_failures_park_the_partition_until_settings_change(world: World) -> None:
    order = only(world.commit(part(A, 8)))
    for _ in range(2):
        world.take(conflicted(order, ConflictReason.PROOF_FAILED))
        order = only(world.tick(3_600_000))
    world.take(failed(order, retryable=False))
    assert world.tick(3_600_000) is not None
    shown = of(world.state(), A)
    assert (shown.status, shown.reason) == ("parked", "out_of_memory")
    noted = world.change(
        0, None, snapshot_id=None, settings={"firnline.rewrite.min-fragments": "2"}
    )
    assert only(world.take(noted)).scope == A


def test_a_conflict_that_planning_anew_can_solve_never_parks(world: World) -> None:
    order = only(world.commit(part(A, 8)))
    for _ in range(5):
        world.take(conflicted(order, ConflictReason.PIN_LOST))
        order = only(world.tick(1_800_000))
    assert order.attempt == 6


def test_an_order_without_an_answer_is_free_again_after_its_deadline(world: World) -> None:
    order = only(world.commit(part(A, 8)))
    assert not [one for one in world.tick(599_000) if isinstance(one, RewriteFiles)]
    world.tick(1_000)
    again = only(world.tick(10_000))  # a lost order backs off as a failed one
    assert (again.task_id, again.attempt) == (order.task_id, 2)


def test_an_answer_after_the_deadline_changes_nothing(world: World) -> None:
    order = only(world.commit(part(A, 8)))
    world.tick(600_000)
    assert world.take(failed(order, retryable=False)) == []
    assert of(world.state(), A).failures == 1


def test_a_full_table_serves_the_deepest_debt_and_the_rest_when_there_is_room() -> None:
    world = World(limits=replace(LIMITS, max_in_flight=1))
    deeper = [part(one, 40) for one in SMALL_ONES[1:]]
    sent = orders(world.commit(part(A, 8), part(B, 30), part(C, 20), *deeper))
    assert [one.scope for one in sent] == [*SMALL_ONES[1:], B]  # eight small ones for one large
    order = sent[-1]
    assert of(world.state(), A).reason == "table_busy"
    after = only(world.commit(part(B, 1, 30), task_id=order.task_id))
    assert after.scope == C


def test_of_those_who_wait_goes_first_for_whom_readers_have_paid_most() -> None:
    """Not whoever is deepest in debt: the shallow would wait for as long as others come."""
    world = World(limits=replace(LIMITS, max_in_flight=1))
    first, *_ = orders(world.commit(*[part(one, 8) for one in SMALL_ONES]))
    world.commit(part(A, 8))
    world.tick(300_000)
    world.commit(part(B, 30))
    assert only(world.commit(part(first.scope, 1, 8), task_id=first.task_id)).scope == A


def test_a_large_rewrite_takes_the_places_of_eight_small_ones() -> None:
    world = World(limits=replace(LIMITS, max_in_flight=1, cheap_bytes=8, deadline_ms=3 * DAY_MS))
    [small] = orders(world.commit(part(A, 8)))
    world.commit(part(B, 9))
    assert not orders(world.tick(DAY_MS))  # paid for by now
    assert of(world.state(), B).reason == "table_busy"
    assert only(world.commit(part(A, 1, 8), task_id=small.task_id)).scope == B
    assert not orders(world.commit(part(C, 8)))


def test_settings_of_the_table_decide(world: World) -> None:
    world.more = {"settings": {"firnline.enabled": "false"}}
    assert world.commit(part(A, 99)) == []
    assert of(world.state(), A).reason == "disabled"
    world.more = {"settings": {"firnline.rewrite.min-fragments": "90"}}
    assert only(world.commit(part(B, 1))).scope == A


GROUPS = replace(LIMITS, groups=groups_of("etl,adhoc"))


@pytest.mark.parametrize(
    ("settings", "topic"),
    [
        ({}, "rewrite-tasks"),
        ({"firnline.group": "etl"}, "rewrite-tasks.etl"),
        ({"self-optimizing.group": "adhoc"}, "rewrite-tasks.adhoc"),
        ({"namespace:firnline.group": "etl"}, "rewrite-tasks.etl"),
        ({"namespace:firnline.group": "etl", "firnline.group": "default"}, "rewrite-tasks"),
        ({"firnline.group": "bi"}, "rewrite-tasks"),
    ],
)
def test_an_order_waits_with_the_tables_group(settings: dict[str, str], topic: str) -> None:
    world = World(limits=GROUPS, more={"settings": settings})
    only(world.commit(part(A, 8)))
    assert [one for one in world.topics if one.startswith("rewrite")] == [topic]


def test_a_group_has_both_lanes_and_a_table_may_change_its_group() -> None:
    world = World(limits=GROUPS, more={"settings": {"firnline.group": "etl"}})
    world.take(failed(only(world.commit(part(A, 8))), retryable=True))
    only(world.tick(10_000))
    world.more = {"settings": {"firnline.group": "adhoc"}}
    only(world.commit(part(B, 8)))
    rewrites = [one for one in world.topics if one.startswith("rewrite")]
    assert rewrites == ["rewrite-tasks.etl", "rewrite-tasks-heavy.etl", "rewrite-tasks.adhoc"]


def test_a_group_that_the_fleet_lacks_stops_nothing_and_is_told_until_it_is_there() -> None:
    world = World(limits=GROUPS, more={"settings": {"firnline.group": "bi"}})
    records = world.commit(part(A, 8)) + world.tick()
    assert only(records)
    [told] = [one for one in records if isinstance(one, TableAdvice)]
    assert (told.rule, told.withdrawn) == ("unknown_group", False)
    assert told.finding.startswith("firnline.group=bi of the table: the fleet has no such group")
    assert "FIRNLINE_GROUPS" in told.remedy
    [shown] = [one for one in world.state().in_force or () if one.name == "firnline.group"]
    assert (shown.value, shown.problem) == ("bi", unserved("bi", GROUPS.groups))
    world.limits = replace(LIMITS, groups=groups_of("etl,bi"))
    world.restart()
    after = world.commit(part(B, 8)) + world.tick()
    assert [one.withdrawn for one in after if isinstance(one, TableAdvice)] == [True]
    assert [one for one in world.topics if one.startswith("rewrite")][-1] == "rewrite-tasks.bi"


def test_expiries_are_the_default_groups() -> None:
    settings = {**EXPIRING, "firnline.group": "etl"}
    world = World(limits=GROUPS, more={"settings": settings})
    for _ in range(3):
        world.commit(part(A, 1))
    assert [one for one in world.tick(3_700_000) if isinstance(one, ExpireSnapshots)]
    orders = {one for one in world.topics if "-tasks" in one}
    assert orders == {"expiry-tasks", "rewrite-tasks.etl"}


def test_while_something_is_missing_nothing_is_ordered_and_afterwards_everything(
    world: World,
) -> None:
    world.commit(part(A, 1))
    world.head += 1
    missing = world.change(2, 1, part(B, 9))
    assert world.commit(part(A, 9)) == []
    [request] = [one for one in world.tick(3_000) if isinstance(one, ResyncTable)]
    assert (request.known_snapshot_id, request.reason) == (1, "gap")
    assert world.state().waiting_for_resync
    orders = [one for one in world.take(missing) if isinstance(one, RewriteFiles)]
    assert {order.scope for order in orders} == {A, B}
    assert not world.state().waiting_for_resync


def test_partitions_that_absolute_counters_do_not_mention_are_empty(world: World) -> None:
    world.commit(part(A, 2), part(B, 3))
    world.take(world.change(9, 8, part(B, 4), kind=ChangeKind.ABSOLUTE))
    state = world.state()
    assert [(one.scope, one.holds) for one in state.partitions] == [(B, fragments(4))]
    assert (state.partition_count, state.holds, state.epoch) == (1, fragments(4), 2)


def test_a_table_that_lived_before_us_is_asked_for_at_once(world: World) -> None:
    world.head = 40
    [request] = world.commit(part(A, 1))
    assert isinstance(request, ResyncTable)
    assert (request.known_snapshot_id, request.reason) == (None, "first_seen")


def test_a_dropped_table_is_shown_as_such_and_forgotten_after_a_day(world: World) -> None:
    world.commit(part(A, 9))
    gone = world.change(0, None, snapshot_id=None, kind=ChangeKind.REMOVED, event_id="gone")
    assert world.take(gone) == []
    state = world.state()
    assert (state.removed, state.partitions, state.partition_count) == (True, (), 0)
    assert not [key for key in world.pairs.values if key.startswith(PARTITION)]
    world.tick(DAY_MS)
    assert world.pairs.values == {}
    assert world.bucket.tables == 0


def test_other_branches_are_not_counted_but_may_hold_snapshots(world: World) -> None:
    world.commit(part(A, 2))
    assert world.take(world.change(5, 1, part(A, 99), ref="audit")) == []
    assert world.state().holds == fragments(2)
    assert len([key for key in world.pairs.values if key.startswith(TABLE_KEYS)]) == 1
    world.take(world.change(0, None, snapshot_id=None, kind=ChangeKind.REMOVED, ref="audit"))
    assert not world.state().removed


def test_old_snapshots_are_expired_once_at_a_time(world: World) -> None:
    world.more = {"settings": EXPIRING}
    for _ in range(3):
        world.commit(part(A, 1))
    assert not [one for one in world.tick(3_000_000) if isinstance(one, ExpireSnapshots)]
    [expiry] = [one for one in world.tick(700_000) if isinstance(one, ExpireSnapshots)]
    assert (expiry.retain_last, expiry.older_than_ms) == (1, world.now_ms - 3_600_000)
    assert not [one for one in world.tick(600_000) if isinstance(one, ExpireSnapshots)]
    assert world.state().expiry_reason == "expiry_in_flight"
    done = SnapshotsExpired(expiry.task_id, TABLE, 2, 1, world.now_ms, 0, None, "w", 0)
    world.take(done)
    state = world.state()
    assert (state.snapshot_count, state.expiry_reason) == (1, "too_few_snapshots")


def test_an_expiry_is_announced_and_waits_for_the_grace_period(world: World) -> None:
    """Nobody has said that snapshots may go: what would go is found out, told, and waits a day,
    restarts included."""
    world.more = {"settings": {"firnline.retain.hours": "1"}}
    world.commit(part(A, 1))
    [ask] = [one for one in world.commit(part(A, 1)) if isinstance(one, ExpireSnapshots)]
    assert ask.begins_at_ms == world.now_ms + DAY_MS
    world.now_ms += 4_000
    told = SnapshotsExpired(ask.task_id, TABLE, 0, 3, 1, 0, None, "w", 0, ask.begins_at_ms, 2, 5, 7)
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
    world: World, said: str, reason: str | None
) -> None:
    world.more = {"settings": {"firnline.retain.hours": "0"}}
    world.commit(part(A, 1))
    [ask] = [one for one in world.commit(part(A, 1)) if isinstance(one, ExpireSnapshots)]
    world.take(replace(expired(ask), begins_at_ms=ask.begins_at_ms))
    settings = {"firnline.retain.hours": "0", "firnline.expire.enabled": said}
    records = world.take(world.change(0, None, snapshot_id=None, settings=settings))
    assert next((one.reason for one in records if isinstance(one, ExpireSnapshots)), None) == reason


def expired(order: ExpireSnapshots) -> SnapshotsExpired:
    return SnapshotsExpired(order.task_id, TABLE, 0, 2, 1, 0, None, "w", 0)


def test_a_table_with_files_of_others_is_left_alone_and_its_owner_told(world: World) -> None:
    world.more = {"settings": {"firnline.retain.hours": "1"}}
    world.commit(part(A, 1), foreign_files=1)
    world.commit(part(A, 1))
    assert not [one for one in world.tick(2 * DAY_MS) if isinstance(one, ExpireSnapshots)]
    state = world.state()
    assert (state.expiry_reason, state.advised) == ("foreign_files", ("foreign_files",))
    agreed = world.take(world.change(0, None, snapshot_id=None, settings=EXPIRING))
    assert [one.reason for one in agreed if isinstance(one, ExpireSnapshots)] == ["old_snapshots"]


def test_files_of_others_on_another_branch_count_as_well(world: World) -> None:
    world.commit(part(A, 2))
    world.take(world.change(5, 1, part(A, 9), ref="audit", foreign_files=9))
    world.tick(2 * DAY_MS * 5)
    assert world.state().expiry_reason == "foreign_files"


def test_what_a_worker_finds_is_remembered(world: World) -> None:
    world.more = {"settings": {"firnline.retain.hours": "1"}}
    world.commit(part(A, 1))
    [ask] = [one for one in world.commit(part(A, 1)) if isinstance(one, ExpireSnapshots)]
    world.take(replace(expired(ask), refused_reason="foreign_files"))
    assert not [one for one in world.tick(9 * DAY_MS) if isinstance(one, ExpireSnapshots)]
    assert world.state().expiry_reason == "foreign_files"


def test_statuses_are_of_all_partitions_and_not_of_those_shown(world: World) -> None:
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
    assert state.debt_files == 150 * 8 + 120 * 20


def test_unknown_snapshots_are_not_none_at_all(world: World) -> None:
    world.commit(part(A, 2))
    world.take(world.change(5, 1, part(A, 9), ref="audit"))
    world.commit(part(A, 1))
    assert world.state().snapshot_count is None


def test_a_refused_expiry_shows_its_reason(world: World) -> None:
    world.more = {"settings": EXPIRING}
    world.commit(part(A, 1))
    world.commit(part(A, 1))
    [expiry] = [one for one in world.tick(3_700_000) if isinstance(one, ExpireSnapshots)]
    world.take(SnapshotsExpired(expiry.task_id, TABLE, 0, 2, 1, 0, "gc_disabled", "w", 0))
    assert world.state().expiry_reason == "gc_disabled"


def test_the_expiry_spares_what_tasks_in_flight_started_from() -> None:
    world = World(limits=replace(LIMITS, deadline_ms=DAY_MS))
    world.more = {"settings": EXPIRING}
    world.commit(part(A, 1))
    world.tick(60_000)
    order = only(world.commit(part(A, 8)))
    [expiry] = [one for one in world.tick(7_200_000) if isinstance(one, ExpireSnapshots)]
    assert expiry.protected_snapshot_ids == (order.trigger_snapshot_id,)
    assert expiry.older_than_ms == order.ordered_at_ms


def test_a_step_that_is_not_kept_comes_out_the_same_again(world: World) -> None:
    """A crash between sending and keeping repeats the order under the same id."""
    world.commit(part(A, 7))
    change = world.change(2, 1, part(A, 1))
    first = world.bucket.handle(change, world.now_ms)
    world.restart()
    assert world.bucket.handle(change, world.now_ms).outputs == first.outputs
    world.bucket.discard()
    assert world.bucket.handle(change, world.now_ms).outputs == first.outputs


def test_what_was_due_stays_due_where_a_tick_is_not_kept(world: World) -> None:
    world.commit(part(A, 1))
    world.now_ms += 1_000
    tick = TickPassed(0, world.now_ms)
    first = world.bucket.handle(tick, world.now_ms)
    assert first.outputs
    world.bucket.discard()
    assert world.bucket.handle(tick, world.now_ms).outputs == first.outputs


def test_a_restart_goes_on_where_the_state_ends(world: World) -> None:
    order = only(world.commit(part(A, 8)))
    world.head += 1
    assert world.commit(part(A, 1)) == []  # a gap: a request is due in 3 s
    world.restart()
    assert (world.bucket.tables, world.bucket.in_flight) == (1, 1)
    assert [one for one in world.tick(3_000) if isinstance(one, ResyncTable)]
    world.take(world.change(2, 1, part(A, 1)))
    world.commit(part(A, 1, 8), task_id=order.task_id)
    assert of(world.state(), A).status == "cooling"


def test_a_tick_with_nothing_due_touches_nothing(world: World) -> None:
    world.commit(part(A, 1))
    world.state()
    before = dict(world.pairs.values)
    assert world.tick() == []
    assert world.pairs.values == before


def test_a_state_is_shown_once_a_second_at_the_most() -> None:
    world = World(limits=replace(LIMITS, quiet_ms=100))
    world.commit(part(A, 1))
    world.tick(10)
    world.commit(part(A, 8))
    assert only(world.tick(200))  # a visit, for the quiet period is over
    assert len(world.shown) == 1
    world.tick(800)
    assert len(world.shown) == 2


def test_a_request_is_due_by_itself(world: World) -> None:
    world.commit(part(A, 1))
    world.head += 1
    world.commit(part(A, 1))
    assert not [one for one in world.tick(1_500) if isinstance(one, ResyncTable)]
    assert [one for one in world.tick(1_500) if isinstance(one, ResyncTable)]


def test_an_expiry_is_due_by_itself(world: World) -> None:
    world.more = {"settings": EXPIRING}
    large = FileTally(on_target=Tally(1, 1, 1))  # no debt: nothing else ever falls due
    for _ in range(2):
        world.commit(PartitionChange(A, large, FileTally()))
    world.tick(2_000)
    assert [one for one in world.tick(3_600_000) if isinstance(one, ExpireSnapshots)]


def test_global_deletes_burden_every_partition(world: World) -> None:
    world.commit(part(A, 1), part(B, 1))
    deletes = FileTally(equality_deletes=Tally(4, 4, 4))
    records = world.commit(PartitionChange(Scope(1, "[]"), deletes, FileTally()))
    orders = {one.scope: one.reason for one in records if isinstance(one, RewriteFiles)}
    assert (orders[A], orders[B]) == ("global_deletes", "global_deletes")


def test_a_record_that_has_no_business_here_is_poisonous(world: World) -> None:
    with pytest.raises(PoisonousRecord) as poison:
        world.take(TABLE)
    assert poison.value.reason == "unexpected_record"


# ---- what people order


def unpark(partition: str | None = None) -> UnparkTable:
    return UnparkTable(TABLE, "main", partition, "ops", 1)


def parked(world: World) -> None:
    """A and B hold debt, and are parked."""
    records = world.commit(part(A, 8), part(B, 8))
    for _ in range(3):
        for order in [one for one in records if isinstance(one, RewriteFiles)]:
            world.take(failed(order, retryable=False))
        records = world.tick(60_000)
    assert not [one for one in records if isinstance(one, RewriteFiles)]


def test_a_parked_table_is_ordered_again_when_a_person_says_so(world: World) -> None:
    parked(world)
    assert [one.reason for one in world.state().partitions] == ["out_of_memory"] * 2
    orders = [one for one in world.take(unpark()) if isinstance(one, RewriteFiles)]
    assert {(one.scope, one.attempt) for one in orders} == {(A, 4), (B, 4)}
    assert [one for one in world.take(unpark()) if isinstance(one, RewriteFiles)] == []


def test_parking_is_counted_once(world: World) -> None:
    """`firnline_partitions_parked_total`: what an alarm watches."""
    order, outcomes = only(world.commit(part(A, 8))), []
    for _ in range(3):
        step = world.bucket.handle(failed(order, retryable=False), world.now_ms)
        world.bucket.commit()
        outcomes += step.outcomes
        world.tick(60_000)
    assert outcomes.count("parked") == 1


def test_one_partition_is_unparked_alone(world: World) -> None:
    parked(world)
    assert only(world.take(unpark(A.partition))).scope == A
    assert of(world.state(), B).status == "parked"


def test_an_order_about_an_unknown_table_does_nothing(world: World) -> None:
    assert world.take(unpark()) == []
    assert world.take(HoldPartitions(TABLE, "main", (A,), "undone", 2, "ops", 1)) == []


def test_a_held_partition_is_not_ordered_until_its_moment_or_a_word(world: World) -> None:
    world.commit(part(A, 7))
    until = world.now_ms + DAY_MS
    world.take(HoldPartitions(TABLE, "main", (A,), "undone", until, "ops", 1))
    assert [one for one in world.commit(part(A, 9)) if isinstance(one, RewriteFiles)] == []
    shown = of(world.state(), A)
    assert (shown.status, shown.reason, shown.until_ms) == ("parked", "undone", until)
    assert only(world.take(unpark())).scope == A


def test_a_hold_ends_by_itself(world: World) -> None:
    world.commit(part(A, 7))
    world.take(HoldPartitions(TABLE, "main", (A,), "undone", world.now_ms + 60_000, "ops", 1))
    world.commit(part(A, 9))
    assert only(world.tick(60_000)).scope == A


def test_swept_outputs_are_in_no_counter(world: World) -> None:
    world.commit(part(A, 3))
    assert world.take(OutputsSwept(TABLE, 1, 2, 0, {}, "committer", 1)) == []


def pause(table: TableName | None = None) -> PauseMaintenance:
    return PauseMaintenance(table, "migration", "ops", 900_000)


def resume(table: TableName | None = None) -> ResumeMaintenance:
    return ResumeMaintenance(table, "ops", 950_000)


def orders(records: list[Any]) -> list[Any]:
    return [one for one in records if isinstance(one, RewriteFiles | ExpireSnapshots)]


@pytest.mark.parametrize("table", [None, TABLE])
def test_a_paused_table_gets_no_orders_until_it_goes_on(table: TableName | None) -> None:
    world = World()
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
    assert (of(state, A).reason, of(state, A).status) == ("paused", "idle")
    assert world.bucket.paused == 1
    assert only(world.take(resume(table))).scope == A
    assert world.bucket.paused == 0
    assert world.state().hold is None


def test_a_pause_survives_a_restart_and_holds_for_tables_that_come_later() -> None:
    world = World()
    world.take(pause())
    world.restart()
    assert not orders(world.commit(part(A, 8)))
    world.restart()
    assert not orders(world.tick(LIMITS.max_age_ms))
    assert only(world.take(resume())).scope == A


def test_a_table_paused_by_name_stays_paused_when_the_fleet_goes_on() -> None:
    world = World()
    world.take(pause(TABLE))
    world.take(pause())
    world.take(resume())
    assert not orders(world.commit(part(A, 8)))
    world.take(resume(TableName("other", ("db",), "t")))
    assert not orders(world.tick())
    assert only(world.take(resume(TABLE))).scope == A


def test_a_task_that_is_out_when_the_switch_is_pulled_ends_as_ever() -> None:
    world = World()
    order = only(world.commit(part(A, 8)))
    world.take(pause())
    assert of(world.state(), A).status == "in_flight"
    world.commit(part(A, 1, 8), task_id=order.task_id)
    world.take(committed(order, world.head))
    assert of(world.state(), A).status == "cooling"


def test_nothing_expires_while_paused() -> None:
    world = World(more={"snapshot_count": 9, "oldest_snapshot_ms": 1})
    world.now_ms = 10 * DAY_MS
    world.take(pause())
    assert not orders(world.commit(part(A, 1), kind=ChangeKind.ABSOLUTE))
    assert world.state().expiry_reason == "paused"
    assert any(isinstance(one, ExpireSnapshots) for one in world.take(resume()))


PACED = {"settings": {"firnline.commit.max-per-hour": "4", "firnline.rewrite.cool-down-ms": "0"}}


def test_more_commits_than_the_ceiling_wait_their_turn() -> None:
    """4 an hour: 2 at once, then one every 20 minutes; a restart forgets none of them."""
    world = World(more=PACED)
    for _ in range(2):
        order = only(world.commit(part(A, 8)))
        world.commit(part(A, 0, 8), task_id=order.task_id)
        world.take(committed(order, world.head, at_ms=world.now_ms))
    world.restart()
    assert not orders(world.commit(part(A, 8)))
    state = world.state()
    assert state.hold is not None
    assert (state.hold.reason, of(state, A).reason) == ("commit_ceiling", "commit_ceiling")
    assert of(state, A).numbers["max_commits"] == 4
    wait_ms = (of(state, A).until_ms or 0) - world.now_ms
    assert 19 * 60_000 < wait_ms <= 20 * 60_000
    assert not orders(world.tick(wait_ms - 1_000))
    assert only(world.tick(1_100)).scope == A
    assert world.state().hold is not None  # the next one


def test_orders_that_are_out_take_room_until_they_end() -> None:
    world = World(more=PACED)
    [first] = orders(world.commit(part(C, 10)))
    world.tick(1)
    [_] = orders(world.commit(part(B, 9)))
    world.tick(1)
    assert not orders(world.commit(part(A, 8)))
    assert of(world.state(), A).reason == "commit_ceiling"
    skipped = RewriteSkipped(first.task_id, TABLE, "main", C, "nothing_to_do", 0)
    assert only(world.take(skipped)).scope == A


def test_orders_of_one_moment_take_the_room_of_one() -> None:
    """Their results share a commit, so the ceiling lets all of them go, and then nobody."""
    world = World(more={"settings": {**PACED["settings"], "firnline.commit.max-per-hour": "2"}})
    sent = orders(world.commit(part(A, 8), part(B, 9), part(C, 10)))
    assert [(order.scope, order.together) for order in sent] == [(C, 3), (B, 3), (A, 3)]
    world.tick(1)
    later = Scope(0, '["d"]')
    assert not orders(world.commit(part(later, 8)))
    assert of(world.state(), later).reason == "commit_ceiling"


def test_results_that_shared_a_commit_count_once() -> None:
    world = World(more=PACED)
    first, second = orders(world.commit(part(A, 8), part(B, 8)))
    both = f"{first.task_id},{second.task_id}"
    world.commit(part(A, 0, 8), part(B, 0, 8), task_id=both)
    for order in (first, second):
        world.take(committed(order, world.head, at_ms=world.now_ms))
    assert only(world.commit(part(A, 8))).scope == A


def test_a_commit_of_an_order_given_up_for_lost_counts() -> None:
    world = World(more=PACED)
    order = only(world.commit(part(A, 8)))
    world.tick(LIMITS.deadline_ms + 20_000)
    for snapshot in (901, 902, 903):
        world.take(committed(replace(order, task_id=f"x{snapshot}"), snapshot, at_ms=world.now_ms))
    assert not orders(world.commit(part(B, 8)))


NOON = 1_768_219_200_000  # 2026-01-12T12:00Z, a Monday
HOUR_MS = 3_600_000


def set_to(**properties: str) -> dict[str, Any]:
    return {f"firnline.{name}": value for name, value in properties.items()}


def test_outside_its_window_a_table_waits_until_it_opens() -> None:
    world = World(now_ms=NOON, more={"settings": set_to(window="Mon 22:00-23:00 Europe/Berlin")})
    assert not orders(world.commit(part(A, 8)))
    state = world.state()
    assert (of(state, A).reason, of(state, A).until_ms) == ("outside_window", NOON + 9 * HOUR_MS)
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
    assert of(world.state(), A).status != "in_flight"


def test_a_blackout_goes_before_a_window_and_the_table_goes_on_after_it() -> None:
    both = set_to(window="00:00-24:00", blackout="2026-01-12T12:00Z/2026-01-12T13:00Z")
    world = World(now_ms=NOON, more={"settings": both})
    assert not orders(world.commit(part(A, 8)))
    assert of(world.state(), A).reason == "blackout"
    world.now_ms = NOON + HOUR_MS
    assert only(world.tick(0)).scope == A


def test_the_fleets_window_holds_where_the_table_has_none_of_its_own() -> None:
    world = World(now_ms=NOON, limits=replace(LIMITS, window="Sun 01:00-02:00"))
    assert not orders(world.commit(part(A, 8)))
    assert only(world.commit(part(A, 1), settings=set_to(window="12:00-13:00"))).scope == A


def test_a_window_that_cannot_be_read_stops_the_table_and_not_the_planner() -> None:
    world = World(now_ms=NOON, more={"settings": set_to(window="at night")})
    assert not orders(world.commit(part(A, 8)))
    state = world.state()
    assert of(state, A).reason == "unreadable_window"
    assert state.hold is not None
    assert "Mon-Fri 22:00-06:00 Europe/Berlin" in state.hold.detail
    assert only(world.commit(part(A, 1), settings={})).scope == A


def test_nothing_expires_outside_the_window() -> None:
    old = {"snapshot_count": 9, "oldest_snapshot_ms": NOON - 10 * DAY_MS}
    world = World(now_ms=NOON, more=old | {"settings": set_to(window="13:00-14:00") | AGREED})
    assert not orders(world.commit(part(A, 1), kind=ChangeKind.ABSOLUTE))
    assert world.state().expiry_reason == "outside_window"
    world.now_ms = NOON + HOUR_MS
    assert any(isinstance(one, ExpireSnapshots) for one in world.tick(0))


def rewritten_by_others(world: World, *parts: PartitionChange, **more: Any) -> list[Any]:
    maker = {"engine-name": "spark", "app-id": "local-7"}
    return world.commit(*parts, operation="replace", maker=maker, **more)


def test_a_rewrite_by_somebody_else_is_given_minutes_and_named() -> None:
    world = World()
    world.commit(part(A, 9), part(B, 7), settings=set_to(enabled="false"))
    rewritten_by_others(world, part(A, 1, 9))
    assert not orders(world.commit(part(B, 9)))
    state = world.state()
    assert state.hold is not None
    assert (state.hold.reason, of(state, B).reason) == ("other_maintainer", "other_maintainer")
    assert "engine-name spark" in state.hold.detail
    assert only(world.tick(5 * 60_000)).scope == B


def test_a_maintainer_that_comes_again_is_yielded_to_for_an_hour_also_after_a_restart() -> None:
    world = World()
    for _ in range(2):
        rewritten_by_others(world, part(A, 1))
        world.tick(DAY_MS)
    rewritten_by_others(world, part(A, 1))
    assert not orders(world.commit(part(B, 9)))
    world.restart()
    assert not orders(world.tick(HOUR_MS - 60_000))
    assert {order.scope for order in orders(world.tick(60_000))} == {A, B}


def test_our_own_rewrites_made_or_handed_over_hold_nothing_up() -> None:
    world = World()
    order = only(world.commit(part(A, 8)))
    rewritten_by_others(world, part(A, 1, 8), task_id=order.task_id)
    assert world.state().hold is None
    rewritten_by_others(world, part(A, 1, 1), task_id="an order lost long ago")
    assert only(world.commit(part(B, 8))).scope == B


def test_a_table_may_yield_to_nobody() -> None:
    world = World(more={"settings": {"firnline.yield-ms": "0"}})
    rewritten_by_others(world, part(A, 1))
    assert only(world.commit(part(B, 8))).scope == B


def test_expiry_yields_to_nobody() -> None:
    """It meets nobody at the same files, and somebody has to do it."""
    old = {"snapshot_count": 9, "oldest_snapshot_ms": 1}
    world = World(now_ms=10 * DAY_MS, more={"settings": set_to(enabled="false")})
    world.commit(part(A, 1), kind=ChangeKind.ABSOLUTE, **old)
    sent = rewritten_by_others(world, part(A, 1), settings={})
    assert any(isinstance(one, ExpireSnapshots) for one in sent)
    assert world.state().hold is not None


def merged(scope: Scope, deletes: int) -> PartitionChange:
    """What a MERGE on read adds."""
    added = FileTally(position_deletes=Tally(deletes, deletes, deletes))
    return PartitionChange(scope, added, FileTally())


def with_data() -> World:
    world = World()
    world.commit(part(A, 1), part(B, 1))
    return world


def test_a_hot_partition_waits_until_its_writer_pauses() -> None:
    world = with_data()
    assert not orders(world.commit(merged(A, 8), operation="overwrite"))
    assert only(world.commit(part(B, 8))).scope == B  # another partition is not hot
    state = of(world.state(), A)
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
    assert of(world.state(), A).reason == "hot"


def test_upserts_and_appends_heat_nothing() -> None:
    world = with_data()
    upserts = FileTally(equality_deletes=Tally(4, 4, 4), position_deletes=Tally(1, 1, 1))
    change = PartitionChange(A, upserts, FileTally())
    assert only(world.commit(change, operation="overwrite")).scope == A


def test_a_window_that_opens_or_closes_is_shown_without_any_event() -> None:
    hours = set_to(
        window="Mon 22:00-23:00 Europe/Berlin", blackout="2026-01-12T21:30Z/2026-01-13T00:00Z"
    )
    world = World(now_ms=NOON, more={"settings": hours})
    world.commit(part(A, 1))
    assert world.state().hold is not None
    seen = []
    for at_ms in (NOON + 9 * HOUR_MS, NOON + 9 * HOUR_MS + HOUR_MS // 2, NOON + 12 * HOUR_MS):
        world.now_ms = at_ms
        world.tick(0)
        seen.append(world.shown[-1].hold and world.shown[-1].hold.reason)
    assert seen == [None, "blackout", "outside_window"]


def test_what_happens_meanwhile_is_shown_at_once() -> None:
    """The showing planned for the window's opening does not stand in its way."""
    world = World(now_ms=NOON, more={"settings": set_to(window="Mon 22:00-23:00")})
    world.commit(part(A, 1))
    world.state()
    world.commit(part(A, 1))
    assert world.state().ordinal == 2


# ---- a commit that was read back


def compared(order: RewriteFiles, outcome: str) -> RowsCompared:
    return RowsCompared(
        order.task_id, TABLE, "main", order.scope, (9,), outcome, "rows_differ", "", None, None,
        "w", 1,
    )  # fmt: skip


@pytest.mark.parametrize("in_flight", [True, False])
def test_a_commit_that_differs_parks_its_partition_until_a_person_has_looked(
    world: World, in_flight: bool
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
    shown = of(world.state(), A)
    assert (shown.status, shown.reason) == ("parked", "rows_differ")
    assert only(world.take(unpark())).scope == A


def test_a_commit_that_is_equal_or_was_not_read_changes_nothing(world: World) -> None:
    order = only(world.commit(part(A, 8)))
    assert world.take(compared(order, "equal")) == []
    assert world.take(compared(order, "skipped")) == []
    assert of(world.state(), A).status == "in_flight"


HOUR_MS = 3_600_000


def test_a_clock_that_was_set_back_does_not_hide_the_table(world: World) -> None:
    world.now_ms += HOUR_MS
    world.commit(part(A, 1))
    assert world.state().head_snapshot_id == 1
    world.commit(part(A, 1))
    world.now_ms -= HOUR_MS
    world.commit(part(A, 1))
    assert world.state().head_snapshot_id == 3


def test_a_clock_that_was_set_back_does_not_keep_a_table_waiting(world: World) -> None:
    world.commit(part(A, 1))
    world.now_ms += HOUR_MS
    world.head += 1  # its event is lost
    world.commit(part(A, 1))
    world.now_ms -= HOUR_MS
    world.commit(part(A, 1))
    asked = [record for _ in range(10) for record in world.tick()]
    assert [type(one) for one in asked if isinstance(one, ResyncTable)] == [ResyncTable]


def test_a_look_at_a_dropped_table_does_not_forget_it_early(world: World) -> None:
    """The moment of forgetting is a day away, and no clock was set back."""
    world.commit(part(A, 9))
    gone = world.change(0, None, snapshot_id=None, kind=ChangeKind.REMOVED, event_id="gone")
    world.take(gone)
    world.state()
    for _ in range(3):
        world.tick(LIMITS.deadline_ms)
    assert world.bucket.tables == 1
