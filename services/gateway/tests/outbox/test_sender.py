from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import encode_record
from firnline_domain.base.values import replace
from firnline_domain.errors import RetryLater
from firnline_domain.identity import TableName, bucket_of
from firnline_domain.records.events import DeadLettered, TableChange, TableCommitted, TickPassed
from firnline_gateway.outbox.journal import OutboxJournal
from firnline_gateway.outbox.outbox import Outgoing, encode_event
from firnline_gateway.outbox.sender import OutboxSender
from firnline_gateway.outbox.sqlite import SqliteOutbox
from firnline_gateway.rest.call import Call

WAIT_S = 20.0
CALL = Call("a", "POST", "/v1/namespaces/n/tables/t", b"{}", 0)


class Moody(MemoryPublisher):
    """A broker that does not confirm while it is away."""

    away = False
    refused = threading.Event()

    def flush(self, timeout_s: float = 30.0) -> bool:
        if self.away:
            self.refused.set()
            raise RetryLater("away")
        return True


def event(number: int) -> TableCommitted:
    return TableCommitted(
        str(number), TableName(f"uuid-{number % 3}", ("n",), "t"),
        TableChange.COMMITTED, (), (), (), True, number, "gateway",
    )  # fmt: skip


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
def publisher(broker: MemoryBroker) -> Moody:
    return Moody(broker)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[OutboxJournal]:
    journal = OutboxJournal(SqliteOutbox(tmp_path / "outbox.db"), Log("gateway"), lambda: 1)
    yield journal
    journal.stop(WAIT_S)


@pytest.fixture
def sender(journal: OutboxJournal, publisher: Moody) -> OutboxSender:
    return OutboxSender(journal, publisher, Log("gateway"), lambda: 1)


def accept(journal: OutboxJournal, *numbers: int) -> None:
    journal.settle_call(CALL, [encode_event(event(n), 1) for n in numbers]).result(WAIT_S)


def test_events_go_out_in_order_keyed_by_their_table(
    sender: OutboxSender, journal: OutboxJournal, broker: MemoryBroker
) -> None:
    accept(journal, *range(1200))
    assert sender.drain() == 1200
    for (topic, partition), log in broker.logs.items():
        assert topic == "table-commits"
        assert {bucket_of(key, 8) for key, _ in log} <= {partition}
    for table in range(3):
        ids = [int(e.event_id) for e in broker.records("table-commits") if e.event_id and
               e.table.uuid == f"uuid-{table}"]  # fmt: skip
        assert ids == list(range(table, 1200, 3))
    assert journal.depth().result(WAIT_S) == (0, None)


def test_an_event_is_kept_until_the_broker_has_it(
    sender: OutboxSender, journal: OutboxJournal, publisher: Moody, broker: MemoryBroker
) -> None:
    accept(journal, 1, 2)
    publisher.away = True
    with pytest.raises(RetryLater):
        sender.drain()
    assert journal.depth().result(WAIT_S)[0] == 2
    publisher.away = False
    assert sender.drain() == 2
    sent = [e.event_id for e in broker.records("table-commits")]
    assert sorted(sent) == ["1", "1", "2", "2"]  # again is allowed, never is not


def test_the_thread_goes_on_after_an_outage(
    sender: OutboxSender, journal: OutboxJournal, publisher: Moody, broker: MemoryBroker
) -> None:
    publisher.refused.clear()
    publisher.away = True
    sender.start()
    accept(journal, 1)
    assert publisher.refused.wait(WAIT_S)
    publisher.away = False
    assert sender.stop(WAIT_S)
    assert {e.event_id for e in broker.records("table-commits")} == {"1"}


def test_the_end_waits_for_the_broker_no_longer_than_told(
    sender: OutboxSender, journal: OutboxJournal, publisher: Moody
) -> None:
    publisher.away = True
    sender.start()
    accept(journal, 1)
    assert sender.stop(0.2) is False
    assert journal.depth().result(WAIT_S)[0] == 1
    publisher.away = False  # lets the thread end
    assert sender.stop(WAIT_S)


def letters(broker: MemoryBroker) -> list[DeadLettered]:
    return broker.records("dead-letters")


def read(broker: MemoryBroker) -> set[str]:
    """What the enricher reads; what it cannot use goes to the dead letters."""
    inbox = MemoryInbox(broker, "enricher", ["table-commits"])
    return {delivery.record.event_id for delivery in inbox.poll(0)}


def test_the_broker_gets_the_bytes_that_were_stored(
    sender: OutboxSender, journal: OutboxJournal, broker: MemoryBroker
) -> None:
    stored = Outgoing("uuid-1", encode_record(event(1)) + b"and bytes that no encoder makes")
    journal.settle_call(CALL, [stored]).result(WAIT_S)
    assert sender.drain() == 1
    assert broker.logs["table-commits", bucket_of("uuid-1", 8)] == [("uuid-1", stored.payload)]


@pytest.mark.parametrize(
    "row",
    [b"no record", b"", "text", b"\xff\xfe", 7, encode_record(TickPassed(1, 2))],
    ids=repr,
)
def test_a_row_that_cannot_be_used_goes_aside_and_blocks_no_other(
    row: Any, sender: OutboxSender, journal: OutboxJournal, broker: MemoryBroker, tmp_path: Path
) -> None:
    accept(journal, 1)
    with sqlite3.connect(tmp_path / "outbox.db") as file:
        value = "CAST(? AS TEXT)" if row == b"\xff\xfe" else "?"
        columns = "topic, key, payload, accepted_ms, trace"
        file.execute(
            f"INSERT INTO records ({columns}) "
            f"VALUES ('table-commits', {value}, {value}, 1, {value})",
            (row, row, row),
        )
    accept(journal, 2)
    assert sender.drain() == 3
    assert read(broker) == {"1", "2"}
    assert [one.topic for one in letters(broker)] == ["table-commits"]
    assert journal.depth().result(WAIT_S) == (0, None)


def test_a_commit_that_no_topic_takes_goes_aside_and_blocks_no_other(
    sender: OutboxSender, journal: OutboxJournal, broker: MemoryBroker
) -> None:
    huge = replace(event(3), table=TableName("uuid-3", ("n",), "t" * 20_000_000))
    records = [encode_event(one, 1) for one in (event(1), huge, event(2))]
    journal.settle_call(CALL, records).result(WAIT_S)
    assert sender.drain() == 3
    assert read(broker) == {"1", "2"}
    [letter] = letters(broker)
    assert (letter.reason, letter.key, letter.value_bytes) == (
        "too_large", b"uuid-3", len(encode_record(huge)),
    )  # fmt: skip
    assert sender.drain() == 0
