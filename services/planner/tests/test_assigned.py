"""Whoever moves tables, and whatever comes late: one bucket counts a table, and loses nothing."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest
from firnline_adapters.in_memory import MemoryAssignments, MemoryBroker, MemoryPublisher
from firnline_adapters.logs import Log
from firnline_adapters.records import RecordCodec, encode
from firnline_domain.errors import Misconfigured
from firnline_domain.identity import Scope, TableName, bucket_of
from firnline_domain.records.assignments import HANDOVERS, TOPIC, Assign
from firnline_domain.records.events import (
    BucketLoaded,
    ChangeKind,
    FilesChanged,
    PartitionChange,
    TableAssigned,
    TableScanned,
    TickPassed,
)
from firnline_domain.records.orders import (
    MoveTable,
    PauseMaintenance,
    ResumeMaintenance,
    RewriteFiles,
)
from firnline_domain.records.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds
from firnline_domain.values import replace
from firnline_planner.bucket import Bucket
from firnline_planner.inputs import (
    FILE_CHANGES,
    OPERATOR_ORDERS,
    TABLE_SCANS,
    TICKS,
    WITH_HANDOVERS,
    Reader,
)
from firnline_planner.memory_driver import MemoryDriver
from firnline_planner.state.bucket_state import BucketState
from firnline_planner.state.encoding import PARTITION, TABLE, table_uuid
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

BUCKETS = 3
SCOPE = Scope(0, "[]")
TABLES = [TableName(f"{number}-uuid", ("db",), f"t{number}") for number in range(3)]
LIMITS = Thresholds(quiet_ms=0, min_fragments=2)
CODEC = RecordCodec()  # it reads every schema
START_MS = 4_000_000_000_000


def tally(files: int) -> FileTally:
    return FileTally(fragments=Tally(files, files * 10, files * 100))


@dataclass
class Stage:
    """A fleet, told of tables that only grow; each bucket's planner steps when the story says so.

    `heard`: boards of three enrichers, which take news in at moments of their own.
    """

    assign: Assign = Assign.TABLES
    now_ms: int = START_MS
    files: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    answered: int = 0
    said: dict[str, bool] = field(default_factory=dict)  # whether a table is paused, at last
    meant: dict[str, int | None] = field(default_factory=dict)  # where a table is to be, at last
    twice: frozenset[str] = frozenset()  # tables that were on their way when state was lost

    def __post_init__(self) -> None:
        self.broker = MemoryBroker(BUCKETS)
        self.reader = Reader(CODEC, Log("planner"))
        self.driver = self.planners()
        self.heard = [MemoryAssignments(self.broker, CODEC) for _ in range(3)]

    def planners(self) -> MemoryDriver:
        return MemoryDriver(
            self.broker, self.reader, LIMITS, lambda: self.now_ms, self.assign, CODEC
        )

    def commit(self, table: TableName, teller: int | None = None) -> None:
        """One file more; whoever tells of it knows an assignment, or goes by the hash."""
        self.files[table.uuid] += 1
        self.tell(self.delta(table, self.files[table.uuid]), teller)

    def commit_to(self, bucket: int, table: TableName) -> None:
        """One file more, told to any bucket: by whoever has slept since the table was there."""
        self.files[table.uuid] += 1
        told = self.delta(table, self.files[table.uuid])
        self.broker.logs[FILE_CHANGES, bucket].append((table.uuid, encode(told)))

    def tell(self, change: FilesChanged, teller: int | None = None) -> None:
        board = None if teller is None else self.heard[teller].board
        MemoryPublisher(self.broker, board).publish(FILE_CHANGES, change.table.uuid, change)

    def delta(self, table: TableName, snapshot: int) -> FilesChanged:
        return change(table, ChangeKind.DELTA, snapshot, 1, self.now_ms)

    def order(self, record: Any) -> None:
        MemoryPublisher(self.broker).publish(OPERATOR_ORDERS, record.table.uuid, record)

    def scan(self, table: TableName) -> None:
        event = TableScanned(table, self.now_ms, self.now_ms, 1, 1)
        MemoryPublisher(self.broker).publish(TABLE_SCANS, table.uuid, event)

    def move(self, table: TableName, bucket: int | None) -> None:
        self.meant[table.uuid] = bucket
        self.order(MoveTable(table, bucket, "ops", self.now_ms))

    def pause(self, table: TableName, pulled: bool) -> None:
        self.said[table.uuid] = pulled
        pull = PauseMaintenance(table, "why", "ops", self.now_ms)
        self.order(pull if pulled else ResumeMaintenance(table, "ops", self.now_ms))

    def step(self, topic: str, bucket: int) -> None:
        self.now_ms += 7
        log = self.broker.logs["rewrite-tasks", bucket]
        known = len(log)
        self.driver.step(topic, bucket)
        alone = [one for one in TABLES if one.uuid not in self.twice]
        assert all(len(self.counting(one)) <= 1 for one in alone)
        for key, _ in log[known:]:
            # None where the order has left with its table, in the same step.
            assert key in self.twice or self.counting(named(key)) in ([bucket], [])

    def tick(self, bucket: int, seconds: int) -> None:
        self.now_ms += seconds * 1_000
        record = encode(TickPassed(bucket, self.now_ms))
        self.broker.logs[TICKS, bucket].append((str(bucket), record))
        self.step(TICKS, bucket)

    def counting(self, table: TableName) -> list[int]:
        """Buckets with anything of a table's counters."""
        return [
            number
            for number, pairs in enumerate(self.driver.pairs)
            if any(key[:1] in (TABLE, PARTITION) and is_of(key, table) for key in pairs.values)
        ]

    def on_their_way(self) -> frozenset[str]:
        """Tables that their homes have asked back."""
        states = [self.state(number) for number in range(BUCKETS)]
        routes = {one.uuid: states[bucket_of(one.uuid, BUCKETS)].route(one.uuid) for one in TABLES}
        return frozenset(
            uuid for uuid, one in routes.items() if one and one.recalled_for is not None
        )

    def orders(self) -> list[tuple[int, RewriteFiles]]:
        found = self.records("rewrite-tasks")
        return sorted(found, key=lambda one: one[1].ordered_at_ms)

    def records(self, topic: str) -> list[tuple[int, Any]]:
        """With the bucket of each; not those that say that a key is no more."""
        logs = [(bucket, self.broker.logs[topic, bucket]) for bucket in range(BUCKETS)]
        return [(bucket, CODEC.decode(value)) for bucket, log in logs for _, value in log if value]

    def answer(self) -> None:
        """What planners have asked for, from the tables as they are."""
        asked = [one for _, one in self.records("resync-requests")]
        for request in asked[self.answered :]:
            head = self.files[request.table.uuid]
            whole = change(request.table, ChangeKind.ABSOLUTE, head, head, self.now_ms)
            self.tell(whole)
        self.answered = len(asked)

    def work_off(self) -> None:
        """Everything that is on the topics, each record a step."""
        places = [(topic, one) for topic in (*WITH_HANDOVERS, TICKS) for one in range(BUCKETS)]
        while sum(self.has_read(*place) for place in places):
            self.driver.hear()

    def has_read(self, topic: str, bucket: int) -> bool:
        """After one step more."""
        before = self.read(topic, bucket)
        self.step(topic, bucket)
        return topic != TICKS and self.read(topic, bucket) > before

    def read(self, topic: str, bucket: int) -> int:
        return self.driver.buckets[bucket].next_offset(topic)

    def settle(self) -> None:
        for _ in range(6):
            self.work_off()
            for bucket in range(BUCKETS):
                self.tick(bucket, 100)
            self.answer()
        self.work_off()

    def state(self, bucket: int) -> BucketState:
        return BucketState(self.driver.pairs[bucket])


