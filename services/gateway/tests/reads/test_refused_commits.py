"""Refused commits (409) are counted by table and client, and told to the planner."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
from firnline_adapters.observability.logs import Log
from firnline_domain.commits.load_header import OURS
from firnline_domain.identity import TableName
from firnline_domain.records.events import CommitsRefused, RefusedClient
from firnline_gateway import bootstrap
from firnline_gateway.reads.refused_commits import MAX_CLIENTS, MAX_NAME, RefusedCommits

from services.gateway.tests.conftest import UUID, Bench, said

TABLE = "/v1/w/namespaces/a%1Fb/tables/t"
TRANSACTION = "/v1/w/transactions/commit"
NAME = TableName(UUID, ("a", "b"), "t", prefix="w")
REFUSED = said(b'{"error": {"code": 409, "type": "CommitFailedException"}}', "409 Conflict")
COMMIT = b'{"requirements": [], "updates": []}'


@pytest.fixture
async def busy(make_bench: Callable[..., Bench]) -> AsyncIterator[Bench]:
    """A gateway that sends its counts many times a second; the catalog refuses each commit."""
    made = make_bench(scan_report_s=0.05)
    body = json.dumps({"metadata": {"table-uuid": UUID}}).encode()
    made.catalog.script[f"GET {TABLE}?snapshots=refs"] = said(body)
    made.catalog.script[f"POST {TABLE}"] = REFUSED
    made.catalog.script[f"POST {TRANSACTION}"] = REFUSED
    async with bootstrap.running(made.settings, made.publisher, Log("gateway")) as gateway:
        made.gateway = gateway.first
        yield made


async def commit(
    client: aiohttp.ClientSession, bench: Bench, path: str = TABLE, **headers: str
) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.post(f"{bench.uri}{path}", data=COMMIT, headers=named) as answer:
        await answer.read()
        return answer.status


async def told(bench: Bench, commits: int) -> list[CommitsRefused]:
    async with asyncio.timeout(20):
        while True:
            found: list[CommitsRefused] = bench.broker.records("table-scans")
            if sum(one.commits for one in found) >= commits:
                return found
            await asyncio.sleep(0.01)


async def test_refused_commits_are_told_by_the_tables_uuid_and_the_client(
    busy: Bench, client: aiohttp.ClientSession
) -> None:
    for agent in ("etl/1", "etl/1", "app/2"):
        assert await commit(client, busy, User_Agent=agent) == 409
    events = await told(busy, 3)
    assert {one.table for one in events} == {NAME}
    clients = [each for one in events for each in one.clients]
    assert {each.name for each in clients} == {"etl/1", "app/2"}
    assert sum(each.commits for each in clients if each.name == "etl/1") == 2


async def test_only_writers_commits_of_one_table_that_were_refused_as_late_count(
    busy: Bench, client: aiohttp.ClientSession
) -> None:
    assert await commit(client, busy, **{OURS: "1"}) == 409  # the committer's: it says so itself
    assert await commit(client, busy, TRANSACTION) == 409  # of which table, nobody says
    busy.catalog.script[f"POST {TABLE}"] = said(b"{}", "403 Forbidden")
    assert await commit(client, busy) == 403
    busy.catalog.script[f"POST {TABLE}"] = REFUSED
    assert await commit(client, busy, User_Agent="etl/1") == 409
    [event] = await told(busy, 1)
    assert event.clients == (RefusedClient("etl/1", 1),)


def test_of_many_tables_and_clients_as_many_are_kept_as_there_is_room_for() -> None:
    counts = RefusedCommits(1_000, most=2)
    names = [TableName(f"u{number}", ("db",), "t") for number in range(3)]
    assert [counts.add(name, "etl") for name in names] == [True, True, False]
    for number in range(2 * MAX_CLIENTS):
        assert counts.add(names[0], f"job-{number}")
    [event] = counts.take(1, 2_000)
    assert (event.from_ms, event.to_ms) == (1_000, 2_000)
    assert (event.commits, len(event.clients)) == (1 + 2 * MAX_CLIENTS, MAX_CLIENTS)
    assert [one.table for one in counts.take(9, 3_000)] == [names[1]]
    assert counts.take(9, 4_000) == []


async def test_a_long_name_is_cut(busy: Bench, client: aiohttp.ClientSession) -> None:
    await commit(client, busy, User_Agent="x" * 500)
    [event] = await told(busy, 1)
    assert event.clients == (RefusedClient("x" * MAX_NAME, 1),)
