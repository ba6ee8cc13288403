"""Reports of scans: passed on as they came, and counted by table."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_domain.identity import TableName, bucket_of
from firnline_domain.records.events import FilteredBy, PartitionClock, TableLayout, TableScanned
from firnline_gateway import bootstrap
from firnline_gateway.middlewares import scan_counter
from firnline_gateway.rest.scan_report import MAX_REPORT_BYTES

from services.gateway.tests.conftest import UUID, Bench, Catalog, said
from services.gateway.tests.scan_report import encoded

TABLE = "/v1/w/namespaces/a%1Fb/tables/t"
NAME = TableName(UUID, ("a", "b"), "t", prefix="w")


@pytest.fixture
async def busy(make_bench: Callable[..., Bench]) -> AsyncIterator[Bench]:
    """A gateway that sends its counts many times a second."""
    made = make_bench(scan_report_s=0.05)
    made.catalog.script[f"GET {TABLE}?snapshots=refs"] = said(
        json.dumps({"metadata": {"table-uuid": UUID}}).encode()
    )
    made.catalog.script[f"POST {TABLE}/metrics"] = said(b"", "204 No Content")
    async with bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")) as gateway:
        made.gateway = gateway.catalogs["lake"]
        yield made


def scanned(bench: Bench) -> list[TableScanned]:
    return bench.broker.records("table-scans")


async def until(bench: Bench, scans: int) -> list[TableScanned]:
    async with asyncio.timeout(20):
        while sum(one.scans for one in scanned(bench)) < scans:
            await asyncio.sleep(0.01)
    return scanned(bench)


def outcomes() -> dict[str, float]:
    counter = metrics._made.get("gateway_scan_reports")
    found = {} if counter is None else {
        sample.labels["outcome"]: sample.value
        for family in counter.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    }  # fmt: skip
    return {name: found.get(name, 0.0) for name in ("counted", "dropped")}


def came(before: dict[str, float]) -> dict[str, float]:
    return {name: value - before[name] for name, value in outcomes().items()}


async def post(
    client: aiohttp.ClientSession, bench: Bench, body: bytes, path: str = TABLE, **headers: str
) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.post(f"{bench.uri}{path}/metrics", data=body, headers=named) as answer:
        await answer.read()
        return answer.status


async def test_scans_are_counted_by_the_tables_uuid(
    busy: Bench, client: aiohttp.ClientSession
) -> None:
    before = outcomes()
    for files in (3, 4, 5):
        assert await post(client, busy, encoded(files)) == 204
    events = await until(busy, 3)
    assert {one.table for one in events} == {NAME}
    assert (sum(one.scans for one in events), sum(one.data_files for one in events)) == (3, 12)
    assert all(one.from_ms <= one.to_ms for one in events)
    place = "table-scans", bucket_of(NAME.key, busy.broker.buckets)
    assert {key for key, _ in busy.broker.logs[place]} == {NAME.key}
    assert came(before) == {"counted": 3, "dropped": 0}
    assert busy.catalog.lines().count(f"GET {TABLE}?snapshots=refs") == 1


async def test_what_readers_filter_by_is_told_with_the_tables_layout(
    busy: Bench, client: aiohttp.ClientSession
) -> None:
    metadata = {
        "table-uuid": UUID,
        "schemas": [{"schema-id": 0, "fields": [{"id": 1, "name": "day", "type": "date"}]}],
        "partition-specs": [
            {"spec-id": 0, "fields": [{"source-id": 1, "transform": "month", "name": "m"}]}
        ],
    }
    body = json.dumps({"metadata": metadata}).encode()
    busy.catalog.script[f"GET {TABLE}?snapshots=refs"] = said(body)
    await post(client, busy, encoded(3))
    [event] = await until(busy, 1)
    assert event.filtered == (FilteredBy("day", 1, 3),)
    assert event.layout == TableLayout((), ("day",), PartitionClock(0, 0, "month", "day"))
    [wanted] = event.ranges
    assert (wanted.scans, wanted.data_files) == (1, 3)
    assert wanted.youngest == wanted.oldest  # the month of 2026-01-01, however long ago


async def test_the_table_is_read_as_the_client_that_reports(
    busy: Bench, client: aiohttp.ClientSession
) -> None:
    await post(
        client,
        busy,
        encoded(),
        Authorization="Bearer theirs",
        Polaris_Realm="r",
        Idempotency_Key="k",
        X_Iceberg_Access_Delegation="vended-credentials",
    )
    await until(busy, 1)
    [asked] = [one for one in busy.catalog.seen if one.startswith(f"GET {TABLE}?".encode())]
    lines = asked.decode().lower().split("\r\n")
    assert "authorization: bearer theirs" in lines
    assert "polaris-realm: r" in lines
    names = {line.partition(":")[0] for line in lines}
    assert not names & {"idempotency-key", "x-iceberg-access-delegation", "content-type"}
    assert not names & {"content-length", "content-encoding", "transfer-encoding"}


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"not json", {}),
        (encoded(-5), {}),
        (gzip.compress(encoded()), {"Content-Encoding": "gzip"}),
        (encoded(filter="x" * MAX_REPORT_BYTES), {}),
    ],
    ids=["broken", "wrong", "gzip", "large"],
)
async def test_what_cannot_be_counted_is_passed_on_as_it_is(
    busy: Bench, body: bytes, headers: dict[str, str]
) -> None:
    before = outcomes()
    lines = [
        f"POST {TABLE}/metrics HTTP/1.1",
        "Host: gateway.example",
        "Connection: close",
        f"Content-Length: {len(body)}",
        *(f"{name}: {text}" for name, text in headers.items()),
    ]
    raw = await busy.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    assert raw.startswith(b"HTTP/1.1 204 No Content\r\n")
    [passed] = [one for one in busy.catalog.seen if one.startswith(b"POST")]
    head, _, arrived = passed.partition(b"\r\n\r\n")
    assert arrived == body
    assert head.decode().split("\r\n")[2:] == lines[3:]
    assert came(before) == {"counted": 0, "dropped": 1}


async def test_a_report_of_a_commit_is_none_of_a_scan(
    busy: Bench, client: aiohttp.ClientSession
) -> None:
    before = outcomes()
    await post(client, busy, encoded(kind="commit-report"))
    await post(client, busy, encoded())
    assert sum(one.scans for one in await until(busy, 1)) == 1
    assert came(before) == {"counted": 1, "dropped": 0}


@pytest.mark.parametrize(
    ("status", "counted"),
    [("200 OK", 1), ("404 Not Found", 1), ("501 Not Implemented", 1), ("403 Forbidden", 0),
     ("401 Unauthorized", 0), ("503 Service Unavailable", 0)],
)  # fmt: skip
async def test_only_what_the_catalog_has_heard_counts(
    busy: Bench, client: aiohttp.ClientSession, status: str, counted: int
) -> None:
    """What is refused may be anybody's, and what is to be sent again counts then."""
    before = outcomes()
    busy.catalog.script[f"POST {TABLE}/metrics"] = said(b"{}", status)
    assert await post(client, busy, encoded()) == int(status[:3])
    if counted:
        await until(busy, 1)
    else:
        await asyncio.sleep(0.2)
    assert came(before) == {"counted": counted, "dropped": 0}