def is_of(key: bytes, table: TableName) -> bool:
    return table_uuid(key) == table.uuid


def named(uuid: str) -> TableName:
    return next(one for one in TABLES if one.uuid == uuid)


def change(
    table: TableName, kind: ChangeKind, snapshot: int, added: int, now_ms: int
) -> FilesChanged:
    return FilesChanged(
        event_id=f"{table.uuid} {kind} {snapshot} {now_ms if kind is ChangeKind.ABSOLUTE else ''}",
        table=table,
        ref="main",
        kind=kind,
        snapshot_id=snapshot,
        parent_snapshot_id=snapshot - 1 or None,
        sequence_number=snapshot,
        timestamp_ms=now_ms,
        operation="append",
        partitions=(PartitionChange(SCOPE, tally(added), FileTally()),),
        format_version=2,
        observed_at_ms=now_ms,
    )


tables, buckets = st.sampled_from(TABLES), st.integers(0, BUCKETS - 1)
tellers = st.sampled_from([None, 0, 1, 2])
places = st.tuples(st.sampled_from(WITH_HANDOVERS), buckets)
starts = st.lists(st.one_of(buckets, st.none()), min_size=len(TABLES), max_size=len(TABLES))
acts = st.one_of(
    st.tuples(st.just("commit"), tables, tellers),
    st.tuples(st.just("commit"), tables, tellers),
    st.tuples(st.just("again"), tables, tellers),
    st.tuples(st.just("move"), tables, st.one_of(buckets, st.none())),
    st.tuples(st.just("pause"), tables, st.booleans()),
    st.tuples(st.just("scan"), tables),
    st.tuples(st.just("hear"), st.integers(0, 2)),
    st.tuples(st.just("planners hear")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("tick"), buckets, st.integers(1, 6)),
    st.tuples(st.just("astray"), tables, buckets),
    *[st.tuples(st.just("step"), places)] * 4,
    *[st.tuples(st.just("drain"), places)] * 4,
)


