"""From a call through the gateway to its event, over a catalog that does what it is told."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from firnline_adapters.observability.logs import Log
from firnline_domain.commits.hold_header import HEADER, PASS
from firnline_domain.errors import Misconfigured
from firnline_gateway import bootstrap
from firnline_gateway.middlewares import commit_capture as capture
from firnline_gateway.outbox.sqlite import SqliteOutbox
from firnline_gateway.proxy.body_memory import SMALL_BYTES

from services.gateway.tests.conftest import (
    SNAPSHOT,
    TABLE,
    UUID,
    Bench,
    append,
    forgotten,
    head,
    in_time,
    loaded,
    post,
    said,
)
from tests.kit.counted import counted


async def test_an_accepted_commit_is_an_event(bench: Bench, client: aiohttp.ClientSession) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    headers = {"User-Agent": "Writer/1"}
    assert await post(client, bench, append(), **headers) == (200, b"{}")
    [event] = await bench.until(1)
    assert (event.table.uuid, event.table.dotted_name) == (UUID, "n.t")
    assert (event.table.catalog, event.source, event.user_agent) == ("lake", "gateway", "Writer/1")
    assert event.snapshots[0].snapshot_id == SNAPSHOT


async def test_a_bodiless_transaction_is_an_event_per_table(
    bench: Bench, client: aiohttp.ClientSession
) -> None:
    def change(name: str, uuid: str) -> dict[str, Any]:
        identifier = {"namespace": ["n"], "name": name}
        return {"identifier": identifier, **json.loads(append(uuid))}

    bench.catalog.script["POST /v1/transactions/commit"] = b"HTTP/1.1 204 No Content\r\n\r\n"
    body = json.dumps({"table-changes": [change("a", "ua"), change("b", "ub")]}).encode()
    assert await post(client, bench, body, "/v1/transactions/commit") == (204, b"")
    found = {event.table.uuid: event.table.name for event in await bench.until(2)}
    assert found == {"ua": "a", "ub": "b"}


async def test_a_zipped_request_is_read_too(bench: Bench, client: aiohttp.ClientSession) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    await post(client, bench, gzip.compress(append()), **{"Content-Encoding": "gzip"})
    [event] = await bench.until(1)
    assert event.snapshots[0].snapshot_id == SNAPSHOT


@pytest.mark.parametrize("status", ["400 Bad", "403 No", "404 Gone", "409 Conflict", "429 Wait"])
async def test_a_refused_commit_is_none(
    bench: Bench, client: aiohttp.ClientSession, status: str
) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"why", status, "Retry-After: 7")
    code, body = await post(client, bench, append())
    assert (f"{code}", body) == (status.split()[0], b"why")
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    await post(client, bench, append(snapshot=2))
    [event] = await bench.until(1)
    assert event.snapshots[0].snapshot_id == 2
    assert forgotten(bench)


async def test_a_writer_that_lost_to_us_is_counted(
    bench: Bench, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusals() -> list[float]:
        return [counted("gateway_commits_refused", after=who) for who in ("ours", "others")]

    async def grown(status: str, **headers: str) -> list[float]:
        before = refusals()
        bench.catalog.script[f"POST {TABLE}"] = said(b"{}", status)
        await post(client, bench, append(), **headers)
        return [now - then for now, then in zip(refusals(), before, strict=True)]

    assert await grown("409 Conflict") == [0, 1]
    assert await grown("409 Conflict", **{HEADER: PASS}) == [0, 0]
    assert await grown("409 Conflict") == [0, 1]
    assert await grown("200 OK", **{HEADER: PASS}) == [0, 0]
    assert await grown("409 Conflict") == [1, 0]
    assert await grown("404 Gone") == [0, 0]
    monkeypatch.setattr(capture, "OURS_S", 0.0)
    assert await grown("409 Conflict") == [0, 1]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_after_a_5xx_the_table_is_asked(
    bench: Bench, client: aiohttp.ClientSession, status: int
) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"why", f"{status} X")
    bench.catalog.script[f"GET {TABLE}"] = loaded()
    assert await post(client, bench, append()) == (status, b"why")
    [event] = await bench.until(1)
    assert (event.source, event.snapshots[0].snapshot_id) == ("reconciled", SNAPSHOT)


async def test_a_lost_connection_is_a_502_and_the_table_is_asked_until_it_says(
    bench: Bench, client: aiohttp.ClientSession
) -> None:
    answers = iter([said(b"busy", "503 Busy"), loaded(snapshot=None), loaded()])
    bench.catalog.script[f"POST {TABLE}"] = None
    bench.catalog.script[f"GET {TABLE}"] = lambda _: next(answers)
    status, body = await post(client, bench, append())
    assert (status, json.loads(body)["error"]["code"]) == (502, 502)
    [event] = await bench.until(1)
    assert event.source == "reconciled"
    assert bench.catalog.lines().count(f"POST {TABLE}") == 1


async def test_silence_is_a_504_without_retry_after(
    make_bench: Callable[..., Bench], client: aiohttp.ClientSession
) -> None:
    bench = make_bench(upstream_timeout_s=0.2)
    bench.catalog.hold = asyncio.Event()
    bench.catalog.script[f"GET {TABLE}"] = loaded()
    async with (
        bootstrap.run_gateways(bench.settings, bench.publisher, Log("gateway")),
        client.post(bench.uri + TABLE, data=append()) as answer,
    ):
        assert answer.status == 504
        assert "Retry-After" not in answer.headers
        [event] = await bench.until(1)
        assert event.source == "reconciled"


async def test_a_commit_that_was_never_sent_may_be_sent_again(
    bench: Bench, client: aiohttp.ClientSession
) -> None:
    bench.upstream.base = "http://127.0.0.1:1"
    async with client.post(bench.uri + TABLE, data=append()) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert forgotten(bench)


async def test_a_client_that_hangs_up_during_its_commit_does_not_lose_the_event(
    bench: Bench,
) -> None:
    bench.catalog.hold = asyncio.Event()
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    _, writer = await asyncio.open_connection(*bench.address)
    body = append()
    writer.write(
        f"POST {TABLE} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    )
    writer.write(body)
    await bench.catalog.reached.wait()
    writer.transport.abort()
    await asyncio.sleep(0)
    bench.catalog.hold.set()
    [event] = await bench.until(1)
    assert event.source == "gateway"


async def test_a_client_that_hangs_up_before_the_end_of_its_commit_changes_nothing(
    bench: Bench, client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    _, writer = await asyncio.open_connection(*bench.address)
    writer.write(f"POST {TABLE} HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n{{".encode())
    await writer.drain()
    writer.transport.abort()
    async with client.get(f"{bench.uri}/v1/x"):
        pass
    assert f"POST {TABLE}" not in bench.catalog.lines()
    assert "Traceback" not in caplog.text


async def test_a_disk_that_hangs_does_not_hold_up_the_answer(
    bench: Bench, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    healed = threading.Event()
    waited: list[bool] = []
    original = SqliteOutbox.transaction

    @contextmanager
    def stuck(self: SqliteOutbox) -> Iterator[None]:
        waited.append(healed.wait(20))
        with original(self):
            yield

    monkeypatch.setattr(SqliteOutbox, "transaction", stuck)
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    assert await post(client, bench, append()) == (200, b"{}")
    healed.set()
    assert len(await bench.until(1)) == 1
    assert all(waited)  # the answer was there before the disk was


async def test_a_broken_disk_costs_neither_the_commit_nor_its_event(
    make_bench: Callable[..., Bench], client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("a file where a directory should be")
    bench = make_bench(state_dir=str(tmp_path / "file" / "state"))
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    async with bootstrap.run_gateways(bench.settings, bench.publisher, Log("gateway")):
        assert await post(client, bench, append()) == (200, b"{}")
        assert len(await bench.until(1)) == 1


async def test_a_call_in_flight_ends_well_when_the_gateway_is_told_to_stop(
    make_bench: Callable[..., Bench], client: aiohttp.ClientSession
) -> None:
    bench = make_bench()
    bench.catalog.hold = asyncio.Event()
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    async with bootstrap.run_gateways(bench.settings, bench.publisher, Log("gateway")):
        call = asyncio.create_task(post(client, bench, append()))
        await bench.catalog.reached.wait()
        asyncio.get_running_loop().call_later(0.2, bench.catalog.hold.set)
    assert await call == (200, b"{}")
    assert len(bench.events()) == 1


async def test_what_was_open_at_a_crash_is_read_from_the_table(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(own="token = 'our-own'")
    call = capture.Call("c", "POST", TABLE, append(), bootstrap.now_ms())
    crashed = SqliteOutbox(Path(bench.settings.state_dir) / "outbox.db")
    with crashed.transaction():
        crashed.open_call(call)
    crashed.close()
    bench.catalog.script[f"GET {TABLE}"] = loaded()
    async with bootstrap.run_gateways(bench.settings, bench.publisher, Log("gateway")):
        [event] = await bench.until(1)
    assert (event.source, event.committed_at_ms) == ("reconciled", call.received_ms)
    assert b"Authorization: Bearer our-own\r\n" in bench.catalog.seen[-1]


async def test_a_replay_has_the_same_event_id(bench: Bench, client: aiohttp.ClientSession) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    for _ in range(2):
        await post(client, bench, append(), **{"Idempotency-Key": "k"})
    first, second = await bench.until(2)
    assert first.event_id == second.event_id


async def test_tokens_are_neither_logged_nor_stored(
    bench: Bench, client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bench.catalog.script[f"POST {TABLE}"] = None
    await post(client, bench, append(), Authorization="Bearer s3cret")
    assert b"Bearer s3cret" in bench.catalog.seen[-1]
    assert "outcome_unknown" in caplog.text
    assert "s3cret" not in caplog.text
    bench.journal.depth().result(20)
    for file in Path(bench.settings.state_dir).iterdir():
        assert b"s3cret" not in file.read_bytes()


async def test_of_a_token_the_principal_alone_is_kept(
    bench: Bench, client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    claims = {"sub": "etl", "email": "hidden@example.org", "jti": "hidden-too"}
    parts = [json.dumps(one).encode() for one in ({"alg": "none", "kid": "hidden-key"}, claims)]
    head, body = (base64.urlsafe_b64encode(one).decode().rstrip("=") for one in parts)
    bearer = {"Authorization": f"Bearer {head}.{body}.s3cret"}
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    await post(client, bench, append(), **bearer)
    [event] = await bench.until(1)
    assert event.principal == "etl"
    bench.catalog.script[f"POST {TABLE}"] = None  # stays in the outbox as a call
    await post(client, bench, append(), **bearer)
    bench.journal.depth().result(20)
    files = [file.read_bytes() for file in Path(bench.settings.state_dir).iterdir()]
    assert any(b"etl" in content for content in files)
    for kept in (str(event).encode(), caplog.text.encode(), *files):
        for secret in (b"s3cret", b"hidden", head.encode(), body.encode()):
            assert secret not in kept


async def test_an_address_that_is_taken_is_said_so(
    bench: Bench, make_bench: Callable[..., Bench], tmp_path: Path
) -> None:
    taken = bench.settings.listen_address
    other = make_bench(listen_address=taken, state_dir=str(tmp_path / "another")).settings
    with pytest.raises(Misconfigured, match=r"FIRNLINE_LISTEN_ADDRESS: .*address already in use"):
        async with bootstrap.run_gateways(other, bench.publisher, Log("gateway")):
            pass


async def test_two_gateways_may_not_share_a_state_directory(
    bench: Bench, make_bench: Callable[..., Bench]
) -> None:
    other = make_bench()
    with pytest.raises(Misconfigured, match="FIRNLINE_STATE_DIR"):
        async with bootstrap.run_gateways(other.settings, other.publisher, Log("gateway")):
            pass


@pytest.mark.parametrize(
    "body",
    [
        b"\xff not json",
        b"[" * 60_000,  # deeper than any parser goes
        append() + b" and more",  # Jackson stops at the end of the object
        json.dumps({"updates": [{"action": "add-snapshot", "snapshot": {}}]}).encode(),
        append(snapshot=2**70),
        json.dumps({"updates": [{"action": "set-snapshot-ref", "ref-name": "r"}]}).encode(),
    ],
)
async def test_an_accepted_call_that_cannot_be_read_is_an_event_of_its_table(
    bench: Bench, client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    bench.catalog.script[f"GET {TABLE}"] = head()
    assert await post(client, bench, body) == (200, b"{}")
    [event] = await bench.until(1)
    assert (event.table.uuid, event.table.dotted_name, event.source) == (UUID, "n.t", "reconciled")
    assert [(ref.ref, ref.snapshot_id) for ref in event.refs] == [("main", SNAPSHOT)]
    assert [new.snapshot_id for new in event.snapshots] == [SNAPSHOT]
    assert "call_unreadable" in caplog.text
    await in_time(lambda: forgotten(bench))


async def test_a_request_that_takes_long_to_read_does_not_hold_up_the_answer(
    bench: Bench, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()
    waited: list[bool] = []
    original = capture.changes_of

    def slow(call: capture.Call) -> Any:
        waited.append(answered.wait(20))
        return original(call)

    monkeypatch.setattr(capture, "changes_of", slow)
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    long = append() + b" " * SMALL_BYTES
    assert await post(client, bench, long) == (200, b"{}")
    answered.set()
    [event] = await bench.until(1)
    assert event.table.uuid == UUID
    assert waited == [True]


async def test_the_separator_is_asked_for_at_the_start(make_bench: Callable[..., Bench]) -> None:
    """Clients that had their config before a restart do not ask for it again."""
    bench = make_bench()
    config = b'{"overrides":{"namespace-separator":"%2E"}}'
    bench.catalog.script["GET /v1/config"] = said(config)
    async with bootstrap.run_gateways(bench.settings, bench.publisher, Log("gateway")) as gateway:
        bench.gateway = gateway.catalogs["lake"]
        await in_time(lambda: bench.separator == "%2E")
