"""One suite for the gateway's durable outbox and its twin in memory."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from firnline_domain.base.values import replace
from firnline_gateway.outbox.outbox import MemoryOutbox, Outbox, Outgoing
from firnline_gateway.outbox.sqlite import SqliteOutbox
from firnline_gateway.rest.call import Call

CALL = Call(
    "c1",
    "POST",
    "/v1/namespaces/a%1Fb/tables/t",
    b'{"x": "\xc3\xa9"}',
    5,
    "%2E",
    "Py/1",
    "key",
    "u",
)
OTHER = Call("c2", "DELETE", "/v1/namespaces/a/tables/t", b"", 3)


def records(*payloads: bytes) -> list[Outgoing]:
    return [Outgoing("u", payload) for payload in payloads]


@pytest.fixture(params=["memory", "sqlite"])
def outbox(request: pytest.FixtureRequest, tmp_path: Path) -> Outbox:
    return MemoryOutbox() if request.param == "memory" else SqliteOutbox(tmp_path / "o.db")


def test_an_accepted_call_becomes_its_events(outbox: Outbox) -> None:
    with outbox.transaction():
        outbox.open_call(CALL)
        assert outbox.holds("c1")
        outbox.settle_call("c1", records(b"one", b"two"), 10)
    with outbox.transaction():
        assert not outbox.holds("c1")
        waiting = outbox.read_waiting(10)
        assert [(event.record.payload, event.accepted_ms) for event in waiting] == [
            (b"one", 10),
            (b"two", 10),
        ]


def test_events_wait_in_the_order_of_acceptance(outbox: Outbox) -> None:
    with outbox.transaction():
        outbox.open_call(CALL)
        outbox.open_call(OTHER)
        outbox.settle_call("c2", records(b"first"), 10)
        outbox.settle_call("c1", records(b"second"), 11)
    with outbox.transaction():
        assert [event.record.payload for event in outbox.read_waiting(10)] == [b"first", b"second"]
        assert [event.record.payload for event in outbox.read_waiting(1)] == [b"first"]
        assert outbox.depth() == (2, 10)


def test_what_was_sent_is_gone_and_positions_only_grow(outbox: Outbox) -> None:
    with outbox.transaction():
        outbox.settle_call("c1", records(b"one", b"two"), 10)
        one, two = outbox.read_waiting(10)
        outbox.remove_sent([one.position])
    with outbox.transaction():
        assert outbox.read_waiting(10) == [two]
        outbox.remove_sent([two.position])
        assert outbox.depth() == (0, None)
        outbox.settle_call("c2", records(b"three"), 12)
        assert outbox.read_waiting(10)[0].position > two.position


def test_a_refused_call_leaves_nothing(outbox: Outbox) -> None:
    with outbox.transaction():
        outbox.open_call(CALL)
        outbox.settle_call("c1", [], 10)
    with outbox.transaction():
        assert (outbox.holds("c1"), outbox.doubtful_calls(), outbox.read_waiting(1)) == (
            False,
            [],
            [],
        )


def test_a_doubtful_call_comes_back_whole_oldest_first(outbox: Outbox) -> None:
    with outbox.transaction():
        outbox.open_call(CALL)
        outbox.open_call(replace(CALL, call_id="c3"))
        outbox.doubt_call(CALL)
        outbox.doubt_call(OTHER)  # even if it could not be opened
    with outbox.transaction():
        assert outbox.doubtful_calls() == [OTHER, CALL]
        assert outbox.holds("c2")
        outbox.settle_call("c2", records(b"it happened"), 20)
        assert outbox.doubtful_calls() == [CALL]


def test_a_call_that_was_open_when_the_process_died_is_doubtful(tmp_path: Path) -> None:
    """Only the durable form outlives its process."""
    dead = SqliteOutbox(tmp_path / "o.db")
    with dead.transaction():
        dead.open_call(CALL)
        dead.settle_call("c9", records(b"accepted"), 10)
        assert dead.doubtful_calls() == []
    dead.close()
    risen = SqliteOutbox(tmp_path / "o.db")
    with risen.transaction():
        assert risen.doubtful_calls() == [CALL]
        assert [event.record.payload for event in risen.read_waiting(10)] == [b"accepted"]


def test_half_a_transaction_is_none(tmp_path: Path) -> None:
    outbox = SqliteOutbox(tmp_path / "o.db")
    with pytest.raises(sqlite3.IntegrityError), outbox.transaction():
        outbox.settle_call("c1", records(b"one", None), 10)  # type: ignore[arg-type]
    with outbox.transaction():
        assert outbox.read_waiting(10) == []


def test_every_transaction_is_synced_and_nobody_else_may_read_the_file(tmp_path: Path) -> None:
    outbox = SqliteOutbox(tmp_path / "o.db")
    with outbox.transaction():
        outbox.open_call(CALL)
    synchronous = outbox._db.execute("PRAGMA synchronous").fetchone()
    journal = outbox._db.execute("PRAGMA journal_mode").fetchone()
    assert (synchronous, journal) == ((2,), ("wal",))  # 2 = FULL
    assert (tmp_path / "o.db").stat().st_mode & 0o077 == 0