def play(stage: Stage, story: list[tuple[Any, ...]]) -> None:
    for act in story:
        match act:
            case ("commit", table, teller):
                stage.commit(table, teller)
            case ("again", table, teller) if stage.files[table.uuid]:
                stage.tell(stage.delta(table, stage.files[table.uuid]), teller)
            case ("move", table, bucket):
                stage.move(table, bucket)
            case ("pause", table, pulled):
                stage.pause(table, pulled)
            case ("scan", table):
                stage.scan(table)
            case ("hear", teller):
                stage.heard[teller].catch_up()
            case ("planners hear",):
                stage.driver.hear()
            case ("restart",):
                stage.driver.restart()
            case ("tick", bucket, seconds):
                stage.tick(bucket, seconds)
            case ("astray", table, bucket):
                stage.commit_to(bucket, table)
            case ("step", place):
                stage.step(*place)
            case ("drain", place):
                while stage.has_read(*place):
                    pass


def begin(stage: Stage, where: list[int | None]) -> None:
    """Each table is somewhere, and has been elsewhere before."""
    for number, (table, bucket) in enumerate(zip(TABLES, where, strict=True)):
        stage.commit(table)
        stage.move(table, number)
        stage.work_off()
        stage.move(table, bucket)
        stage.work_off()


def demand_recount(stage: Stage) -> None:
    for table in TABLES:
        if not stage.files[table.uuid]:
            assert stage.counting(table) == []
            continue
        [bucket] = stage.counting(table)
        found = stage.state(bucket).table(table.uuid, "main")
        assert found is not None
        assert found.counters.head_snapshot_id == stage.files[table.uuid]
        assert found.counters.totals.holds == tally(stage.files[table.uuid])
        [partition] = stage.state(bucket).partitions(table.uuid, "main")
        assert partition.counters.holds == tally(stage.files[table.uuid])
        assert (found.pause is not None) == stage.said.get(table.uuid, False)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([Assign.TABLES, Assign.FILES]),
    st.one_of(st.just([]), starts),
    st.lists(acts, min_size=5, max_size=60),
)
def test_one_bucket_counts_a_table_and_counts_all_of_it(
    assign: Assign, where: list[int | None], story: list[tuple[Any, ...]]
) -> None:
    stage = Stage(assign)
    if where:
        begin(stage, where)
    play(stage, story)
    stage.work_off()
    out = {one.task_id for _, one in stage.orders()}
    running = set()
    for table in TABLES:
        for bucket in stage.counting(table):
            found = stage.state(bucket).table(table.uuid, "main")
            running |= {one.task_id for one in found.work.running} if found else set()
    assert running == out  # no order is forgotten on the way, so none is given twice
    assert not stage.records("dead-letters")
    stage.settle()
    demand_recount(stage)
    for uuid, bucket in stage.meant.items():
        if stage.files[uuid]:
            assert stage.counting(named(uuid)) == [
                bucket_of(uuid, BUCKETS) if bucket is None else bucket
            ]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(starts, st.lists(acts, max_size=30), st.lists(acts, max_size=40))