async def test_a_table_that_cannot_be_read_has_no_events(
    busy: Bench, client: aiohttp.ClientSession
) -> None:
    before, other = outcomes(), "/v1/w/namespaces/a/tables/other"
    for _ in range(2):
        await post(client, busy, encoded(), other)
        async with asyncio.timeout(20):
            while f"GET {other}?snapshots=refs" not in busy.catalog.lines():
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
    assert came(before) == {"counted": 0, "dropped": 2}
    assert busy.catalog.lines().count(f"GET {other}?snapshots=refs") == 1


async def test_a_report_waits_for_nothing_of_ours(
    make_bench: Callable[..., Bench],
    client: aiohttp.ClientSession,
    catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its answer is there although the catalog never says which table that is; nor does the end of
    the gateway wait for that."""
    monkeypatch.setattr(scan_counter, "LAST_SCANS_S", 0.1)
    made, before = make_bench(), outcomes()
    catalog.script[f"GET {TABLE}?snapshots=refs"] = b""
    catalog.script[f"POST {TABLE}/metrics"] = said(b"", "204 No Content")
    async with asyncio.timeout(10):
        async with bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")):
            for _ in range(3):
                assert await post(client, made, encoded()) == 204
            assert came(before) == {"counted": 0, "dropped": 0}
        await asyncio.sleep(0)
    assert came(before) == {"counted": 0, "dropped": 3}
    assert catalog.lines().count(f"GET {TABLE}?snapshots=refs") == 1


async def test_after_a_drop_the_name_means_another_table(
    busy: Bench, client: aiohttp.ClientSession
) -> None:
    await post(client, busy, encoded())
    await until(busy, 1)
    busy.catalog.script[f"DELETE {TABLE}"] = said(b"", "204 No Content")
    async with client.delete(f"{busy.uri}{TABLE}") as answer:
        assert answer.status == 204
    other = json.dumps({"metadata": {"table-uuid": "another"}}).encode()
    busy.catalog.script[f"GET {TABLE}?snapshots=refs"] = said(other)
    await post(client, busy, encoded())
    assert {one.table.uuid for one in await until(busy, 2)} == {UUID, "another"}


async def test_what_is_counted_is_sent_at_the_end(
    make_bench: Callable[..., Bench], client: aiohttp.ClientSession, catalog: Catalog
) -> None:
    made = make_bench(scan_report_s=3_600.0)
    body = json.dumps({"metadata": {"table-uuid": UUID}}).encode()
    catalog.script[f"GET {TABLE}?snapshots=refs"] = said(body)
    async with bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")):
        await post(client, made, encoded(9))
        assert scanned(made) == []
    [event] = scanned(made)
    assert (event.table, event.scans, event.data_files) == (NAME, 1, 9)


async def test_nobody_is_counted_where_that_is_off(
    make_bench: Callable[..., Bench], client: aiohttp.ClientSession, catalog: Catalog
) -> None:
    made, before = make_bench(scan_report_s=0.0), outcomes()
    catalog.script[f"POST {TABLE}/metrics"] = said(b"", "204 No Content")
    async with bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")):
        assert await post(client, made, encoded()) == 204
    assert scanned(made) == []
    assert came(before) == {"counted": 0, "dropped": 0}
    assert not [line for line in catalog.lines() if line.startswith("GET /v1/w")]
