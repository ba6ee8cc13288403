"""Requests that nobody's client sends: odd, slow, hostile. Commits among them are events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from firnline_adapters.observability.logs import Log
from firnline_gateway import bootstrap

from services.gateway.tests.conftest import (
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

# Odd bytes


@pytest.mark.parametrize("name", [b"User-Agent", b"Idempotency-Key", b"X-Any", b"Authorization"])
async def test_a_stray_byte_in_a_header_loses_no_event(bench: Bench, name: bytes) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    found = await bench.raw(raw(TABLE.encode(), append(), name + b": a\xff\xc3b"))
    assert found.startswith(b"HTTP/1.1 200 ")
    [event] = await bench.until(1)
    assert (event.source, event.snapshots[0].snapshot_id) == ("gateway", SNAPSHOT)
    assert forgotten(bench)


async def test_a_stray_byte_makes_no_other_call_doubtful(bench: Bench) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    calls = [raw(TABLE.encode(), append(snapshot=n), b"User-Agent: a") for n in range(20)]
    calls[7] = raw(TABLE.encode(), append(snapshot=7), b"User-Agent: \xff")
    await asyncio.gather(*map(bench.raw, calls))
    events = await bench.until(20)
    assert {event.source for event in events} == {"gateway"}
    assert forgotten(bench)


async def test_half_a_surrogate_pair_loses_no_event(bench: Bench, client: Client) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    bench.catalog.script[f"GET {TABLE}"] = head()
    body = append().replace(b'"operation"', b'"who": "\\uD800", "operation"')
    await post(client, bench, body)
    [event] = await bench.until(1)
    assert (event.source, event.snapshots[0].snapshot_id) == ("reconciled", SNAPSHOT)


@pytest.mark.parametrize(
    "path",
    [f"{TABLE}/", "/v1/namespaces/n/%74ables/t", "//v1//namespaces/n/tables/t",
     "/V1/Namespaces/n/Tables/t", "/v1/namespaces/n/tables%2Ft"],
)  # fmt: skip
async def test_an_oddly_spelt_commit_is_an_event(bench: Bench, path: str) -> None:
    bench.catalog.script[f"POST {path}"] = said(b"{}")
    await bench.raw(raw(path.encode(), append()))
    [event] = await bench.until(1)
    assert (event.table.dotted_name, event.snapshots[0].snapshot_id) == ("n.t", SNAPSHOT)


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", TABLE), ("POST", f"{TABLE}/replace"), ("POST", f"/v2{TABLE[3:]}")]
)
async def test_a_call_of_no_known_kind_is_an_event_of_its_table(
    bench: Bench, method: str, path: str
) -> None:
    bench.catalog.script[f"{method} {path}"] = said(b"", "204 No Content")
    bench.catalog.script[f"GET {TABLE}"] = bench.catalog.script[f"GET /v2{TABLE[3:]}"] = head()
    await bench.raw(raw(path.encode(), append(), method=method.encode()))
    [event] = await bench.until(1)
    assert (event.table.dotted_name, event.source) == ("n.t", "reconciled")
    assert event.snapshots[0].snapshot_id == SNAPSHOT
    await in_time(lambda: forgotten(bench))


async def test_where_no_table_is_named_those_that_were_touched_are_events(bench: Bench) -> None:
    pages = {
        "/v1/namespaces?pageToken=": {"namespaces": [["n"], ["m"]]},
        "/v1/namespaces?parent=n&pageToken=": {"namespaces": [["n", "d"]]},
        "/v1/namespaces/n/tables?pageToken=": {
            "identifiers": [{"namespace": ["n"], "name": "old"}],
            "next-page-token": "p 2",
        },
        "/v1/namespaces/n/tables?pageToken=p%202": {
            "identifiers": [{"namespace": ["n"], "name": "t"}]
        },
        "/v1/namespaces/n%1Fd/tables?pageToken=": {
            "identifiers": [{"namespace": ["n", "d"], "name": "deep"}]
        },
    }
    for path, page in pages.items():
        bench.catalog.script[f"GET {path}&pageSize=1000"] = said(json.dumps(page).encode())
    tables = "/v1/namespaces/n/tables"
    bench.catalog.script[f"GET {tables}/old"] = head(uuid="u-old", committed_ms=1)
    bench.catalog.script[f"GET {tables}/t"] = head(uuid="u-t")
    bench.catalog.script["GET /v1/namespaces/n%1Fd/tables/deep"] = head(uuid="u-deep")
    bench.catalog.script["POST /v1/transactions/commit"] = said(b"", "204 No Content")
    await bench.raw(raw(b"/v1/transactions/commit", b"not what we read"))
    events = await bench.until(2)
    assert {event.table.dotted_name for event in events} == {"n.t", "n.d.deep"}
    await in_time(lambda: forgotten(bench))


async def test_the_path_names_the_table_whatever_the_body_says(
    bench: Bench, client: Client
) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    lie = {"identifier": {"namespace": ["other"], "name": "victim"}, **json.loads(append())}
    await post(client, bench, json.dumps(lie).encode())
    [event] = await bench.until(1)
    assert event.table.dotted_name == "n.t"


async def test_a_uuid_in_capitals_is_the_same_table(bench: Bench, client: Client) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    bench.catalog.script[f"GET {TABLE}"] = head()
    await post(client, bench, append(uuid=UUID.upper()))
    [event] = await bench.until(1)
    assert event.table.uuid == UUID


# Other places


ELSEWHERE = [
    b"/../other-app/v1/namespaces/n/tables/t",
    b"/v1/%2e%2e/%2e%2e/namespaces/n/tables/t",
    b"/v1/..%2f..%2fx/namespaces/n/tables/t",
    b"/v1/..;/namespaces/n/tables/t",
    b"/v1/%252e%252e/namespaces/n/tables/t",
    b"http://evil.example/v1/namespaces/n/tables/t",
    b"/v1\\..\\namespaces/n/tables/t",
    TABLE.encode() + b"#x",
    TABLE.encode() + b"\xff",
]


@pytest.mark.parametrize("method", [b"DELETE", b"POST", b"GET"])
async def test_a_target_that_may_lead_elsewhere_sends_nothing(narrow: Bench, method: bytes) -> None:
    for target in ELSEWHERE:
        found = await narrow.raw(raw(target, b"{}", method=method))
        assert found.split(b" ")[1] == b"400", target
        assert b"Firnline gateway: " in found or b"Invalid char" in found
    assert set(narrow.catalog.lines()) <= {"GET /v1/config"}  # our own, at the start


async def test_names_in_a_body_lead_nowhere_else(narrow: Bench, client: Client) -> None:
    """Our own token goes where an accepted rename says that the table is."""
    names = {"namespace": [".."], "name": "../../other-app"}
    body = {"source": {"namespace": ["n"], "name": "t"}, "destination": names}
    narrow.catalog.script["POST /v1/tables/rename"] = said(b"", "204 No Content")
    async with client.post(f"{narrow.uri}/v1/tables/rename", data=json.dumps(body)):
        pass
    body["destination"] = {"namespace": ["m"], "name": ".."}
    async with client.post(f"{narrow.uri}/v1/tables/rename", data=json.dumps(body)):
        pass
    await in_time(lambda: forgotten(narrow))
    assert not any("/.." in line for line in narrow.catalog.lines())


async def test_our_own_token_is_in_no_clients_call(narrow: Bench) -> None:
    narrow.catalog.script[f"POST {TABLE}"] = said(b"", "401 No")
    for target, host in ((TABLE, b"evil.example"), ("//evil.example/v1/x", b"x")):
        await narrow.raw(raw(target.encode(), b"{}", b"Host: " + host).replace(b"Host: x\r\n", b""))
        assert b"our-own" not in narrow.catalog.seen[-1]
        assert b"Host: 127.0.0.1:%d\r\n" % narrow.catalog.port in narrow.catalog.seen[-1]


async def test_a_method_in_a_header_is_refused(bench: Bench) -> None:
    found = await bench.raw(
        raw(TABLE.encode(), b"", b"X-HTTP-Method-Override: POST", method=b"GET")
    )
    assert found.startswith(b"HTTP/1.1 400 ")
    assert not any(TABLE in line for line in bench.catalog.lines())


# Broken HTTP


BROKEN = [
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    b"Content-Length: +5\r\n\r\nhello",
    b"Content-Length: -1\r\n\r\n",
    b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    b"X-A: b\r\n Content-Length: 5\r\n\r\nhello",
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello-and-more\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    b"Content-Length: 9999\r\n\r\nhalf a body",
    b"X: " + b"x" * 200_000 + b"\r\n\r\n",
    b"".join(b"X-%d: y\r\n" % n for n in range(10_000)) + b"\r\n",
    b"X\x00Y: 1\r\n\r\n",
    b"\xff\xfe: 1\r\n\r\n",
]


async def test_a_request_that_two_servers_could_cut_in_two_ways_is_not_passed_on(
    bench: Bench,
) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    for broken in BROKEN:
        reader, writer = await asyncio.open_connection(*bench.address)
        writer.write(f"POST {TABLE} HTTP/1.1\r\nHost: x\r\n".encode() + broken)
        writer.write_eof()
        found = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        assert found == b"" or found.split(b" ")[1] == b"400", broken[:50]
    assert f"POST {TABLE}" not in bench.catalog.lines()
    assert forgotten(bench)


async def test_a_client_that_half_closes_has_its_commit_and_its_answer(bench: Bench) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    reader, writer = await asyncio.open_connection(*bench.address)
    writer.write(raw(TABLE.encode(), append()))
    writer.write_eof()
    found = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    [event] = await bench.until(1)
    assert event.snapshots[0].snapshot_id == SNAPSHOT
    assert found.startswith(b"HTTP/1.1 200 ") or found == b""


async def test_slow_clients_hold_up_nobody(
    make_bench: Callable[..., Bench], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a request line, of a head and of a body, from many; then theirs ends with a 400."""
    monkeypatch.setattr("firnline_gateway.proxy.bodies.PIECE_S", 0.5)
    bench = make_bench()
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    head_of = f"POST {TABLE} HTTP/1.1\r\nHost: x\r\n".encode()
    halves = [head_of[:9], head_of, head_of + b"Content-Length: 99\r\n\r\n{"] * 50
    async with bootstrap.run_gateways(bench.settings, bench.publisher, Log("gateway")):
        slow = [await asyncio.open_connection(*bench.address) for _ in halves]
        for (_, writer), half in zip(slow, halves, strict=True):
            writer.write(half)
        assert await post(client, bench, append()) == (200, b"{}")
        [event] = await bench.until(1)
        assert event.source == "gateway"
        bodies = [reader for n, (reader, _) in enumerate(slow) if n % 3 == 2]
        answers = await asyncio.wait_for(asyncio.gather(*(one.read() for one in bodies)), 20)
        assert all(answer.startswith(b"HTTP/1.1 400 ") for answer in answers)
        for _, writer in slow:
            writer.close()
    assert bench.catalog.lines().count(f"POST {TABLE}") == 1


async def test_an_upgrade_carries_nothing_past_us(bench: Bench) -> None:
    bench.catalog.script[f"POST {TABLE}"] = said(b"{}")
    headers = (b"Upgrade: websocket", b"Sec-WebSocket-Key: x")
    request = raw(TABLE.encode(), append(), *headers).replace(b": close", b": Upgrade, close")
    found = await bench.raw(request)
    sent = [one for one in bench.catalog.seen if one.startswith(b"POST")]
    assert not any(b"pgrade" in one for one in sent)
    if found.startswith(b"HTTP/1.1 200 ") and any(one.endswith(append()) for one in sent):
        [event] = await bench.until(1)
        assert event.snapshots[0].snapshot_id == SNAPSHOT