def test_a_fleet_whose_state_is_lost_finds_its_tables_where_they_were(
    where: list[int | None], before: list[tuple[Any, ...]], after: list[tuple[Any, ...]]
) -> None:
    """Nothing is left but the topics, and they are read again."""
    stage = Stage()
    begin(stage, where)
    play(stage, before)
    stage.twice = stage.on_their_way()
    stage.driver = stage.planners()
    play(stage, after)
    stage.settle()
    stage.twice = frozenset()
    for table in TABLES:  # without a last commit nobody could know of what was lost
        stage.commit(table)
    stage.settle()
    demand_recount(stage)


def settled_on(bucket_offset: int, stage: Stage, table: TableName) -> int:
    stage.commit(table)
    stage.work_off()
    target = (bucket_of(table.uuid, BUCKETS) + bucket_offset) % BUCKETS
    stage.move(table, target)
    stage.work_off()
    return target


def test_new_tables_go_to_the_lightest_bucket_once_all_have_told_of_their_load() -> None:
    stage = Stage()
    for bucket in range(BUCKETS):
        stage.tick(bucket, 10)
    stage.driver.hear()
    many = [TableName(f"{number}-many", ("db",), f"m{number}") for number in range(30)]
    for table in many:
        stage.commit(table)
    stage.work_off()
    counts = [len(stage.counting(one)) for one in many]
    assert counts == [1] * 30
    assert [one.tables for one in stage.driver.buckets] == [10, 10, 10]
    away = [one for one in many if stage.counting(one) != [bucket_of(one.uuid, BUCKETS)]]
    said = {one.table_uuid for _, one in stage.records(TOPIC) if isinstance(one, TableAssigned)}
    assert said == {one.uuid for one in away}


def test_what_a_table_has_of_people_and_of_orders_goes_with_it() -> None:
    stage, table = Stage(), TABLES[0]
    stage.commit(table)
    stage.commit(table)
    stage.work_off()
    [(_, order)] = stage.orders()
    stage.pause(table, True)
    target = settled_on(1, stage, table)
    found = stage.state(target).table(table.uuid, "main")
    assert found is not None
    assert [one.task_id for one in found.work.running] == [order.task_id]
    assert found.pause is not None
    assert stage.driver.buckets[target].paused == 1


def test_scans_find_the_table_where_it_is_and_go_with_it() -> None:
    stage, table = Stage(), TABLES[0]
    target = settled_on(1, stage, table)
    for _ in range(3):
        stage.now_ms += 60_000
        stage.scan(table)
        stage.work_off()
    known = stage.state(target).table(table.uuid, "main")
    assert known is not None
    assert known.work.reads is not None
    assert 1.9 < known.work.reads.level < 2
    target = settled_on(2, stage, table)
    moved = stage.state(target).table(table.uuid, "main")
    assert moved is not None
    assert moved.work.reads == known.work.reads


def test_a_table_that_is_to_be_at_home_before_anybody_knows_it_stays_there() -> None:
    """Two topics: the order may be read before the table's first event."""
    stage, uuid = Stage(), TABLES[2].uuid
    home = bucket_of(uuid, BUCKETS)
    stage.commit(named(next(one.uuid for one in TABLES if one.uuid != uuid)))
    stage.work_off()
    for bucket in range(BUCKETS):
        stage.tick(bucket, 10)  # all tell of their load
    stage.move(named(uuid), None)
    stage.work_off()
    stage.commit(named(uuid))
    stage.work_off()
    assert stage.counting(named(uuid)) == [home]


def test_a_table_that_is_forgotten_is_not_assigned_any_more() -> None:
    stage, table = Stage(), TABLES[0]
    target = settled_on(1, stage, table)
    gone = change(table, ChangeKind.REMOVED, 1, 0, stage.now_ms)
    stage.tell(gone)
    stage.work_off()
    for _ in range(3):
        stage.tick(target, 90_000)
        stage.work_off()
    home = bucket_of(table.uuid, BUCKETS)
    assert stage.counting(table) == []
    assert [*stage.state(home).routes(), *stage.state(target).routes()] == []
    assert stage.broker.logs[TOPIC, home][-1] == (table.uuid, b"")


def test_a_bucket_that_has_lost_a_table_is_handed_it_anew() -> None:
    stage, table = Stage(), TABLES[0]
    target = settled_on(1, stage, table)
    stage.broker.logs[HANDOVERS, target].clear()  # retention
    stage.driver.pairs[target].values.clear()
    stage.driver.restart()
    stage.commit(table)
    stage.settle()
    demand_recount(stage)
    assert stage.counting(table) == [target]


