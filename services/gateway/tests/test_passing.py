"""Bytes through the gateway, compared with what either side sent."""

from __future__ import annotations

import asyncio
import gzip
import json

import aiohttp
import pytest
from firnline_domain.identity import CATALOG
from prometheus_client import REGISTRY

from services.gateway.tests.conftest import Bench, said

PATH = "/v1/pre%2Ffix/namespaces/a%1Fb%2ec/tables/t%20?snapshots=refs&x=%7e"


def request(bench: Bench, method: str, path: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: gateway.example", "Connection: close", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def split(raw: bytes) -> tuple[list[str], bytes]:
    head, body = raw.split(b"\r\n\r\n", 1)
    return head.decode().split("\r\n"), body


async def test_a_request_arrives_as_it_was_sent(bench: Bench) -> None:
    headers = [
        "authorization: Bearer sec.ret",
        "X-Iceberg-Access-Delegation: vended-credentials",
        "X-Client-Version: 1",
        "Idempotency-Key: 0196-uuid7",
        'If-None-Match: W/"e"',
        "Accept-Encoding: gzip, deflate, zstd",
        "X-Twice: 1",
        "X-Twice: 2",
        "Keep-Alive: timeout=5",
        "TE: trailers",
    ]
    await bench.raw(request(bench, "GET", PATH, *headers))
    lines, body = split(bench.catalog.seen[-1])
    assert lines[0] == f"GET {PATH} HTTP/1.1"
    assert lines[1:] == [f"Host: 127.0.0.1:{bench.catalog.port}", *headers[:8]]
    assert body == b""


async def test_headers_named_by_connection_stay_here(bench: Bench) -> None:
    raw = request(bench, "GET", "/v1/x", "X-Hop: 1", "X-End: 2").replace(
        b"Connection: close", b"Connection: close, x-hop"
    )
    await bench.raw(raw)
    assert b"X-Hop" not in bench.catalog.seen[-1]
    assert b"X-End: 2" in bench.catalog.seen[-1]


async def test_an_answer_arrives_as_it_was_sent(bench: Bench) -> None:
    headers = [
        "etag: W/\"1\"",
        "Set-Cookie: a=1",
        "Set-Cookie: b=2",
        "Content-Type: application/json;charset=utf-8",
        "Content-Encoding: gzip",
        "Date: Sat, 21 Nov 2026 00:00:00 GMT",
    ]  # fmt: skip
    zipped = gzip.compress(b'{"id": 9223372036854775807}')
    bench.catalog.script["GET /v1/x"] = said(zipped, "200 Fine", *headers)
    lines, body = split(await bench.raw(request(bench, "GET", "/v1/x")))
    assert lines == [
        "HTTP/1.1 200 Fine",
        *headers,
        f"Content-Length: {len(zipped)}",
        "Connection: close",
    ]
    assert body == zipped


async def test_nothing_is_added_to_a_bare_answer(bench: Bench) -> None:
    bench.catalog.script["GET /v1/x"] = said(b"x")
    lines, _ = split(await bench.raw(request(bench, "GET", "/v1/x")))
    assert lines == ["HTTP/1.1 200 OK", "Content-Length: 1", "Connection: close"]


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b'HTTP/1.1 304 Not Modified\r\nETag: "e"\r\n\r\n'),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 0\r\n\r\n"),
        ("DELETE", b"HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n"),
    ],
)
async def test_answers_without_a_body(bench: Bench, method: str, answer: bytes) -> None:
    bench.catalog.script[f"{method} /v1/x"] = answer
    found = await bench.raw(request(bench, method, "/v1/x"))
    assert found.replace(b"Connection: close\r\n", b"") == answer


async def test_a_chunked_answer_stays_chunked(bench: Bench) -> None:
    bench.catalog.script["GET /v1/x"] = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
    )
    lines, body = split(await bench.raw(request(bench, "GET", "/v1/x")))
    assert lines[1:] == ["Transfer-Encoding: chunked", "Connection: close"]
    assert body.endswith(b"0\r\n\r\n")
    assert b"".join(body.split(b"\r\n")[1::2]) == b"hello world"


async def test_a_chunked_request_stays_chunked(bench: Bench, client: aiohttp.ClientSession) -> None:
    async def pieces():
        yield b"one"
        yield b"two"

    async with client.post(f"{bench.uri}/v1/anything", data=pieces()) as answer:
        assert answer.status == 404
    lines, body = split(bench.catalog.seen[-1])
    assert "Transfer-Encoding: chunked" in lines
    assert not any(line.startswith("Content-Length") for line in lines)
    assert b"onetwo" in body.replace(b"\r\n3\r\n", b"")


async def test_a_zipped_request_is_not_unzipped(
    bench: Bench, client: aiohttp.ClientSession
) -> None:
    zipped = gzip.compress(b"{}")
    headers = {"Content-Encoding": "gzip"}
    async with client.post(f"{bench.uri}/v1/anything", data=zipped, headers=headers):
        pass
    assert bench.catalog.seen[-1].endswith(b"\r\n\r\n" + zipped)


async def test_a_client_that_waits_for_100_continue_is_told_to_go_on(bench: Bench) -> None:
    bench.catalog.script["POST /v1/anything"] = said(b"ok")
    raw = request(bench, "POST", "/v1/anything", "Expect: 100-continue", body=b"12345")
    assert (await bench.raw(raw)).startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
    assert b"Expect" not in bench.catalog.seen[-1]


