"""Who waits for a commit of ours, how long, and who does not."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import aiohttp
import pytest
from firnline_adapters.observability.logs import Log
from firnline_domain.commits.hold_header import HEADER, HOLD_NEXT_READS, HOLD_READS, PASS, RELEASE
from firnline_gateway import bootstrap
from firnline_gateway.middlewares import read_hold as module
from firnline_gateway.middlewares.read_hold import Peer, ReadHold

from services.gateway.tests.conftest import Bench, said

TABLE = "/v1/namespaces/a%1Fb/tables/t"
HELD = {HEADER: HOLD_READS}
Client = aiohttp.ClientSession


@pytest.fixture
def made(make_bench: Callable[..., Bench]) -> Bench:
    """Holds of up to a minute: a test that waits for one's end fails."""
    bench = make_bench(commit_wait_s=60.0)
    bench.catalog.script |= {f"GET {TABLE}": said(b"{}"), f"HEAD {TABLE}": said(b"")}
    return bench


async def read(client: Client, bench: Bench, path: str = TABLE, **headers: str) -> int:
    async with client.get(bench.uri + path, headers=headers) as answer:
        return answer.status


async def waits(task: asyncio.Task[int]) -> bool:
    await asyncio.wait({task}, timeout=0.2)
    return not task.done()


async def test_a_read_waits_until_the_commit_is_answered(made: Bench, client: Client) -> None:
    made.catalog.hold = asyncio.Event()
    async with bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")):
        await read(client, made, **HELD)
        reader = asyncio.create_task(read(client, made, TABLE + "?snapshots=all"))
        assert await waits(reader)
        commit = client.post(made.uri + TABLE, data=b"{}", headers={HEADER: PASS})
        sent = asyncio.create_task(commit.__aenter__())
        await made.catalog.reached.wait()
        assert await waits(reader)
        made.catalog.hold.set()
        assert (await sent).status == 404  # refused or not: it is over
        assert await asyncio.wait_for(reader, 5) == 404
    assert made.catalog.lines()[-1] == f"GET {TABLE}?snapshots=all"


async def test_nobody_waits_but_readers_of_the_table(made: Bench, client: Client) -> None:
    async with bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")):
        await read(client, made, **HELD)
        for path in ("/v1/namespaces/a%1Fb/tables/u", "/v1/namespaces/b/tables/t", TABLE + "/plan"):
            await asyncio.wait_for(read(client, made, path), 5)
        async with client.post(made.uri + TABLE, data=b"{}") as answer:  # a writer's commit
            assert answer.status == 404
        async with client.head(made.uri + TABLE) as answer:
            assert answer.status == 200
        assert await asyncio.wait_for(read(client, made, **{HEADER: PASS}), 5) == 200
        async with aiohttp.ClientSession() as other:
            reader = asyncio.create_task(read(other, made))
            assert await waits(reader)  # none of these has ended it
            assert await read(client, made, **{HEADER: RELEASE}) == 200
            assert await asyncio.wait_for(reader, 5) == 200


async def test_other_spellings_are_the_same_table(made: Bench, client: Client) -> None:
    made.catalog.script["GET /v1/namespaces/a%1fb/tables/%74"] = said(b"{}")
    async with bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")):
        await read(client, made, **HELD)
        reader = asyncio.create_task(read(client, made, "/v1/namespaces/a%1fb/tables/%74"))
        assert await waits(reader)
        await read(client, made, **{HEADER: RELEASE})
        assert await asyncio.wait_for(reader, 5) == 200


@pytest.mark.parametrize("word", ["", "begins", "HOLD_READS", "1000"])
async def test_other_words_begin_nothing(made: Bench, client: Client, word: str) -> None:
    async with bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")):
        await read(client, made, **{HEADER: word})
        assert await asyncio.wait_for(read(client, made), 5) == 200


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


PEERS = itertools.count()