def test_a_record_that_has_waited_and_fails_takes_nothing_with_it() -> None:
    stage, table = Stage(), TABLES[0]
    settled_on(1, stage, table)
    stage.move(table, None)
    stage.step(OPERATOR_ORDERS, bucket_of(table.uuid, BUCKETS))
    stage.move(table, 99)  # waits, and no bucket has that number
    stage.meant.clear()
    stage.commit(table)
    stage.settle()
    demand_recount(stage)
    assert [one.reason for _, one in stage.records("dead-letters")] == ["no_such_bucket"]


@pytest.mark.parametrize("to", [None, 0, 1, 2])
@pytest.mark.parametrize("pulled", [True, False])
def test_what_waits_for_a_table_comes_in_its_order(to: int | None, pulled: bool) -> None:
    stage, table = Stage(), TABLES[0]
    settled_on(1, stage, table)
    home = bucket_of(table.uuid, BUCKETS)
    stage.move(table, (home + 2) % BUCKETS)
    stage.step(OPERATOR_ORDERS, home)
    stage.pause(table, not pulled)
    stage.pause(table, pulled)
    stage.move(table, to)
    while stage.has_read(OPERATOR_ORDERS, home):
        pass
    assert stage.counting(table) != []  # nobody has answered yet
    stage.settle()
    demand_recount(stage)
    assert stage.counting(table) == [home if to is None else to]


def test_a_big_table_goes_in_chunks() -> None:
    stage, table = Stage(), TABLES[0]
    stage.commit(table)
    stage.work_off()
    parts = tuple(
        PartitionChange(Scope(1, f'["{number:04}{"x" * 100}"]'), tally(1), FileTally())
        for number in range(3_000)
    )
    wide = change(table, ChangeKind.DELTA, 2, 1, stage.now_ms)
    stage.tell(replace(wide, partitions=parts))
    stage.work_off()
    target = (bucket_of(table.uuid, BUCKETS) + 1) % BUCKETS
    stage.move(table, target)
    stage.work_off()
    assert max(len(value) for _, value in stage.broker.logs[HANDOVERS, target]) < 1_000_000
    assert len(stage.broker.logs[HANDOVERS, target]) > 1
    assert stage.counting(table) == [target]
    assert len(list(stage.state(target).partitions(table.uuid, "main"))) == 3_001


def test_by_the_hash_no_bucket_begins_with_tables_that_are_elsewhere() -> None:
    stage, table = Stage(), TABLES[0]
    target = settled_on(1, stage, table)
    for bucket in (target, bucket_of(table.uuid, BUCKETS)):
        with pytest.raises(Misconfigured, match="firnline move TABLE --home"):
            Bucket(stage.driver.pairs[bucket], LIMITS)
    stage.move(table, None)
    stage.work_off()
    stage.assign = Assign.HASH
    for pairs in stage.driver.pairs:
        Bucket(pairs, LIMITS)


def test_by_the_hash_an_order_to_move_is_put_aside() -> None:
    stage = Stage(Assign.HASH)
    stage.move(TABLES[0], 1)
    stage.commit(TABLES[0])
    stage.driver.run()
    assert [one.reason for _, one in stage.records("dead-letters")] == ["not_assigned"]
    assert stage.counting(TABLES[0]) == [bucket_of(TABLES[0].uuid, BUCKETS)]
    assert stage.records(HANDOVERS) == stage.records(TOPIC) == []


def test_what_is_kept_by_table_stays_in_one_partition() -> None:
    stage, table = Stage(), TABLES[0]
    target = settled_on(1, stage, table)
    for _ in range(3):
        stage.tick(target, 100)
    assert {place for place, _ in stage.records("table-states")} == {bucket_of(table.uuid, BUCKETS)}


def test_files_weigh_where_files_are_asked_for() -> None:
    stage = Stage(Assign.FILES)
    for _ in range(5):
        stage.commit(TABLES[0])
    stage.work_off()
    stage.driver.restart()  # a start reads them
    [bucket] = stage.counting(TABLES[0])
    stage.tick(bucket, 10)
    told = [one for _, one in stage.records(TOPIC) if isinstance(one, BucketLoaded)]
    assert [(one.bucket, one.tables, one.files) for one in told][-1] == (bucket, 1, 5)
