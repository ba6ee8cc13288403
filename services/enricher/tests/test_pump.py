"""Offsets, order and patience."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from firnline_adapters.consumer.retry_queue import FIRST_PAUSE_S, MAX_PAUSE_S
from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_adapters.kafka.poison_records import MAX_DEATHS, MemoryMarks, StartMarks
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import CatalogRefused, RetryLater, StorageUnreachable
from firnline_domain.identity import TableName, bucket_of
from firnline_domain.ports import Delivery
from firnline_domain.records.events import FilesChanged, RefMoved, TableChange, TableCommitted
from firnline_enricher.file_changes import ChangeContext, ref_move_change
from firnline_enricher.handlers import EnricherHandlers
from firnline_enricher.pump import MAX_AT_ONCE, PATIENCE_S, EnricherPump
from firnline_enricher.unread_tables import MAX_PROBE_S

from tests.kit.counted import counted
from tests.kit.memory_catalog import MemoryCatalog, MemoryTables

GROUP, TOPIC = "enricher", "table-commits"
A, B = "uuid-a", "uuid-c"  # of two buckets


def commit(uuid: str, snapshot_id: int) -> TableCommitted:
    table = TableName(uuid, ("db",), "t")
    refs = (RefMoved("main", "branch", snapshot_id),)
    return TableCommitted(
        f"{uuid}-{snapshot_id}",
        table,
        TableChange.COMMITTED,
        (),
        refs,
        (),
        False,
        0,
        "gateway",
    )


@dataclass
class Scripted(EnricherHandlers):
    """Handlers that fail as told: uuid -> what to raise."""

    failing: dict[str, Exception] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(MemoryTables(MemoryCatalog("file:///nowhere")), lambda: 1)

    def handle(self, delivery: Delivery) -> list[FilesChanged]:
        table = delivery.record.table
        if table.uuid in self.failing:
            raise self.failing[table.uuid]
        event = delivery.record
        return [
            ref_move_change(
                ChangeContext(table, "main", event.event_id, 1), event.refs[0].snapshot_id
            )
        ]


class Bench:
    def __init__(self) -> None:
        self.broker, self.now = MemoryBroker(8), 0.0
        self.handlers = Scripted()
        self.publisher = MemoryPublisher(self.broker)
        self.inbox = MemoryInbox(self.broker, GROUP, [TOPIC])
        self.wall_ms = 10_000_000
        clocks = (lambda: self.now, lambda: self.wall_ms)
        self.pump = EnricherPump(self.inbox, self.publisher, self.handlers, Log("test"), *clocks)

    def restart(self, marks: MemoryMarks) -> None:
        starts = StartMarks(marks, lambda: self.now)
        self.inbox = MemoryInbox(self.broker, GROUP, [TOPIC], starts=starts)
        clocks = (lambda: self.now, lambda: self.wall_ms)
        self.pump = EnricherPump(self.inbox, self.publisher, self.handlers, Log("test"), *clocks)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.pump.step(0)

    def commits(self, *events: TableCommitted) -> None:
        for event in events:
            self.publisher.publish(TOPIC, event.table.uuid, event)

    def sent(self, uuid: str) -> list[int | None]:
        changes = self.broker.records("file-changes")
        return [change.snapshot_id for change in changes if change.table.uuid == uuid]

    def offset(self, uuid: str) -> int:
        return self.broker.committed.get((GROUP, TOPIC, bucket_of(uuid, 8)), 0)


@pytest.fixture
def bench() -> Bench:
    assert bucket_of(A, 8) != bucket_of(B, 8)
    return Bench()


def test_changes_go_out_in_order_and_then_offsets_commit(bench: Bench) -> None:
    bench.commits(commit(A, 1), commit(A, 2), commit(B, 3))
    bench.pump.step(0)
    assert (bench.sent(A), bench.sent(B)) == ([1, 2], [3])
    assert (bench.offset(A), bench.offset(B)) == (2, 1)


def test_no_offset_commits_before_the_broker_has_the_changes(bench: Bench, monkeypatch) -> None:
    bench.commits(commit(A, 1))

    def refuse(timeout_s: float = 30.0) -> None:
        raise RetryLater("the broker is away")

    monkeypatch.setattr(bench.publisher, "flush", refuse)
    with pytest.raises(RetryLater):
        bench.pump.step(0)
    assert bench.offset(A) == 0


def test_a_stuck_partition_waits_alone_and_goes_on_in_order(bench: Bench) -> None:
    bench.handlers.failing[A] = StorageUnreachable("storage is away")
    bench.commits(commit(A, 1), commit(A, 2), commit(B, 3))
    before = counted("dependency_errors", dependency="storage")
    bench.pump.step(0)
    assert counted("dependency_errors", dependency="storage") == before + 1
    assert (bench.sent(A), bench.sent(B)) == ([], [3])
    assert (bench.offset(A), bench.offset(B)) == (0, 1)
    bench.handlers.failing.clear()
    bench.pump.step(0)
    assert bench.sent(A) == []  # its pause is not over
    bench.now += FIRST_PAUSE_S
    bench.pump.step(0)
    assert (bench.sent(A), bench.offset(A)) == ([1, 2], 2)


def test_a_clock_that_jumps_neither_stops_a_table_nor_ends_its_patience(bench: Bench) -> None:
    bench.handlers.failing[A] = RetryLater("storage is away")
    bench.wall_ms += 3_600_000  # while it fails
    bench.commits(commit(A, 1))
    bench.pump.step(0)
    bench.now += FIRST_PAUSE_S
    bench.wall_ms += 3_600_000
    bench.pump.step(0)
    assert bench.broker.records("dead-letters") == []
    bench.handlers.failing.clear()
    bench.wall_ms = 10_000_000
    bench.now += 2 * FIRST_PAUSE_S
    bench.pump.step(0)
    assert (bench.sent(A), bench.offset(A)) == ([1], 1)


def test_patience_ends_with_one_dead_letter_and_a_hint_to_ask_again(bench: Bench) -> None:
    bench.handlers.failing[A] = RetryLater("storage is away")
    bench.commits(commit(A, 1), commit(A, 2))
    for now in (0.0, PATIENCE_S):
        bench.now = now
        bench.pump.step(0)
        assert bench.offset(A) == 0
    bench.now += MAX_PAUSE_S
    bench.pump.step(0)
    (letter,) = bench.broker.records("dead-letters")
    assert (letter.reason, letter.service) == ("out_of_patience", "enricher")
    assert (bench.sent(A), bench.offset(A)) == ([1, 2], 2)


def test_a_refused_table_holds_no_other_of_its_partition(bench: Bench, caplog: Any) -> None:
    """It waits for a person, who is told; its records do not."""
    neighbour = next(f"n{n}" for n in range(99) if bucket_of(f"n{n}", 8) == bucket_of(A, 8))
    bench.handlers.failing[A] = CatalogRefused("catalog lake does not let us have db.a (403)", "a")
    bench.commits(commit(A, 1), commit(neighbour, 2), commit(A, 3))
    for now in (0.0, 5.0, PATIENCE_S - 1):
        bench.now = now
        bench.pump.step(0)
    assert (bench.sent(A), bench.sent(neighbour)) == ([], [2])
    assert bench.broker.records("dead-letters") == []
    bench.now = 2 * PATIENCE_S
    bench.pump.step(0)
    assert (bench.sent(A), bench.offset(A)) == ([1, 3], 3)
    bench.commits(commit(A, 4))
    bench.now = 950.0
    bench.pump.step(0)
    said = [one.message for one in caplog.records if "action=refused" in one.message]
    assert len(said) == 2  # at once, and again after a quarter of an hour
    bench.handlers.failing.clear()
    bench.commits(commit(A, 5))
    bench.now += MAX_PROBE_S
    bench.pump.step(0)
    assert bench.sent(A)[-1] == 5
    assert len(bench.broker.records("dead-letters")) == 1


def test_many_tables_take_turns(bench: Bench) -> None:
    tables = [f"t{n}" for n in range(MAX_AT_ONCE + 10)]
    bench.commits(*(commit(name, 1) for name in tables))
    bench.pump.step(0)
    assert len(bench.broker.records("file-changes")) == MAX_AT_ONCE
    bench.pump.step(0)
    assert {one.table.uuid for one in bench.broker.records("file-changes")} == set(tables)


def test_an_unreadable_table_stops_nobody(bench: Bench) -> None:
    bench.handlers.failing[A] = ValueError("not an Avro file")
    bench.commits(commit(A, 1), commit(B, 2))
    bench.pump.step(0)
    (letter,) = bench.broker.records("dead-letters")
    assert (letter.reason, letter.message) == ("unreadable", "not an Avro file")
    assert (bench.sent(A), bench.sent(B)) == ([1], [2])
    assert (bench.offset(A), bench.offset(B)) == (1, 1)


class Killed(BaseException):
    """Nothing of the process runs any more."""


def test_a_commit_that_ends_its_process_goes_aside_after_three_lives(bench: Bench) -> None:
    """And the planner is told that the table has moved; its neighbour is read on."""
    neighbour = next(f"n{n}" for n in range(99) if bucket_of(f"n{n}", 8) == bucket_of(A, 8))
    marks = MemoryMarks()
    bench.commits(commit(neighbour, 1), commit(A, 2), commit(neighbour, 3))
    bench.handlers.failing[A] = Killed()  # type: ignore[assignment]
    for _ in range(MAX_DEATHS + 1):
        bench.restart(marks)
        with pytest.raises(Killed):
            bench.steps(9)
    bench.restart(marks)
    bench.steps(9)
    [letter] = bench.broker.records("dead-letters")
    assert (letter.reason, letter.offset) == ("ended_the_process", 1)
    assert (bench.sent(A), bench.offset(A)) == ([2], 3)
    assert bench.sent(neighbour)[-1] == 3
