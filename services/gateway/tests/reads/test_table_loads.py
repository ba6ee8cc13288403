"""Loads of tables: which are reads, and which are a writer's, a reporter's or our own."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
from firnline_adapters.observability.logs import Log
from firnline_domain.commits.load_header import OURS
from firnline_domain.identity import TableName
from firnline_gateway import bootstrap
from firnline_gateway.middlewares import scan_counter
from firnline_gateway.reads import table_loads as module
from firnline_gateway.reads.scan_counts import ScannedTable
from firnline_gateway.reads.table_loads import (
    HOLD_MS,
    MAX_REPORTERS,
    ONE_READ_MS,
    ONE_READ_OF_JAVA_MS,
    REPORTER_MS,
    Client,
    TableLoads,
)
from firnline_gateway.rest.call import Names
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.tests.conftest import UUID, Bench, append, said
from services.gateway.tests.scan_report import encoded

TABLE = "/v1/w/namespaces/a%1Fb/tables/t"
NAME = TableName(UUID, ("a", "b"), "t", prefix="w")
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
READER, WRITER, SPARK = Client(b"reader"), Client(b"writer"), Client(b"spark", is_java=True)
NAMES: Names = ("/v1", "a", "t")


class World:
    def __init__(self, most: int = 1_000) -> None:
        self.now_ms = 10**12
        self.loads = TableLoads(lambda: self.now_ms, most)

    def load(self, client: Client = READER, names: Names = NAMES) -> bool:
        load = self.loads.note_load(client, names)
        if load is not None:
            load.identity = ScannedTable(TableName(names[-1], names[1:-1], names[-1]))
        return load is not None

    def later(self, ms: int) -> World:
        self.now_ms += ms
        return self

    def read(self) -> list[str]:
        return [one.table.uuid for one in self.loads.take_reads() if one]


def test_a_load_is_a_read_once_nothing_explains_it_otherwise() -> None:
    world = World()
    assert world.load()
    assert world.later(HOLD_MS - 1).read() == []
    assert world.later(1).read() == ["t"]
    assert world.later(HOUR_MS).read() == []


def test_loads_of_one_moment_are_one_read_of_each_client_and_table() -> None:
    world = World()
    for _ in range(5):
        world.load()
        world.later(ONE_READ_MS // 5)
    world.load(WRITER)
    world.load(READER, ("/v1", "a", "u"))
    world.load()
    assert sorted(world.later(HOLD_MS).read()) == ["t", "t", "t", "u"]


def test_who_polls_with_javas_library_reads_twelve_times_an_hour_at_the_most() -> None:
    world = World()
    for _ in range(60):
        world.load(SPARK)
        world.later(MINUTE_MS)
    assert len(world.later(HOLD_MS).read()) == HOUR_MS // ONE_READ_OF_JAVA_MS


def test_a_load_before_or_after_a_commit_of_the_same_client_is_a_writers() -> None:
    world = World()
    world.load(WRITER)
    world.load()
    world.later(HOLD_MS - 1).loads.note_commit(WRITER, NAMES)
    world.later(MINUTE_MS)
    assert not world.load(WRITER)
    assert world.load(WRITER, ("/v1", "a", "u"))  # that it writes one table says nothing of others
    assert world.later(HOLD_MS).read() == ["t", "u"]
    assert world.load(WRITER)
    assert world.later(HOLD_MS).read() == ["t"]


def test_a_transaction_names_no_table_so_all_its_clients_loads_may_be_its() -> None:
    world = World()
    world.load(WRITER)
    world.load()
    world.later(MINUTE_MS).loads.note_commit(WRITER, None)
    assert world.later(HOLD_MS).read() == ["t"]


def test_what_a_client_reports_is_counted_and_not_what_it_loads() -> None:
    world = World()
    world.load(SPARK)
    world.later(1_000).loads.note_report(SPARK)
    assert world.later(HOLD_MS).read() == []
    assert not world.load(SPARK, ("/v1", "a", "u"))
    assert world.load()
    world.later(REPORTER_MS)
    assert world.read() == ["t"]
    assert world.load(SPARK)


def test_clients_without_number_take_as_much_memory_as_those_that_are_remembered() -> None:
    most = 1_000
    world = World(most)
    tracemalloc.start()
    for number in range(100_000):
        client = Client(number.to_bytes(16, "big"))
        world.load(client, ("/v1", "a", str(number)))
        world.loads.note_commit(client, ("/v1", "b", str(number)))
        world.loads.note_report(client)
        world.later(100)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(world.loads) <= 3 * most + MAX_REPORTERS
    assert taken < 5 << 20


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["load", "commit", "transaction", "report", "settle"]),
            st.sampled_from([READER, WRITER, SPARK]),
            st.sampled_from([NAMES, ("/v1", "a", "u")]),
            st.integers(0, 2 * HOLD_MS),
        )
    )
)
def test_no_client_reads_oftener_than_its_loads_and_nothing_outgrows_its_bound(
    steps: list[tuple[str, Client, Names, int]],
) -> None:
    world, loads, read = World(most=4), 0, 0
    for what, client, names, wait_ms in steps:
        world.later(wait_ms)
        if what == "load":
            loads += world.load(client, names)
        elif what == "commit":
            world.loads.note_commit(client, names)
        elif what == "transaction":
            world.loads.note_commit(client, None)
        elif what == "report":
            world.loads.note_report(client)
        else:
            read += len(world.read())
        assert len(world.loads) <= 3 * 4 + 3
    assert read + len(world.later(HOLD_MS).read()) <= loads


# Through a gateway.


@pytest.fixture
async def busy(
    make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Bench]:
    """A gateway that waits half a second for a commit or a report, and sends often."""
    monkeypatch.setattr(module, "HOLD_MS", 500)
    monkeypatch.setattr(scan_counter, "SETTLE_S", 0.05)
    made = make_bench(scan_report_s=0.05)
    known = said(json.dumps({"metadata": {"table-uuid": UUID}}).encode())
    made.catalog.script |= {
        f"GET {TABLE}": known,
        f"GET {TABLE}?snapshots=all": known,
        f"POST {TABLE}": said(b"{}"),
        f"POST {TABLE}/metrics": said(b"", "204 No Content"),
    }
    async with bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")):
        yield made


async def get(
    client: aiohttp.ClientSession, bench: Bench, path: str = TABLE, **headers: str
) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.get(bench.uri + path, headers=named) as answer:
        await answer.read()
        return answer.status


async def post(client: aiohttp.ClientSession, bench: Bench, body: bytes, path: str) -> int:
    async with client.post(bench.uri + path, data=body, headers={"User-Agent": "w"}) as answer:
        await answer.read()
        return answer.status


async def counted(bench: Bench) -> int:
    """Reads after all have waited for long enough."""
    await asyncio.sleep(1.0)
    events = bench.broker.records("table-scans")
    assert {one.table for one in events} <= {NAME}
    return sum(one.loads for one in events)


async def test_readers_that_report_nothing_are_counted_by_their_loads(
    busy: Bench, client: aiohttp.ClientSession
) -> None:
    for agent in "abc":
        assert await get(client, busy, User_Agent=agent, Authorization=f"Bearer {agent}") == 200
        assert await get(client, busy, TABLE + "?snapshots=all", User_Agent="a") == 200
    assert await counted(busy) == 4  # `a` with a credential is another than `a` without
    assert busy.catalog.lines().count(f"GET {TABLE}?snapshots=refs") == 1


async def test_whoever_writes_reports_or_is_one_of_us_is_not(
    busy: Bench, client: aiohttp.ClientSession
) -> None:
    await get(client, busy, User_Agent="w")
    await post(client, busy, append(), TABLE)
    await get(client, busy, **{OURS: "true"})
    assert await counted(busy) == 0
    await get(client, busy, User_Agent="x")
    assert await counted(busy) == 1


async def test_a_client_that_reports_is_not_counted_twice(
    busy: Bench, client: aiohttp.ClientSession
) -> None:
    await get(client, busy, User_Agent="w")
    await post(client, busy, encoded(), TABLE + "/metrics")
    assert await counted(busy) == 0
    assert sum(one.scans for one in busy.broker.records("table-scans")) == 1


async def test_only_what_the_catalog_has_answered_is_a_load(
    busy: Bench, client: aiohttp.ClientSession
) -> None:
    busy.catalog.script[f"GET {TABLE}"] = said(b"{}", "403 Forbidden")
    assert await get(client, busy, User_Agent="x") == 403
    busy.catalog.script[f"GET {TABLE}?snapshots=refs"] = said(
        json.dumps({"metadata": {"table-uuid": UUID}}).encode()
    )
    busy.catalog.script[f"GET {TABLE}"] = said(b"", "304 Not Modified")
    assert await get(client, busy, User_Agent="y") == 304
    async with client.head(busy.uri + TABLE) as answer:
        await answer.read()
    assert await counted(busy) == 1
