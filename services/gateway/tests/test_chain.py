"""The chain of middlewares: its order, and what is left without one of them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import ClientError
from firnline_adapters.observability.logs import Log
from firnline_gateway import bootstrap, chain
from firnline_gateway.middlewares.commit_hold import CommitHold
from firnline_gateway.middlewares.middleware import Middleware
from firnline_gateway.middlewares.read_hold import ReadHold
from firnline_gateway.middlewares.scan_counter import ScanCounter
from firnline_gateway.middlewares.upstream_signer import UpstreamSigner
from firnline_gateway.proxy.bodies import Refused
from firnline_gateway.proxy.exchange import Exchange

from services.gateway.tests.conftest import TABLE, Bench, Client, append, loaded, post, said

MakeBench = Callable[..., Bench]


@asynccontextmanager
async def served(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch, *rows: type[Middleware]
) -> AsyncIterator[Bench]:
    monkeypatch.setattr(chain, "CHAIN", rows)
    made = make_bench()
    made.catalog.script |= {
        f"POST {TABLE}": said(b"{}"),
        f"GET {TABLE}": loaded(),
        f"POST {TABLE}/metrics": said(b"", "204 No Content"),
    }
    async with bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")) as gateways:
        made.gateway = gateways.catalogs["lake"]
        yield made


@pytest.mark.parametrize("optional", [UpstreamSigner, CommitHold, ReadHold, ScanCounter])
async def test_an_optional_feature_leaves_with_its_row(
    make_bench: MakeBench,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    optional: type[Middleware],
) -> None:
    rows = [row for row in chain.CHAIN if row is not optional]
    assert len(rows) == len(chain.CHAIN) - 1
    async with served(make_bench, monkeypatch, *rows) as made:
        assert await post(client, made, append()) == (200, b"{}")
        assert (await post(client, made, b"{}", f"{TABLE}/metrics"))[0] == 204
        async with client.get(made.uri + TABLE) as answer:
            assert answer.status == 200
        [event] = await made.until(1)
        assert event.source == "gateway"
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("refuses", [False, True])
async def test_what_begins_a_call_ends_it_in_reverse(
    make_bench: MakeBench, client: Client, monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    steps: list[str] = []

    class Outer(Middleware):
        async def before(self, exchange: Exchange) -> None:
            await exchange.keep_body()
            steps.append(f"{type(self).__name__} before")

        async def after(self, exchange: Exchange) -> None:
            steps.append(f"{type(self).__name__} after")

        def finish(self, exchange: Exchange) -> None:
            steps.append(f"{type(self).__name__} finish")

    class Inner(Outer):
        async def before(self, exchange: Exchange) -> None:
            await super().before(exchange)
            if refuses:
                raise Refused(403, "no")

    class Innermost(Outer):
        pass

    async with served(make_bench, monkeypatch, Outer, Inner, Innermost) as made:
        status, _ = await post(client, made, append())
        assert made.budget.taken == 0
        sent = made.catalog.lines()
    if refuses:
        assert (status, sent) == (403, [])
        assert steps == ["Outer before", "Inner before", "Inner finish", "Outer finish"]
    else:
        names = ["Outer", "Inner", "Innermost"]
        assert (status, sent) == (200, [f"POST {TABLE}"])
        assert steps == [
            *(f"{name} before" for name in names),
            *(f"{name} after" for name in reversed(names)),
            *(f"{name} finish" for name in reversed(names)),
        ]


async def test_one_that_fails_at_its_end_keeps_neither_others_nor_memory(
    make_bench: MakeBench, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    class Outer(Middleware):
        async def before(self, exchange: Exchange) -> None:
            await exchange.keep_body()

        def finish(self, exchange: Exchange) -> None:
            ended.append(type(self).__name__)

    class Failing(Outer):
        def finish(self, exchange: Exchange) -> None:
            raise ValueError("year 10000 is out of range")

    class Inner(Outer):
        pass

    async with served(make_bench, monkeypatch, Outer, Failing, Inner) as made:
        with suppress(ClientError):
            await post(client, made, append())
        assert ended == ["Inner", "Outer"]
        assert made.budget.taken == 0
