"""Bodies that are long, encoded or many: what is kept of them, and what is read from the table."""

from __future__ import annotations

import asyncio
import gzip
import json
import sqlite3
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from firnline_gateway.capture import recorder
from firnline_gateway.middlewares import config_rewriter
from firnline_gateway.middlewares.commit_capture import CommitCapture
from firnline_gateway.proxy.bodies import Body
from firnline_gateway.proxy.body_memory import SMALL_BYTES

from services.gateway.tests.conftest import (
    LIMIT,
    SNAPSHOT,
    TABLE,
    UUID,
    Bench,
    Client,
    append,
    forgotten,
    head,
    in_time,
    post,
    raw,
    said,
)

# Too much


def padded(size: int) -> bytes:
    return append() + b" " * (size - len(append()))


async def pieces_of(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 50_000):
        yield body[start : start + 50_000]


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_above_the_limit_goes_through_and_its_table_is_read(
    narrow: Bench, client: Client, chunked: bool
) -> None:
    body = padded(4 * LIMIT)
    narrow.catalog.script[f"POST {TABLE}"] = said(b"{}")
    narrow.catalog.script[f"GET {TABLE}"] = head()
    assert (await post(client, narrow, pieces_of(body) if chunked else body))[0] == 200
    sent = next(one for one in narrow.catalog.seen if one.startswith(b"POST"))
    assert sent.count(b" ") >= 4 * LIMIT - 2 * len(append())
    [event] = await narrow.until(1)
    assert (event.source, event.snapshots[0].snapshot_id) == ("reconciled", SNAPSHOT)


async def test_a_long_body_below_the_limit_is_read_whole(narrow: Bench, client: Client) -> None:
    narrow.catalog.script[f"POST {TABLE}"] = said(b"{}")
    await post(client, narrow, padded(LIMIT))
    [event] = await narrow.until(1)
    assert (event.source, event.snapshots[0].snapshot_id) == ("gateway", SNAPSHOT)
    await in_time(lambda: narrow.budget.taken == 0)


BOMB = gzip.compress(b" " * (64 << 20))


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", BOMB),
        ("gzip, gzip", gzip.compress(BOMB)),
        ("deflate", zlib.compress(b" " * (64 << 20))),
        ("gzip, gzip, gzip", gzip.compress(gzip.compress(gzip.compress(b"{}")))),
        ("gzip", gzip.compress(b"") * 10_000 + gzip.compress(b"{}")),
        ("gzip", gzip.compress(append())[:-9]),
        ("br", b"?"),
        ("gz\xff".encode("latin-1").decode("latin-1"), b"?"),
    ],
    ids=["bomb", "twice", "deflate", "three-times", "members", "cut-off", "brotli", "unknown"],
)
async def test_a_bomb_is_not_unpacked_and_its_table_is_read(
    narrow: Bench, monkeypatch: pytest.MonkeyPatch, encoding: str, body: bytes
) -> None:
    sizes: list[int] = []
    original = Body.decoded_bytes

    def plain(self: Body, max_bytes: int) -> bytes | None:
        found = original(self, max_bytes)
        sizes.append(len(found or b""))
        return found

    monkeypatch.setattr(Body, "decoded_bytes", plain)
    narrow.catalog.script[f"POST {TABLE}"] = said(b"{}")
    narrow.catalog.script[f"GET {TABLE}"] = head()
    await narrow.raw(raw(TABLE.encode(), body, b"Content-Encoding: " + encoding.encode()))
    [event] = await narrow.until(1)
    assert (event.source, event.snapshots[0].snapshot_id) == ("reconciled", SNAPSHOT)
    assert max(sizes) <= LIMIT


async def test_what_is_encoded_twice_is_read(narrow: Bench, client: Client) -> None:
    narrow.catalog.script[f"POST {TABLE}"] = said(b"{}")
    body = zlib.compress(gzip.compress(append()))
    await post(client, narrow, body, **{"Content-Encoding": "gzip, deflate"})
    [event] = await narrow.until(1)
    assert (event.source, event.snapshots[0].snapshot_id) == ("gateway", SNAPSHOT)