def named(name: object) -> Peer:
    return Peer(name, name)


async def held(holds: ReadHold, peer: object = None) -> bool:
    """Whether a read waits, of somebody who was never there before if not told otherwise."""
    try:
        await asyncio.wait_for(holds.wait_to_read("t", named(peer or next(PEERS))), 0.02)
    except TimeoutError:
        return True
    return False


async def test_no_hold_is_longer_than_it_may_be() -> None:
    holds = ReadHold(50)
    holds.begin_hold("t")
    await asyncio.wait_for(holds.wait_to_read("t", named("a")), 5)


async def test_none_is_held_where_that_is_turned_off() -> None:
    holds = ReadHold(0)
    holds.begin_hold("t")
    assert not await held(holds)


async def test_a_table_is_held_for_half_of_the_time_at_the_most() -> None:
    clock = Clock()
    holds = ReadHold(10_000, clock)
    holds.begin_hold("t")
    clock.now_s += 4
    holds.begin_hold("t")  # does not make it longer
    holds.release_hold("t")
    clock.now_s += 3
    holds.begin_hold("t")
    assert not await held(holds)
    clock.now_s += 1.1
    holds.begin_hold("t")
    assert await held(holds)


async def test_one_that_nobody_ended_has_ended_when_its_time_was_over() -> None:
    clock = Clock()
    holds = ReadHold(10_000, clock)
    holds.begin_hold("t")
    clock.now_s += 15
    holds.begin_hold("t")  # 5 s of rest are missing
    assert not await held(holds)
    clock.now_s += 5.1
    holds.begin_hold("t")
    assert await held(holds)


async def test_a_statement_under_way_reads_on_and_the_next_one_waits() -> None:
    clock = Clock()
    holds = ReadHold(10_000, clock)
    await holds.wait_to_read("t", named("a"))  # a statement begins
    holds.begin_hold("t")
    assert not await held(holds, "a")  # and refreshes the table for its commit
    holds.end_statement("t", named("a"))
    assert await held(holds, "a")  # the next statement
    holds.release_hold("t")
    assert not await held(holds, "a")


LOAD = TABLE + "?snapshots=all"
JAVA = {"X-Client-Version": "Apache Iceberg 1.12.0 (commit 0123456)"}


async def test_a_refresh_of_java_passes_on_any_connection(made: Bench, client: Client) -> None:
    """A session's statements share their connections with its reports of scans."""
    async with bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")):
        await read(client, made, **HELD)
        async with aiohttp.ClientSession() as other:
            assert await asyncio.wait_for(read(other, made, **JAVA), 5) == 200
            load = asyncio.create_task(read(other, made, LOAD, **JAVA))
            assert await waits(load)
            await read(client, made, **{HEADER: RELEASE})
            await asyncio.wait_for(load, 5)


async def commit(client: Client, bench: Bench, **headers: str) -> None:
    async with client.post(bench.uri + TABLE, data=b"{}", headers=headers):
        pass


async def test_a_commit_of_java_ends_the_statement_on_each_connection(
    made: Bench, client: Client
) -> None:
    made.catalog.script[f"POST {TABLE}"] = said(b"{}")
    async with (
        bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")),
        aiohttp.ClientSession() as other,
    ):
        await read(other, made, LOAD, **JAVA)
        await commit(client, made, **JAVA)
        await read(client, made, **HELD)
        statement = asyncio.create_task(read(other, made, LOAD, **JAVA))
        assert await waits(statement)
        await read(client, made, **{HEADER: RELEASE})
        await asyncio.wait_for(statement, 5)


