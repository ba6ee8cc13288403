"""One gateway before several catalogs, and prefixes of one: tables that share a name, and even a
uuid, stay apart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from firnline_adapters.config.config_file import ConfigFile
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import Misconfigured
from firnline_domain.identity import PREFIX_HEADER
from firnline_gateway import bootstrap
from firnline_gateway.handlers import Gateways
from firnline_gateway.rest.config_response import MAX_WAYS, Ways
from firnline_gateway.rest.routes import mount_in, prefix_in
from firnline_gateway.settings import GatewaySettings

from services.gateway.tests.conftest import TABLE, Bench, Catalog, Client, append, head, post, said


@dataclass
class Two:
    """A gateway before the catalogs `lake` and `archive`."""

    bench: Bench
    archive: Catalog
    gateways: Gateways


def with_file(
    settings: GatewaySettings, file: ConfigFile | None, upstream_uri: str | None
) -> GatewaySettings:
    changed = replace(settings, upstream_uri=upstream_uri)
    vars(changed)["file"] = file  # as if it had been read
    return changed


@asynccontextmanager
async def served(bench: Bench, *names: str) -> AsyncIterator[Two]:
    archive = Catalog()
    server = await asyncio.start_server(archive.serve, "127.0.0.1", 0, limit=1 << 24)
    archive.port = server.sockets[0].getsockname()[1]
    ports = dict(zip(names, (bench.catalog.port, archive.port), strict=False))
    file = ConfigFile(
        "firnline.toml",
        {
            name: {"uri": f"{bench.uri}/{name}", "firnline.upstream-uri": f"http://127.0.0.1:{n}"}
            for name, n in ports.items()
        },
    )
    settings = with_file(bench.settings, file, None)
    async with bootstrap.run_gateways(settings, bench.publisher, Log("gateway")) as gateways:
        yield Two(bench, archive, gateways)
    server.close()


@pytest.fixture
async def two(make_bench: Callable[..., Bench]) -> AsyncIterator[Two]:
    async with served(make_bench(), "lake", "archive") as found:
        yield found


async def test_the_first_segment_says_which_catalog(two: Two, client: Client) -> None:
    for catalog in (two.bench.catalog, two.archive):
        catalog.script[f"POST {TABLE}"] = said(b"{}")
    for path in (TABLE, f"/lake{TABLE}", f"/archive{TABLE}"):
        assert (await post(client, two.bench, append(), path))[0] == 200
    events = sorted(await two.bench.until(3), key=lambda event: -len(event.table.catalog))
    assert [one.table.catalog for one in events] == ["archive", "lake", "lake"]
    assert len({one.table.uuid for one in events}) == 1
    assert len({one.table.key for one in events}) == 2
    assert events[0].event_id != events[1].event_id == events[2].event_id
    assert f"POST {TABLE}" in two.archive.lines()
    assert not any("archive" in line for line in two.archive.lines())


async def test_a_catalog_that_is_away_is_nobody_elses(two: Two, client: Client) -> None:
    two.bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    two.gateways.catalogs["archive"]._upstream.base = "http://127.0.0.1:1"
    assert (await post(client, two.bench, append(), f"/archive{TABLE}"))[0] == 503
    assert (await post(client, two.bench, append(), f"/lake{TABLE}"))[0] == 200
    [event] = await two.bench.until(1)
    assert event.table.catalog == "lake"


async def test_a_doubt_is_settled_by_the_catalog_that_it_is_of(two: Two, client: Client) -> None:
    """Both have the table; only the other one has the snapshot."""
    two.archive.script[f"POST {TABLE}"] = said(b"", "500 Internal Server Error")
    two.archive.script[f"GET {TABLE}"] = head()
    two.bench.catalog.script[f"GET {TABLE}"] = head(snapshot=1)
    assert (await post(client, two.bench, append(), f"/archive{TABLE}"))[0] == 500
    [event] = await two.bench.until(1)
    assert (event.table.catalog, event.source) == ("archive", "reconciled")
    assert not any(line.startswith("GET /v1/n") for line in two.bench.catalog.lines())


async def test_a_catalogs_config_leads_back_below_its_name(two: Two, client: Client) -> None:
    uri = f"http://127.0.0.1:{two.archive.port}/"
    two.archive.script["GET /v1/config"] = said(json.dumps({"overrides": {"uri": uri}}).encode())
    async with client.get(f"{two.bench.uri}/archive/v1/config") as answer:
        config = await answer.json(content_type=None)
    assert config["overrides"]["uri"] == f"{two.bench.uri}/archive/"


PREFIXES = {
    "main": "main",
    "main%7Csecond": "main%7Csecond",
    "main|second": "main%7Csecond",
    "main%7csecond": "main%7Csecond",
    "arn%3Aaws%3As3tables%2Fb": "arn%3Aaws%3As3tables%2Fb",
    "catalogs/1234": "catalogs/1234",
    "a%1Fb": "a%1Fb",
    "%40x%2B%3A": "%40x%2B%3A",
}


@pytest.mark.parametrize(("raw", "prefix"), PREFIXES.items())
async def test_a_prefix_is_a_part_of_the_tables_identity(
    bench: Bench, client: Client, raw: str, prefix: str
) -> None:
    path = TABLE.replace("/v1", f"/v1/{raw}")
    for place in (TABLE, path):
        bench.catalog.script[f"POST {place}"] = said(b"{}")
    plain = await bench.raw(_request(TABLE))
    assert b"200 OK" in plain
    assert b"200 OK" in await bench.raw(_request(path))
    one, other = sorted(await bench.until(2), key=lambda event: len(event.table.prefix))
    assert (one.table.prefix, other.table.prefix) == ("", prefix)
    assert one.table.key != other.table.key
    assert one.event_id != other.event_id


def _request(path: str) -> bytes:
    body = append()
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Connection: close"]
    text = "\r\n".join([*lines, f"Content-Length: {len(body)}"])
    return text.encode() + b"\r\n\r\n" + body


def config_of(overrides: dict[str, Any]) -> bytes:
    return said(json.dumps({"defaults": {}, "overrides": overrides}).encode())


async def asked(client: Client, bench: Bench, prefix: str, query: str = "") -> dict[str, Any]:
    headers = {PREFIX_HEADER: prefix} if prefix else {}
    async with client.get(f"{bench.uri}/v1/config{query}", headers=headers) as answer:
        found: dict[str, Any] = await answer.json(content_type=None)
        return found


async def test_a_client_of_ours_is_led_to_the_prefix_that_it_wants(
    bench: Bench, client: Client
) -> None:
    """By the way of a client that came there before, with the settings of that warehouse."""
    bench.catalog.script["GET /v1/config"] = config_of({"prefix": "main", "s3.endpoint": "one"})
    second = {"prefix": "main%7Csecond", "s3.endpoint": "two"}
    bench.catalog.script["GET /v1/config?warehouse=second"] = config_of(second)
    unknown = await asked(client, bench, "main%7Csecond")
    assert unknown["overrides"] == {"prefix": "main%7Csecond", "s3.endpoint": "one"}
    await asked(client, bench, "", "?warehouse=second&more=x")  # 404: nothing is learnt
    await asked(client, bench, "", "?warehouse=second")
    assert (await asked(client, bench, "main%7Csecond"))["overrides"] == second
    assert (await asked(client, bench, ""))["overrides"]["prefix"] == "main"
    assert not any(PREFIX_HEADER.lower().encode() in one.lower() for one in bench.catalog.seen)


def test_ways_are_few_and_hold_nothing_but_path_and_warehouse() -> None:
    ways = Ways()
    for number in range(MAX_WAYS + 1):
        body = json.dumps({"overrides": {"prefix": f"p{number}"}}).encode()
        ways.learn_target(f"/v1/config?token=secret&warehouse=w{number}", body)
    assert ways.target_for("p0") is None
    assert ways.target_for(f"p{MAX_WAYS}") == f"/v1/config?warehouse=w{MAX_WAYS}"
    ways.learn_target("/v1/config?warehouse=" + "w" * 5_000, b'{"overrides":{"prefix":"long"}}')
    assert ways.target_for("long") is None


def test_what_a_first_segment_means() -> None:
    names = {"lake", "archive"}
    assert mount_in("/archive/v1/config", names) == "/archive"
    assert mount_in("//archive/v1/config?x=/lake", names) == "//archive"
    for path in ("/", "/v1/lake", "/archives/v1", "/%61rchive/v1", "/v1?/archive", "/"):
        assert mount_in(path, names) == "", path
    assert mount_in("/", {""}) == ""
    assert [prefix_in(root) for root in ("/v1", "/v1/", "/ice/v1/a/b", "/dev/v1/dev")] == [
        "", "", "a/b", "dev",
    ]  # fmt: skip


async def test_without_a_file_a_first_segment_is_the_catalogs_own(
    make_bench: Callable[..., Bench], client: Client
) -> None:
    bench, path = make_bench(), f"/lake{TABLE}"
    bench.catalog.script[f"POST {path}"] = said(b"{}")
    settings = with_file(bench.settings, None, f"http://127.0.0.1:{bench.catalog.port}")
    async with bootstrap.run_gateways(settings, bench.publisher, Log("gateway")):
        assert (await post(client, bench, append(), path))[0] == 200


def test_a_file_that_names_several_says_where_each_is(make_bench: Callable[..., Bench]) -> None:
    def settings(*upstreams: str | None, variable: str | None = None) -> Any:
        catalogs = {
            f"c{n}": {"uri": "http://gateway", **({"firnline.upstream-uri": one} if one else {})}
            for n, one in enumerate(upstreams)
        }
        file = ConfigFile("firnline.toml", catalogs)
        return with_file(make_bench().settings, file, variable)

    assert list(settings("http://a", None, "http://c").upstreams) == ["c0", "c2"]
    assert list(settings(None, variable="http://a").upstreams) == ["c0"]
    wrong = (
        ((None, None), None),
        (("http://a", "http://b"), "http://a"),
        (("http://a",), "http://b"),
    )
    for upstreams, variable in wrong:
        with pytest.raises(Misconfigured):
            assert settings(*upstreams, variable=variable).upstreams
