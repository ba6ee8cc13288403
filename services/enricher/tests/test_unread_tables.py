"""Tables that cannot be read, for hours and days: who waits, what is kept, what is lost.

The pump is the real one, its clock is not. The planner is the fold of the domain with its own
questions; what it ends up with is compared with what was committed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count

import pytest
from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import RecordCodec
from firnline_domain.counters.fold.folding import fold_change
from firnline_domain.counters.fold.missing_snapshots import next_held, resync_request
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.errors import CatalogRefused, CatalogUnreachable, RetryLater, StorageRefused
from firnline_domain.identity import MAIN, TableName, bucket_of
from firnline_domain.ports import Delivery
from firnline_domain.records.events import (
    FilesChanged,
    RefMoved,
    SnapshotAdded,
    TableChange,
    TableCommitted,
)
from firnline_domain.records.orders import ResyncTable
from firnline_enricher.file_changes import (
    ChangeContext,
    absolute_changes,
    delta_changes,
    facts_delta,
    table_removal,
)
from firnline_enricher.handlers import EnricherHandlers
from firnline_enricher.pump import MAX_AT_ONCE, MAX_HELD, MAX_OF_PARTITION, PATIENCE_S, EnricherPump

from tests.kit.memory_catalog import MemoryCatalog, MemoryTables

HOURS = float(os.environ.get("FIRNLINE_TEST_HOURS", "0.3"))
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

    def restart(self) -> None:
        inbox = MemoryInbox(self.broker, "enricher", ["table-commits", "resync-requests"])
        clocks = (lambda: self.lake.now, lambda: self.lake.now_ms)
        self.pump = EnricherPump(inbox, self.publisher, self.lake, Log("test"), *clocks)

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


@pytest.mark.parametrize("error", [REFUSED, AWAY], ids=["refused", "away"])
@pytest.mark.parametrize("rate", [1, 5])
def test_a_table_that_nobody_can_read_for_hours_holds_nobody(rate: int, error: Exception) -> None:
    fleet, name = Fleet(), names_in(0)
    bad, *healthy = [name() for _ in range(4)]
    for uuid in (bad, *healthy):
        fleet.write(fleet.lake.commit(uuid))
    fleet.pass_time(5)
    fleet.lake.failing[bad] = error
    most = 0
    for second in range(int(HOURS * 3600)):
        for _ in range(rate):
            fleet.write(fleet.lake.commit(bad))
        fleet.write(fleet.lake.commit(healthy[second % 3]))
        if second % 400 == 399:
            fleet.restart()
        fleet.pass_time()
        most = max(most, fleet.lag())
    assert max(fleet.waited) <= 5
    assert most <= 2 * MAX_HELD
    assert len(fleet.lake.tries) <= HOURS * 3600 / 30 + 20 * (HOURS * 9 + 1)
    fleet.lake.failing.clear()
    fleet.lake.now += 1
    before = fleet.resyncs
    fleet.pass_time(90)
    fleet.demand_right()
    assert fleet.resyncs - before <= 3
    assert fleet.lag() == 0


def test_a_restart_at_any_moment_loses_nothing() -> None:
    """Commits, and a property, while the table cannot be read; the enricher is killed after."""
    for moment in range(0, 100, 14):
        fleet, name = Fleet(), names_in(1)
        uuid = name()
        fleet.write(fleet.lake.commit(uuid))
        fleet.pass_time(3)
        fleet.lake.failing[uuid] = REFUSED
        fleet.write(fleet.lake.commit(uuid))
        fleet.write(fleet.lake.change_property(uuid, str(moment)))
        fleet.pass_time(moment)
        fleet.restart()
        fleet.pass_time(PATIENCE_S + 40)
        fleet.restart()
        fleet.lake.failing.clear()
        fleet.pass_time(400)
        fleet.demand_right()


def test_a_property_alone_is_not_lost() -> None:
    fleet, name = Fleet(), names_in(1)
    uuid = name()
    fleet.write(fleet.lake.commit(uuid))
    fleet.pass_time(3)
    fleet.lake.failing[uuid] = REFUSED
    fleet.write(fleet.lake.change_property(uuid, "new"))
    fleet.pass_time(2 * PATIENCE_S)
    assert fleet.lag() == 0
    fleet.lake.failing.clear()
    fleet.pass_time(400)
    fleet.demand_right()


def test_a_table_that_is_seen_first_while_it_cannot_be_read() -> None:
    fleet, name = Fleet(), names_in(1)
    uuid = name()
    fleet.lake.failing[uuid] = REFUSED
    fleet.lake.heads[uuid] = [1]
    fleet.write(fleet.lake.change_property(uuid, "new"))
    fleet.pass_time(2 * PATIENCE_S)
    fleet.lake.failing.clear()
    fleet.pass_time(400)
    fleet.demand_right()


def test_thousands_of_tables_that_cannot_be_read_hold_nobody() -> None:
    fleet, name = Fleet(), names_in(2)
    healthy = name()
    bad = [name() for _ in range(300)]
    fleet.lake.failing = dict.fromkeys(bad, REFUSED)
    for _ in range(20):
        for uuid in bad:
            fleet.write(fleet.lake.commit(uuid))
        fleet.write(fleet.lake.commit(healthy))
        fleet.pass_time(1)
    fleet.pass_time(5)
    assert len(fleet.waited) == 20
    assert max(fleet.waited) <= 5


def test_a_catalog_that_is_away_is_tried_now_and_then_and_not_for_each_table() -> None:
    fleet, name = Fleet(), names_in(2)
    tables = [name() for _ in range(40)]
    fleet.lake.failing = dict.fromkeys(tables, AWAY)
    for uuid in tables:
        fleet.write(fleet.lake.commit(uuid))
    fleet.pass_time(30)
    assert len(fleet.lake.tries) <= 3 + 30
    fleet.lake.failing.clear()
    fleet.pass_time(20)
    fleet.demand_right()


@pytest.mark.parametrize("error", [AWAY, CatalogRefused("no right", "t"), RetryLater("slow")])
def test_one_table_does_not_make_its_catalog_look_away(error: Exception) -> None:
    fleet, name = Fleet(), names_in(2)
    bad, healthy = name(), name()
    fleet.lake.failing = {bad: error}
    for _ in range(60):
        for _ in range(3):
            fleet.write(fleet.lake.commit(bad))
        fleet.write(fleet.lake.commit(healthy))
        fleet.pass_time(1)
    assert max(fleet.waited) <= 1


def test_a_table_that_hangs_is_tried_less_and_less() -> None:
    """Each try takes as long as a catalog's client waits; others of the process wait meanwhile."""
    fleet, name = Fleet(), names_in(3)
    bad, healthy = name(), name()
    fleet.lake.failing, fleet.lake.takes_s = {bad: REFUSED}, 30.0
    began = fleet.lake.now
    while fleet.lake.now < began + 1800:
        fleet.write(fleet.lake.commit(bad))
        fleet.write(fleet.lake.commit(healthy))
        fleet.pass_time(1)
    assert len(fleet.lake.tries) <= 20


