"""How large a table's metadata is, from answers that go by, and who cannot spoil it."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from firnline_gateway.proxy.metadata_sizes import AnswerLength, MetadataSizes

from services.gateway.tests.conftest import TABLE, UUID, Bench, append, post, said

ANSWER = json.dumps(
    {"metadata": {"table-uuid": UUID, "snapshots": [{"snapshot-id": n} for n in range(20_000)]}}
).encode()
LENGTH = len(ANSWER)
CREATE = {"type": "assert-create"}


def chunked(*pieces: bytes) -> bytes:
    lines = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b""))
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + lines


def zipped(body: bytes) -> bytes:
    return said(gzip.compress(body), "200 OK", "Content-Encoding: gzip")


async def sizes_of_two_commits(
    bench: Bench, client: aiohttp.ClientSession, answer: bytes
) -> list[int | None]:
    """As their events say them."""
    bench.catalog.script[f"POST {TABLE}"] = answer
    for number in (1, 2):
        assert (await post(client, bench, append(snapshot=number)))[0] == 200
    return [event.metadata_bytes for event in await bench.until(2)]


async def load(
    bench: Bench, client: aiohttp.ClientSession, answer: bytes, query: str = ""
) -> bytes:
    bench.catalog.script[f"GET {TABLE}{query}"] = answer
    async with client.get(bench.uri + TABLE + query) as found:
        return await found.read()


async def test_an_answer_that_says_its_length_is_of_this_commit(
    bench: Bench, client: aiohttp.ClientSession
) -> None:
    assert await sizes_of_two_commits(bench, client, said(ANSWER)) == [LENGTH, LENGTH]


@pytest.mark.parametrize("answer", [chunked(ANSWER[:70_000], ANSWER[70_000:]), zipped(ANSWER)])
async def test_another_one_is_counted_as_it_goes_by_for_the_next_commit(
    bench: Bench, client: aiohttp.ClientSession, answer: bytes
) -> None:
    assert await sizes_of_two_commits(bench, client, answer) == [None, LENGTH]


async def test_a_load_by_anybody_tells_it_too(bench: Bench, client: aiohttp.ClientSession) -> None:
    assert gzip.decompress(await load(bench, client, zipped(ANSWER))) == ANSWER
    bench.catalog.script["POST /v1/transactions/commit"] = b"HTTP/1.1 204 No Content\r\n\r\n"
    change = {"identifier": {"namespace": ["n"], "name": "t"}, **json.loads(append())}
    body = json.dumps({"table-changes": [change]}).encode()
    await post(client, bench, body, "/v1/transactions/commit")
    [event] = await bench.until(1)
    assert event.metadata_bytes == LENGTH


async def test_what_leaves_snapshots_out_or_is_no_table_does_not_count(
    bench: Bench, client: aiohttp.ClientSession
) -> None:
    for query in ("?snapshots=refs", "?snapshots=all&snapshots=refs", "?snapshots=REFS"):
        await load(bench, client, said(ANSWER), query)
    await load(bench, client, said(ANSWER, "404 Not Found"))
    await load(bench, client, b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n")
    bench.catalog.script[f"POST {TABLE}"] = zipped(ANSWER)
    await post(client, bench, append())
    [event] = await bench.until(1)
    assert event.metadata_bytes is None
    await load(bench, client, said(ANSWER + b" "), "?snapshots=all")
    await post(client, bench, append(snapshot=2))
    assert (await bench.until(2))[1].metadata_bytes == LENGTH + 1


async def test_another_table_of_the_name_has_not_the_old_ones_size(
    bench: Bench, client: aiohttp.ClientSession
) -> None:
    await load(bench, client, said(ANSWER))
    bench.catalog.script[f"POST {TABLE}"] = zipped(ANSWER)
    made = json.loads(append())
    made["requirements"] = [CREATE]
    made["updates"].insert(0, {"action": "assign-uuid", "uuid": "another"})
    await post(client, bench, json.dumps(made).encode())
    [event] = await bench.until(1)
    assert (event.table.uuid, event.metadata_bytes) == ("another", None)


@pytest.mark.parametrize("said_length", [(1 << 40) + 1, 1 << 63, 0])
def test_a_length_that_cannot_be_is_not_believed(said_length: int) -> None:
    """No event could carry the second one, and its commit would have none."""
    sizes, names = MetadataSizes(), ("", "n", "t")
    upstream: Any = SimpleNamespace(headers={}, content_length=said_length)
    sizes.of_answer(names, upstream)
    assert sizes.size_in_bytes(names) is None


def length_of(encoding: str, pieces: Sequence[bytes]) -> list[int]:
    told = list[int]()
    counted = AnswerLength(encoding, told.append)
    for piece in pieces:
        counted.add_piece(piece)
    counted.mark_complete()
    return told


@pytest.mark.parametrize("size", [1, 3, 7, 10_000])
def test_the_length_of_a_zipped_answer_is_at_its_end(size: int) -> None:
    body = gzip.compress(ANSWER)
    assert length_of("gzip", [body[at : at + size] for at in range(0, len(body), size)]) == [LENGTH]


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(ANSWER) + gzip.compress(b"{}")),  # of its last piece alone
        ("gzip", b"x"),
        ("gzip", b""),
        ("deflate", zlib.compress(ANSWER)),
        ("br", ANSWER),
        ("gzip, gzip", gzip.compress(gzip.compress(ANSWER))),
    ],
)
def test_what_does_not_say_its_length_is_not_guessed(encoding: str, body: bytes) -> None:
    assert length_of(encoding, [body] if body else []) == []


def test_few_tables_are_remembered() -> None:
    sizes = MetadataSizes(max_tables=3)
    for number in range(5):
        sizes._set_size(("", "n", f"t{number}"), 1 + number)
        sizes._set_size(("", "n", "t0"), 7)
    assert len(sizes._sizes) == 3
    assert sizes.size_in_bytes(("", "n", "t0")) == 7
