"""A lake of lists of snapshots, an enricher with a clock that is set, and a planner."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import RecordCodec
from firnline_domain.counters.fold.folding import fold_change
from firnline_domain.counters.fold.missing_snapshots import next_held, resync_request
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.errors import CatalogUnreachable, StorageRefused
from firnline_domain.identity import MAIN, TableName, bucket_of
from firnline_domain.ports import Delivery
from firnline_domain.records.events import (
    FilesChanged,
    RefMoved,
    SnapshotAdded,
    TableChange,
    TableCommitted,
)
from firnline_enricher.file_changes import (
    ChangeContext,
    absolute_changes,
    delta_changes,
    facts_delta,
    table_removal,
)
from firnline_enricher.handlers import EnricherHandlers
from firnline_enricher.pump import EnricherPump

from tests.kit.memory_catalog import MemoryCatalog, MemoryTables

BUCKETS = 4
STEP_S = 1.0
CODEC = RecordCodec()
REFUSED = StorageRefused("the bucket does not let us read (403)", "t")
AWAY = CatalogUnreachable("no answer")


def names_in(bucket: int) -> Callable[[], str]:
    numbers = count()
    return lambda: next(u for n in numbers if bucket_of(u := f"t{n}", BUCKETS) == bucket)


@dataclass
class Lake(EnricherHandlers):
    """Tables as lists of snapshots; those in `failing` cannot be read."""

    heads: dict[str, list[int]] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    failing: dict[str, Exception] = field(default_factory=dict)
    tries: list[str] = field(default_factory=list)
    takes_s: float = 0.0  # a try that fails
    now: float = 1_000_000.0

    def __post_init__(self) -> None:
        super().__init__(MemoryTables(MemoryCatalog("file:///nowhere")), lambda: self.now_ms)

    @property
    def now_ms(self) -> int:
        return int(self.now * 1000)

    def commit(self, uuid: str) -> TableCommitted:
        history = self.heads.setdefault(uuid, [])
        parent = history[-1] if history else None
        history.append(len(history) + 1)
        return TableCommitted(
            f"{uuid}-{history[-1]}",
            TableName(uuid, ("db",), uuid),
            TableChange.COMMITTED,
            (snapshot(history[-1]),),
            (RefMoved(MAIN, "branch", history[-1], parent),),
            (),
            False,
            self.now_ms,
            "gateway",
        )

    def change_property(self, uuid: str, value: str) -> TableCommitted:
        self.properties[uuid] = value
        table = TableName(uuid, ("db",), uuid)
        cause = f"{uuid}-property-{value}"
        return TableCommitted(
            cause, table, TableChange.COMMITTED, (), (), (), True, self.now_ms, "gateway"
        )

    def handle(self, delivery: Delivery) -> list[FilesChanged]:
        record, table = delivery.record, delivery.record.table
        if error := self.failing.get(table.uuid):
            self.tries.append(table.uuid)
            self.now += self.takes_s
            raise error
        told = {"firnline.x": self.properties.get(table.uuid, "")}
        subject = ChangeContext(table, MAIN, f"c-{self.now_ms}", self.now_ms, 2, told)
        history = self.heads.get(table.uuid)
        if history is None:
            return [table_removal(subject)]
        if isinstance(record, TableCommitted):
            found = [c for one in record.snapshots for c in delta_changes(subject, one, ())]
            return found or [facts_delta(subject)]
        known = record.known_snapshot_id
        if known is None or known >= history[-1] or history[-1] - known > 500:
            return absolute_changes(subject, snapshot(history[-1]), (), len(history), 1)
        missed = [one for one in history if one > known]
        return [change for one in missed for change in delta_changes(subject, snapshot(one), ())]


def snapshot(number: int) -> SnapshotAdded:
    return SnapshotAdded(number, number - 1 or None, number, number, "append", "file:/m", {})


class Fleet:
    """A lake, a broker, an enricher that may be started anew, and a planner."""

    def __init__(self) -> None:
        self.lake, self.broker = Lake(), MemoryBroker(BUCKETS)
        self.publisher = MemoryPublisher(self.broker)
        self.tables: dict[str, TableCounters] = {}
        self.read = [0] * BUCKETS
        self.waited: list[float] = []
        self.began: dict[tuple[str, int], float] = {}
        self.resyncs = 0
        self.restart()

    def restart(self, pool: HangingPool | None = None) -> None:
        self.inbox = MemoryInbox(self.broker, "enricher", ["table-commits", "resync-requests"])
        clocks = (lambda: self.lake.now, lambda: self.lake.now_ms)
        self.pump = EnricherPump(
            self.inbox, self.publisher, self.lake, Log("test"), *clocks, pool=pool
        )

    def write(self, event: TableCommitted) -> None:
        for moved in event.refs:
            assert moved.snapshot_id is not None
            self.began[event.table.uuid, moved.snapshot_id] = self.lake.now
        self.publisher.publish("table-commits", event.table.key, event)

    def pass_time(self, seconds: float = STEP_S) -> None:
        for _ in range(int(seconds / STEP_S)):
            self.lake.now += STEP_S
            self.pump.step(0)
            self.plan()

    def plan(self) -> None:
        for bucket in range(BUCKETS):
            log = self.broker.logs["file-changes", bucket]
            for _, value in log[self.read[bucket] :]:
                self._fold(CODEC.decode(value))
            self.read[bucket] = len(log)
        for key, table in self.tables.items():
            self.tables[key], question = resync_request(table, self.lake.now_ms)
            if question:
                self.resyncs += 1
                self.publisher.publish("resync-requests", key, question)

    def _fold(self, change: FilesChanged) -> None:
        table = self.tables.get(change.table.key, TableCounters(change.table, MAIN))
        after = fold_change(table, {}, change, self.lake.now_ms).table
        while (held := next_held(after)) is not None:
            after = fold_change(after, {}, held, self.lake.now_ms).table
        self.tables[change.table.key] = after
        if change.table.uuid not in self.lake.failing:
            at = change.table.uuid, change.snapshot_id or 0
            if at in self.began:
                self.waited.append(self.lake.now - self.began.pop(at))

    def lag(self) -> int:
        """Records that are not dealt with."""
        group = self.broker.committed
        return sum(
            len(log) - group.get(("enricher", topic, partition), 0)
            for (topic, partition), log in self.broker.logs.items()
            if topic in ("table-commits", "resync-requests")
        )

    def demand_right(self) -> None:
        """What the planner has is what was committed."""
        for uuid, history in self.lake.heads.items():
            [table] = [one for one in self.tables.values() if one.table.uuid == uuid]
            assert (table.head_snapshot_id, table.waiting) == (history[-1], None), uuid
            assert table.settings.get("firnline.x", "") == self.lake.properties.get(uuid, "")


class HangingPool:
    """Ends what is in work only when it is told to."""

    size = 2

    def __init__(self) -> None:
        self.works: list[tuple[partial[object], Future[object]]] = []

    def submit(self, work: Callable[[], object]) -> Future[object]:
        assert isinstance(work, partial)
        self.works.append((work, Future()))
        return self.works[-1][1]

    def tables(self) -> list[str]:
        return [work.args[0][0].record.table.uuid for work, _ in self.works]

    def end(self, but: Collection[str] = ()) -> None:
        ended = [
            one for one, uuid in zip(self.works, self.tables(), strict=True) if uuid not in but
        ]
        self.works = [one for one in self.works if one not in ended]
        for work, future in ended:
            future.set_result(work())
