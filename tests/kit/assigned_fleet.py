"""A fleet of planners in memory whose tables are assigned to buckets, a step at a time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from firnline_adapters.in_memory import MemoryBroker, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import RecordCodec, encode_record
from firnline_domain.identity import Scope, TableName, bucket_of
from firnline_domain.policy.fleet.placement import WINDOW_MS
from firnline_domain.records.events import (
    ChangeKind,
    FilesChanged,
    PartitionChange,
    TableScanned,
    TickPassed,
)
from firnline_domain.records.orders import (
    MoveTable,
    PauseMaintenance,
    ResumeMaintenance,
    RewriteFiles,
)
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.pauses import FLEET
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.bucket.inputs import (
    BY_BUCKET,
    FILE_CHANGES,
    OPERATOR_ORDERS,
    TABLE_SCANS,
    TICKS,
    WITH_HANDOVERS,
    InputReader,
)
from firnline_planner.placement.load import DECIDE_AFTER_MS
from firnline_planner.state.bucket_state import BucketState
from firnline_planner.state.encoding import PARTITION, TABLE, table_key_in

from tests.kit.changes import delta
from tests.kit.memory_driver import MemoryDriver
from tests.kit.memory_followers import MemoryAssignments

BUCKETS = 3  # that it begins with
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

    assigns: bool = True
    now_ms: int = START_MS
    files: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    answered: int = 0
    said: dict[str, bool] = field(default_factory=dict)  # whether a table is paused, at last
    meant: dict[str, int | None] = field(default_factory=dict)  # where a table is to be, at last
    twice: frozenset[str] = frozenset()  # tables that were on their way when state was lost

    def __post_init__(self) -> None:
        self.broker = MemoryBroker(BUCKETS)
        self.reader = InputReader(CODEC, Log("planner"))
        self.driver = self.planners()
        self.heard = [MemoryAssignments(self.broker, CODEC) for _ in range(3)]

    def planners(self) -> MemoryDriver:
        return MemoryDriver(
            self.broker, self.reader, LIMITS, lambda: self.now_ms, CODEC, self.assigns
        )

    def grow(self, buckets: int) -> None:
        """Have so many buckets, beside planners that run."""
        first, self.broker.buckets = self.broker.buckets, buckets
        self.driver.restart()
        for bucket in range(first, buckets):
            self.tick(bucket, 10)  # it tells of its load
        self.driver.hear()

    def pass_window(self) -> None:
        """Up to when buckets decide by their load."""
        self.now_ms += WINDOW_MS - self.now_ms % WINDOW_MS
        for seconds in (1 + DECIDE_AFTER_MS // 1_000, 1):
            for bucket in range(self.broker.buckets):
                self.tick(bucket, 0)
            self.driver.hear()
            self.now_ms += seconds * 1_000
        self.work_off()

    def commit(self, table: TableName, teller: int | None = None) -> None:
        """One file more; whoever tells of it knows an assignment, or goes by the hash."""
        self.files[table.uuid] += 1
        self.tell(self.delta(table, self.files[table.uuid]), teller)

    def commit_to(self, bucket: int, table: TableName) -> None:
        """One file more, told to any bucket: by whoever has slept since the table was there."""
        self.files[table.uuid] += 1
        told = self.delta(table, self.files[table.uuid])
        self.broker.logs[FILE_CHANGES, bucket].append((table.uuid, encode_record(told)))

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

    def pause_fleet(self, pulled: bool) -> None:
        pause = PauseMaintenance(None, "why", "ops", self.now_ms)
        order = pause if pulled else ResumeMaintenance(None, "ops", self.now_ms)
        MemoryPublisher(self.broker).broadcast(OPERATOR_ORDERS, FLEET, order)

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
        record = encode_record(TickPassed(bucket, self.now_ms))
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
        every = range(self.broker.buckets)
        logs = [(bucket, self.broker.logs[topic, bucket]) for bucket in every]
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
        every = range(self.broker.buckets)
        places = [(topic, one) for one in every for topic in (*topics_of(one), TICKS)]
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
            for bucket in range(self.broker.buckets):
                self.tick(bucket, 100)
            self.answer()
        self.work_off()

    def state(self, bucket: int) -> BucketState:
        return BucketState(self.driver.pairs[bucket])


def topics_of(bucket: int) -> tuple[str, ...]:
    """What a bucket reads."""
    return WITH_HANDOVERS if bucket < BUCKETS else BY_BUCKET


def is_of(key: bytes, table: TableName) -> bool:
    return table_key_in(key) == table.uuid


def named(uuid: str) -> TableName:
    return next((one for one in TABLES if one.uuid == uuid), TableName(uuid, ("db",), uuid))


def change(
    table: TableName, kind: ChangeKind, snapshot: int, added: int, now_ms: int
) -> FilesChanged:
    event_id = f"{table.uuid} {kind} {snapshot} {now_ms if kind is ChangeKind.ABSOLUTE else ''}"
    part = PartitionChange(SCOPE, tally(added), FileTally())
    return delta(table, snapshot, now_ms, part, kind=kind, event_id=event_id)


def settled_on(bucket_offset: int, stage: Stage, table: TableName) -> int:
    stage.commit(table)
    stage.work_off()
    target = (bucket_of(table.uuid, BUCKETS) + bucket_offset) % BUCKETS
    stage.move(table, target)
    stage.work_off()
    return target


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