@pytest.mark.parametrize(
    ("armed", "status", "begins"),
    [
        (HOLD_NEXT_READS, "200 OK", True),
        (HOLD_NEXT_READS, "409 Conflict", False),
        (PASS, "200 OK", False),
    ],
)
async def test_an_armed_hold_begins_before_the_writer_has_its_answer(
    made: Bench, client: Client, armed: str, status: str, begins: bool
) -> None:
    made.catalog.script[f"POST {TABLE}"] = said(b"{}", status)
    async with bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")):
        await read(client, made, **{HEADER: armed})
        async with aiohttp.ClientSession() as writer:
            await asyncio.wait_for(read(writer, made), 5)
            await commit(writer, made)
            statement = asyncio.create_task(read(writer, made))
            assert await waits(statement) is begins
            await commit(client, made, **{HEADER: PASS})
            assert await asyncio.wait_for(statement, 5) == 200


@pytest.mark.parametrize("how", ["released", "committed"])
async def test_an_armed_hold_ends_with_the_committer(made: Bench, client: Client, how: str) -> None:
    made.catalog.script[f"POST {TABLE}"] = said(b"{}")
    async with bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")):
        await read(client, made, **{HEADER: HOLD_NEXT_READS})
        if how == "released":
            await read(client, made, **{HEADER: RELEASE})
        else:
            await commit(client, made, **{HEADER: PASS})
        async with aiohttp.ClientSession() as writer:
            await commit(writer, made)
            assert await asyncio.wait_for(read(writer, made), 5) == 200


async def test_a_commit_that_comes_late_begins_no_armed_hold() -> None:
    clock = Clock()
    holds = ReadHold(1_000, clock)
    holds.arm_hold("t")
    clock.now_s += 1.1
    holds.begin_armed_hold("t")
    assert not await held(holds)


async def test_who_only_reads_waits_once_at_the_most() -> None:
    clock = Clock()
    holds = ReadHold(10_000, clock)
    holds.begin_hold("t")
    assert await held(holds, "a")
    holds.release_hold("t")
    assert not await held(holds, "a")
    clock.now_s += 30
    holds.begin_hold("t")
    assert not await held(holds, "a")


async def test_only_so_many_readers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_READERS", 2)
    holds = ReadHold(10_000)
    for peer in "abc":
        await holds.wait_to_read("t", named(peer))
    holds.begin_hold("t")
    assert [await held(holds, peer) for peer in "abc"] == [True, False, False]


@pytest.mark.parametrize("status", ["401 No", "403 No", "404 None", "500 Oops"])
async def test_a_stranger_neither_begins_nor_ends_a_hold(
    made: Bench, client: Client, status: str
) -> None:
    """The header alone is anybody's: what counts is whether the catalog lets the caller read."""
    let_in, refused = said(b"{}"), said(b"", status)
    async with bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")):
        made.catalog.script[f"GET {TABLE}"] = refused
        await read(client, made, **HELD)
        made.catalog.script[f"GET {TABLE}"] = let_in
        async with aiohttp.ClientSession() as other:
            assert await asyncio.wait_for(read(other, made), 5) == 200
        await read(client, made, **HELD)  # the committer's
        made.catalog.script[f"GET {TABLE}"] = refused
        await read(client, made, **{HEADER: RELEASE})
        async with aiohttp.ClientSession() as other:
            reader = asyncio.create_task(read(other, made))
            assert await waits(reader)
            made.catalog.script[f"GET {TABLE}"] = let_in
            await read(client, made, **{HEADER: RELEASE})
            assert await asyncio.wait_for(reader, 5) == 200


async def test_a_commit_that_the_catalog_does_not_let_in_ends_no_hold(
    made: Bench, client: Client
) -> None:
    made.catalog.script[f"POST {TABLE}"] = said(b"", "403 No")
    async with bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")):
        await read(client, made, **HELD)
        async with client.post(made.uri + TABLE, data=b"{}", headers={HEADER: PASS}) as answer:
            assert answer.status == 403
        async with aiohttp.ClientSession() as other:
            reader = asyncio.create_task(read(other, made))
            assert await waits(reader)
            await read(client, made, **{HEADER: RELEASE})
            assert await asyncio.wait_for(reader, 5) == 200