def test_more_than_there_is_room_for_is_read_later_and_ends_no_process() -> None:
    """A backlog, as after an hour without enrichers."""
    fleet, name = Fleet(), names_in(0)
    uuid = name()
    for _ in range(2 * MAX_OF_PARTITION):
        fleet.write(fleet.lake.commit(uuid))
    fleet.pass_time(2 * MAX_OF_PARTITION / MAX_AT_ONCE * 10)
    fleet.demand_right()


def test_questions_of_a_table_that_cannot_be_read_are_settled_and_the_last_is_kept() -> None:
    fleet, name = Fleet(), names_in(0)
    uuid = name()
    fleet.lake.heads[uuid] = [1, 2, 3]
    fleet.lake.failing[uuid] = REFUSED
    table = TableName(uuid, ("db",), uuid)
    for number in range(500):
        question = ResyncTable(table, MAIN, None, None, "first_seen", number)
        fleet.publisher.publish("resync-requests", table.key, question)
        fleet.pass_time(1)
    assert fleet.lag() == 0
    assert len(fleet.lake.tries) <= 10
    fleet.lake.failing.clear()
    fleet.pass_time(300)
    fleet.demand_right()


class HangingPool:
    """Ends what is in work only when it is told to."""

    size = 2

    def __init__(self) -> None:
        self.works: list[tuple[Callable[[], object], Future[object]]] = []

    def submit(self, work: Callable[[], object]) -> Future[object]:
        self.works.append((work, Future()))
        return self.works[-1][1]

    def end(self) -> None:
        works, self.works = self.works, []
        for work, future in works:
            try:
                future.set_result(work())
            except RetryLater as error:
                future.set_exception(error)


def test_tables_whose_storage_hangs_leave_an_answerer_to_the_others() -> None:
    fleet, pool, name = Fleet(), HangingPool(), names_in(1)
    bad, healthy = [name() for _ in range(5)], name()
    inbox = MemoryInbox(fleet.broker, "enricher", ["table-commits", "resync-requests"])
    clocks = (lambda: fleet.lake.now, lambda: fleet.lake.now_ms)
    two = [fleet.lake, fleet.lake]
    pump = EnricherPump(
        inbox, fleet.publisher, fleet.lake, Log("test"), *clocks, pool=pool, answerers=two
    )

    def ask(uuid: str) -> None:
        fleet.lake.heads[uuid] = [1]
        table = TableName(uuid, ("db",), uuid)
        question = ResyncTable(table, MAIN, None, None, "first_seen", 1)
        fleet.publisher.publish("resync-requests", table.key, question)

    fleet.lake.failing = dict.fromkeys(bad, REFUSED)
    for uuid in bad:
        ask(uuid)
    for _ in range(6):
        pump.step(0)
        pool.end()
    fleet.lake.now += 3600  # all of them are to be tried again, and every try hangs
    pump.step(0)
    ask(healthy)
    pump.step(0)
    tables = [work.args[0].record.table.uuid for work, _ in pool.works]  # type: ignore[attr-defined]
    assert healthy in tables
    assert tables[0] in bad
