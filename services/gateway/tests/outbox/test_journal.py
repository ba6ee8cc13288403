"""The outbox's thread, and what it does when the disk does not."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from firnline_adapters.observability.logs import Log
from firnline_domain.base.values import replace
from firnline_gateway.outbox.journal import OutboxJournal
from firnline_gateway.outbox.outbox import Outgoing
from firnline_gateway.outbox.sqlite import SqliteOutbox
from firnline_gateway.rest.call import Call

WAIT_S = 20.0
EVENT = Outgoing("u", b"event")


class Disk(SqliteOutbox):
    """An outbox whose disk can be full; counts transactions."""

    full = False
    transactions = 0

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.transactions += 1
        if self.full:
            raise sqlite3.OperationalError("database or disk is full")
        with super().transaction():
            yield


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "outbox.db")


@pytest.fixture
def journal(disk: Disk) -> Iterator[OutboxJournal]:
    journal = OutboxJournal(disk, Log("gateway"), lambda: 1)
    yield journal
    journal.stop(WAIT_S)


def call(name: str) -> Call:
    return Call(name, "POST", "/v1/namespaces/n/tables/t", b"{}", 0)


def payloads(journal: OutboxJournal) -> list[bytes]:
    return [one.payload for one in journal.read_waiting(100).result(WAIT_S).records]


def test_a_settled_call_is_on_the_disk(journal: OutboxJournal, tmp_path: Path) -> None:
    journal.open_call(call("a"))
    journal.settle_call(call("a"), [EVENT]).result(WAIT_S)
    assert journal.changed.is_set()
    with sqlite3.connect(tmp_path / "outbox.db") as file:
        assert file.execute("SELECT payload FROM records").fetchall() == [(b"event",)]
        assert file.execute("SELECT * FROM calls").fetchall() == []


def test_an_opened_call_is_on_the_disk_when_its_future_says_so(
    journal: OutboxJournal, tmp_path: Path
) -> None:
    journal.open_call(call("a")).result(WAIT_S)
    with sqlite3.connect(tmp_path / "outbox.db") as file:
        assert file.execute("SELECT call_id, doubtful FROM calls").fetchall() == [("a", 0)]


def test_steps_that_wait_together_share_a_transaction(journal: OutboxJournal, disk: Disk) -> None:
    journal.open_call(call("first")).result(WAIT_S)
    before = disk.transactions
    futures = [journal.open_call(call(str(n))) for n in range(200)]
    for future in futures:
        future.result(WAIT_S)
    assert disk.transactions - before < 100


def test_a_full_disk_costs_neither_the_caller_nor_the_event(
    journal: OutboxJournal, disk: Disk
) -> None:
    disk.full = True
    journal.open_call(call("a")).result(WAIT_S)
    journal.settle_call(call("a"), [EVENT]).result(WAIT_S)
    assert payloads(journal) == [b"event"]
    assert journal.depth().result(WAIT_S) == (1, 1)


def test_a_doubt_survives_a_full_disk(journal: OutboxJournal, disk: Disk) -> None:
    disk.full = True
    journal.open_call(call("a"))
    journal.doubt_call(call("a")).result(WAIT_S)
    assert journal.doubtful_calls().result(WAIT_S) == [call("a")]
    disk.full = False
    assert journal.doubtful_calls().result(WAIT_S) == [call("a")]
    journal.settle_call(call("a"), [EVENT]).result(WAIT_S)
    assert journal.doubtful_calls().result(WAIT_S) == []


def test_a_disk_that_comes_back_is_used_again(
    journal: OutboxJournal, disk: Disk, tmp_path: Path
) -> None:
    disk.full = True
    journal.settle_call(call("a"), [Outgoing("u", b"in memory")]).result(WAIT_S)
    disk.full = False
    journal.settle_call(call("b"), [Outgoing("u", b"on disk")]).result(WAIT_S)
    assert payloads(journal) == [b"on disk", b"in memory"]
    journal.remove_sent(journal.read_waiting(10).result(WAIT_S)).result(WAIT_S)
    assert journal.depth().result(WAIT_S) == (0, None)


def test_what_the_disk_will_not_forget_is_not_sent_again(
    journal: OutboxJournal, disk: Disk
) -> None:
    journal.settle_call(call("a"), [EVENT]).result(WAIT_S)
    batch = journal.read_waiting(10).result(WAIT_S)
    disk.full = True
    journal.remove_sent(batch).result(WAIT_S)
    disk.full = False
    assert payloads(journal) == []
    assert journal.depth().result(WAIT_S)[0] == 0
    journal.remove_sent(journal.read_waiting(10).result(WAIT_S)).result(WAIT_S)
    assert journal.depth().result(WAIT_S) == (0, None)


def test_a_caller_that_stops_waiting_does_not_undo_the_step(journal: OutboxJournal) -> None:
    assert not journal.open_call(call("a")).cancel()
    assert journal.depth().result(WAIT_S) == (0, None)  # the thread still lives


def test_a_step_that_cannot_be_written_harms_no_other(journal: OutboxJournal, disk: Disk) -> None:
    held = threading.Event()
    journal._queue_step(lambda _: held.wait())  # so that the next ones share a transaction
    odd = replace(call("odd"), user_agent="\udcff")
    steps = [
        journal.open_call(call("a")),
        journal.open_call(odd),
        journal.settle_call(call("b"), [EVENT]),
    ]
    held.set()
    for step in steps:
        step.result(WAIT_S)
    with sqlite3.connect(disk._file) as file:
        assert file.execute("SELECT call_id FROM calls").fetchall() == [("a",)]
        assert file.execute("SELECT payload FROM records").fetchall() == [(b"event",)]
    assert journal._memory.holds("odd")