@pytest.mark.parametrize("size", [1_000, SMALL_BYTES + 1, 2 * LIMIT])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_a_refused_call_is_neither_unpacked_nor_parsed_nor_left_behind(
    narrow: Bench, client: Client, monkeypatch: pytest.MonkeyPatch, size: int, encoding: str
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("of a call that was refused")

    monkeypatch.setattr(Body, "decoded_bytes", never)
    monkeypatch.setattr("firnline_gateway.middlewares.commit_capture.changes_of", never)
    narrow.catalog.script[f"POST {TABLE}"] = said(b"", "401 No")
    body = padded(size) if encoding == "identity" else gzip.compress(padded(size))
    for _ in range(3):
        assert (await post(client, narrow, body, **{"Content-Encoding": encoding}))[0] == 401
    assert forgotten(narrow)
    assert narrow.budget.taken == 0
    assert narrow.broker.records("table-commits") == []


@pytest.mark.parametrize(
    ("size", "encoding"), [(SMALL_BYTES + 1, "identity"), (2 * LIMIT, "identity"), (900, "gzip")]
)
async def test_of_a_long_or_encoded_call_no_body_is_written_while_it_is_upstream(
    narrow: Bench, client: Client, size: int, encoding: str
) -> None:
    narrow.catalog.hold = asyncio.Event()
    narrow.catalog.script[f"POST {TABLE}"] = said(b"", "401 No")
    body = padded(size) if encoding == "identity" else gzip.compress(padded(size))
    call = asyncio.create_task(post(client, narrow, body, **{"Content-Encoding": encoding}))
    await narrow.catalog.reached.wait()
    narrow.journal.depth().result(20)
    with sqlite3.connect(Path(narrow.settings.state_dir) / "outbox.db") as file:
        assert file.execute("SELECT path, body FROM calls").fetchall() == [(TABLE, None)]
    narrow.catalog.hold.set()
    assert (await call)[0] == 401


async def test_many_clients_at_once_take_no_more_than_there_is_room_for(
    narrow: Bench, client: Client
) -> None:
    """Each below the limit; a small commit among them is read as ever."""
    narrow.catalog.hold = asyncio.Event()
    narrow.catalog.script[f"POST {TABLE}"] = said(b"{}")
    narrow.catalog.script[f"GET {TABLE}"] = head()
    calls = []
    for count in range(1, 13):
        calls.append(asyncio.create_task(post(client, narrow, padded(LIMIT))))
        await in_time(lambda: narrow.catalog.lines().count(f"POST {TABLE}") == count)  # noqa: B023
    assert 2 * LIMIT <= narrow.budget.taken <= 4 * LIMIT
    small = asyncio.create_task(post(client, narrow, append(snapshot=5)))
    await in_time(lambda: narrow.catalog.lines().count(f"POST {TABLE}") == 13)
    narrow.catalog.hold.set()
    assert {status for status, _ in await asyncio.gather(*calls, small)} == {200}
    events = await narrow.until(13)
    by_source = [event.source for event in events if event.snapshots[0].snapshot_id == SNAPSHOT]
    assert by_source.count("gateway") >= 2
    assert "reconciled" in by_source
    assert [e.source for e in events if e.snapshots[0].snapshot_id == 5] == ["gateway"]
    await in_time(lambda: narrow.budget.taken == 0)


async def test_of_an_endless_answer_no_more_is_kept_than_the_limit(
    narrow: Bench, client: Client
) -> None:
    """A create's answer names the table; one that is too long to keep lets the catalog be asked."""
    answer = json.dumps({"padding": " " * 4 * LIMIT, "metadata": {"table-uuid": "x"}}).encode()
    narrow.catalog.script["POST /v1/namespaces/n/tables"] = said(answer)
    narrow.catalog.script[f"GET {TABLE}"] = head()
    body = json.dumps({"name": "t", "schema": {}}).encode()
    async with client.post(f"{narrow.uri}/v1/namespaces/n/tables", data=body) as found:
        assert await found.read() == answer
    [event] = await narrow.until(1)
    assert event.table.uuid == UUID


async def test_a_config_too_long_to_change_is_refused(
    narrow: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_rewriter, "CONFIG_BYTES", 1_000)
    narrow.catalog.script["GET /v1/config"] = said(b"{" + b" " * 1_000 + b"}")
    async with client.get(f"{narrow.uri}/v1/config") as answer:
        assert answer.status == 502


async def test_a_long_commit_that_breaks_off_is_sent_as_broken_and_its_table_is_looked_at(
    narrow: Bench, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    narrow.catalog.script[f"POST {TABLE}"] = said(b"{}")
    narrow.catalog.script[f"GET {TABLE}"] = head(committed_ms=1)
    _, writer = await asyncio.open_connection(*narrow.address)
    head_of = f"POST {TABLE} HTTP/1.1\r\nHost: x\r\nContent-Length: {8 * LIMIT}\r\n\r\n"
    writer.write(head_of.encode() + padded(2 * LIMIT))
    await writer.drain()
    writer.transport.abort()
    await in_time(lambda: f"GET {TABLE}?snapshots=refs" in narrow.catalog.lines())
    assert f"POST {TABLE}" not in narrow.catalog.lines()  # the catalog never saw its end
    assert narrow.events() == []  # and the table was not touched
    assert "Traceback" not in caplog.text


async def test_a_catalog_that_is_made_to_fail_again_and_again_does_not_fill_the_disk(
    narrow: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bad bytes are a 500 in more than one catalog, before it asks who sends them."""
    monkeypatch.setattr(recorder, "MAX_DOUBTS", 5)
    narrow.catalog.script[f"POST {TABLE}"] = said(b"", "500 Oops")
    narrow.catalog.script[f"GET {TABLE}"] = head(snapshot=3, committed_ms=1)
    found = narrow.middleware(CommitCapture)._recorder
    for _ in range(8):
        await post(client, narrow, append())
    await in_time(lambda: found.is_crowded)
    for _ in range(30):
        await post(client, narrow, append())
    narrow.journal.depth().result(20)
    with sqlite3.connect(Path(narrow.settings.state_dir) / "outbox.db") as file:
        rows = file.execute("SELECT body IS NULL FROM calls").fetchall()
    assert len(rows) == 9
    assert rows.count((1,)) == 1
    narrow.catalog.script[f"GET {TABLE}"] = head(snapshot=8)  # one of them did happen, after all
    await in_time(lambda: bool(narrow.events()))
    assert narrow.events()[0].refs[0].snapshot_id == 8