async def test_half_an_answer_does_not_look_whole(
    bench: Bench, client: aiohttp.ClientSession
) -> None:
    def half(_: bytes) -> bytes:
        raw = said(b"x" * 100)
        return raw[:-50]

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(half(b""))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    assert bench.gateway is not None
    bench.upstream.base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with pytest.raises(aiohttp.ClientError):
        async with client.get(f"{bench.uri}/v1/x") as answer:
            await answer.read()
    server.close()


async def test_long_tokens_pass(bench: Bench, client: aiohttp.ClientSession) -> None:
    token = "t" * 40_000
    async with client.get(f"{bench.uri}/v1/x", headers={"Authorization": token}):
        pass
    assert token.encode() in bench.catalog.seen[-1]


async def test_a_redirect_is_the_clients_business(
    bench: Bench, client: aiohttp.ClientSession
) -> None:
    bench.catalog.script["GET /v1/x"] = said(b"", "307 Go", "Location: http://elsewhere/")
    async with client.get(f"{bench.uri}/v1/x", allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (307, "http://elsewhere/")


async def test_cookies_of_one_client_do_not_reach_the_next(
    bench: Bench, client: aiohttp.ClientSession
) -> None:
    bench.catalog.script["GET /v1/x"] = said(b"", "200 OK", "Set-Cookie: session=1; Path=/")
    for _ in range(2):
        await bench.raw(request(bench, "GET", "/v1/x"))
    assert b"Cookie" not in bench.catalog.seen[-1]


def config(catalog_port: int) -> bytes:
    overrides = {
        "uri": f"http://127.0.0.1:{catalog_port}/",
        "prefix": "main",
        "namespace-separator": "%2E",
    }
    return json.dumps({"defaults": {}, "overrides": overrides}).encode()


@pytest.mark.parametrize("accepted", ["gzip, deflate, zstd", "identity", None])
async def test_config_leads_clients_to_us(bench: Bench, accepted: str | None) -> None:
    body = config(bench.catalog.port)

    def answer(asked: bytes) -> bytes:
        if b"Accept-Encoding: gzip\r\n" in asked:
            return said(gzip.compress(body), "200 OK", "Content-Encoding: gzip")
        assert b"Accept-Encoding: identity\r\n" in asked
        return said(body, "200 OK", 'ETag: "e"')

    bench.catalog.script["GET /v1/config?warehouse=w"] = answer
    headers = [f"Accept-Encoding: {accepted}"] if accepted else []
    lines, found = split(await bench.raw(request(bench, "GET", "/v1/config?warehouse=w", *headers)))
    assert f"Content-Length: {len(found)}" in lines
    if "Content-Encoding: gzip" in lines:
        found = gzip.decompress(found)
    ours = body.replace(f"127.0.0.1:{bench.catalog.port}".encode(), b"gateway.example")
    assert found == ours
    assert bench.separator == "%2E"


async def test_config_behind_a_tls_terminator(bench: Bench) -> None:
    bench.catalog.script["GET /v1/config"] = said(config(bench.catalog.port))
    raw = request(bench, "GET", "/v1/config", "X-Forwarded-Proto: https")
    assert b'"uri": "https://gateway.example/"' in await bench.raw(raw)


async def test_a_refused_config_passes(bench: Bench) -> None:
    bench.catalog.script["GET /v1/config"] = said(b'{"error":{}}', "401 No", "WWW-Authenticate: B")
    lines, body = split(await bench.raw(request(bench, "GET", "/v1/config")))
    assert (lines[0], body) == ("HTTP/1.1 401 No", b'{"error":{}}')
    assert "WWW-Authenticate: B" in lines


async def test_a_catalog_that_is_away(bench: Bench, client: aiohttp.ClientSession) -> None:
    bench.upstream.base = "http://127.0.0.1:1"
    for path in ("/v1/config", "/v1/x"):
        async with client.get(bench.uri + path) as answer:
            error = (await answer.json())["error"]
            assert (answer.status, error["code"]) == (503, 503)
            assert answer.headers["Retry-After"] == "1"  # nothing was sent: try again


async def test_a_read_that_met_a_closing_connection_is_tried_again(
    bench: Bench, client: aiohttp.ClientSession
) -> None:
    answers = iter([None, said(b"ok")])
    bench.catalog.script["GET /v1/x"] = lambda _: next(answers)
    async with client.get(f"{bench.uri}/v1/x") as answer:
        assert await answer.read() == b"ok"


async def test_a_target_that_is_no_path_is_refused(bench: Bench) -> None:
    found = await bench.raw(request(bench, "GET", "http://elsewhere.example/v1/x"))
    assert found.startswith(b"HTTP/1.1 400 ")
    assert not any("elsewhere" in line for line in bench.catalog.lines())


async def test_the_catalogs_answers_are_timed_and_its_failures_counted(bench: Bench) -> None:
    script = bench.catalog.script
    script[f"GET {PATH}"] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
    before = of_catalog()
    await bench.raw(request(bench, "GET", PATH))
    script[f"GET {PATH}"] = None  # it hangs up
    await bench.raw(request(bench, "GET", PATH))
    calls, failed, silent = (b - a for a, b in zip(before, of_catalog(), strict=True))
    assert (calls >= 2, failed, silent) == (True, 1, 1)


def of_catalog() -> tuple[float, ...]:
    name = {"catalog": CATALOG}
    found = (
        REGISTRY.get_sample_value("firnline_catalog_seconds_count", {**name, "method": "GET"}),
        REGISTRY.get_sample_value("firnline_catalog_errors_total", {**name, "status": "503"}),
        REGISTRY.get_sample_value("firnline_catalog_errors_total", {**name, "status": "none"}),
    )
    return tuple(one or 0.0 for one in found)
