"""Recorded calls, and a gateway in this process over a scripted catalog."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest
from firnline_adapters.config.settings import ListenAddress
from firnline_adapters.in_memory import MemoryBroker, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.records.events import TableCommitted
from firnline_gateway import bootstrap
from firnline_gateway.handlers import Gateway
from firnline_gateway.middlewares.commit_capture import CommitCapture
from firnline_gateway.middlewares.config_rewriter import ConfigRewriter
from firnline_gateway.middlewares.middleware import Middleware
from firnline_gateway.outbox.journal import OutboxJournal
from firnline_gateway.proxy.body_memory import MemoryBudget
from firnline_gateway.proxy.upstream import Upstream
from firnline_gateway.rest.call import Call
from firnline_gateway.settings import GatewaySettings
from firnline_local.processes.ports import free_port

RECORDED = Path(__file__).parent / "recorded"
SNAPSHOT = 7221073864782945431
UUID = "d0ac8717-9593-4b4d-80f6-ebf1431529fb"
TABLE = "/v1/namespaces/n/tables/t"
LIMIT = 256 * 1024  # of a body, at the gateway `narrow`
Client = aiohttp.ClientSession
M = TypeVar("M", bound=Middleware)


@cache
def _recorded(client: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((RECORDED / f"{client}.json").read_text())
    return rows


@pytest.fixture
def recorded() -> Callable[[str, int], Call]:
    """One call of a real client, as it went through the gateway to the reference catalog."""

    def nth(client: str, index: int) -> Call:
        row = _recorded(client)[index]
        body = row["body"].encode()
        return Call(f"{client}-{index}", row["method"], row["path"], body, 0, "%2E")

    return nth


@dataclass
class Catalog:
    """A catalog that sends exactly what it is told to: raw bytes per request, in turn.

    `script` maps a request's first line to what is sent back; None closes the connection.
    """

    port: int = 0
    seen: list[bytes] = field(default_factory=list)
    script: dict[str, Callable[[bytes], bytes | None] | bytes | None] = field(default_factory=dict)
    hold: asyncio.Event | None = None  # answers to POST wait for it
    reached: asyncio.Event = field(default_factory=asyncio.Event)  # a POST has arrived

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await _request(reader):
                self.seen.append(request)
                await self._answer(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        line = request.split(b"\r\n")[0].decode().removesuffix(" HTTP/1.1")
        if line.startswith("POST"):
            self.reached.set()
            if self.hold:
                await self.hold.wait()
        whole = line.removesuffix("?snapshots=refs")  # this catalog never leaves snapshots out
        answer = self.script.get(line, self.script.get(whole, not_found))
        raw = answer(request) if callable(answer) else answer
        if raw is None:
            raise ConnectionResetError
        writer.write(raw)
        await writer.drain()

    def lines(self) -> list[str]:
        """First lines of the requests so far."""
        return [request.split(b" HTTP/1.1\r\n")[0].decode() for request in self.seen]


async def _request(reader: asyncio.StreamReader) -> bytes:
    """The raw bytes of one request, to its end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    lower = head.lower()
    if b"content-length:" in lower:
        size = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
        return head + await reader.readexactly(size)
    if b"transfer-encoding: chunked" in lower:
        body = b""
        while not body.endswith(b"0\r\n\r\n"):
            body += await reader.readuntil(b"\r\n")
        return head + body
    return head


def said(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """A raw answer with a length."""
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def append(uuid: str | None = UUID, snapshot: int = SNAPSHOT) -> bytes:
    requirements = [{"type": "assert-table-uuid", "uuid": uuid}] if uuid else []
    body = {
        "requirements": requirements,
        "updates": [
            {
                "action": "add-snapshot",
                "snapshot": {
                    "snapshot-id": snapshot,
                    "sequence-number": 1,
                    "timestamp-ms": 1,
                    "manifest-list": "file:/m",
                    "summary": {"operation": "append"},
                },
            },
            {
                "action": "set-snapshot-ref",
                "ref-name": "main",
                "type": "branch",
                "snapshot-id": snapshot,
            },
        ],
    }
    return json.dumps(body).encode()


def head(snapshot: int = SNAPSHOT, uuid: str = UUID, committed_ms: int | None = None) -> bytes:
    """A loaded table whose main is at a snapshot of this moment."""
    at_ms = bootstrap.now_ms() if committed_ms is None else committed_ms
    kept = {"snapshot-id": snapshot, "timestamp-ms": at_ms, "manifest-list": "file:/m"}
    metadata = {
        "table-uuid": uuid,
        "last-updated-ms": at_ms,
        "snapshots": [kept],
        "refs": {"main": {"snapshot-id": snapshot, "type": "branch"}},
    }
    return said(json.dumps({"metadata": metadata}).encode())


def loaded(snapshot: int | None = SNAPSHOT, uuid: str = UUID) -> bytes:
    """A loaded table, whose snapshot has no moment."""
    snapshots = [{"snapshot-id": snapshot, "manifest-list": "file:/m"}] if snapshot else []
    return said(json.dumps({"metadata": {"table-uuid": uuid, "snapshots": snapshots}}).encode())


def raw(target: bytes, body: bytes, *headers: bytes, method: bytes = b"POST") -> bytes:
    """A request as it is sent."""
    lines = [method + b" " + target + b" HTTP/1.1", b"Host: x", b"Connection: close", *headers]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body)]) + b"\r\n\r\n" + body


def not_found(request: bytes) -> bytes:
    return said(b'{"error":{"code":404}}', "404 Not Found", "Content-Type: application/json")


@pytest.fixture
async def catalog() -> AsyncIterator[Catalog]:
    found = Catalog()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0, limit=1 << 24)
    found.port = server.sockets[0].getsockname()[1]
    yield found
    server.close()


@dataclass
class Bench:
    """A gateway over the scripted catalog, and where its events end up."""

    catalog: Catalog
    broker: MemoryBroker
    settings: GatewaySettings
    publisher: Any
    gateway: Gateway | None = None

    @property
    def uri(self) -> str:
        return f"http://{self.settings.listen_address}"

    @property
    def address(self) -> tuple[str, int]:
        return self.settings.listen_address

    @property
    def upstream(self) -> Upstream:
        assert self.gateway is not None
        return self.gateway._upstream

    @property
    def budget(self) -> MemoryBudget:
        assert self.gateway is not None
        return self.gateway._budget

    @property
    def journal(self) -> OutboxJournal:
        return self.middleware(CommitCapture)._journal

    @property
    def separator(self) -> str:
        return self.middleware(ConfigRewriter).separator

    def middleware(self, kind: type[M]) -> M:
        assert self.gateway is not None
        [found] = [one for one in self.gateway._chain if isinstance(one, kind)]
        return found

    def events(self) -> list[TableCommitted]:
        return self.broker.records("table-commits")

    async def until(self, count: int) -> list[TableCommitted]:
        """Wait for so many events (the pump is a thread of its own)."""
        async with asyncio.timeout(20):
            while len(self.events()) < count:
                await asyncio.sleep(0.01)
        return self.events()

    async def raw(self, request: bytes) -> bytes:
        """Send bytes, read until the other side closes."""
        reader, writer = await asyncio.open_connection(*self.address)
        writer.write(request)
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return answer


async def post(
    client: Client, bench: Bench, body: object, path: str = TABLE, **headers: str
) -> tuple[int, bytes]:
    async with client.post(bench.uri + path, data=body, headers=headers) as answer:
        return answer.status, await answer.read()


def forgotten(bench: Bench) -> bool:
    """True if the outbox file holds no call any more."""
    bench.journal.depth().result(20)  # all steps before it are done
    with sqlite3.connect(Path(bench.settings.state_dir) / "outbox.db") as file:
        return bool(file.execute("SELECT count(*) FROM calls").fetchone() == (0,))


async def in_time(true: Callable[[], bool]) -> None:
    """Wait until it is."""
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.01)


@pytest.fixture
def make_bench(catalog: Catalog, tmp_path: Path) -> Callable[..., Bench]:
    def make(own: str = "", **changed: Any) -> Bench:
        """`own`: what more the gateway is told of the catalog."""
        settings = GatewaySettings(
            upstream_uri=f"http://127.0.0.1:{catalog.port}",
            kafka="-",
            listen_address=ListenAddress("127.0.0.1", free_port()),
            state_dir=str(tmp_path / "state"),
            config=str(tmp_path / "firnline.toml"),
        )
        Path(str(settings.config)).write_text(f"[catalogs.lake]\nuri = 'http://g'\n{own}")
        broker = MemoryBroker()
        return Bench(catalog, broker, replace(settings, **changed), MemoryPublisher(broker))

    return make


@pytest.fixture
async def bench(make_bench: Callable[..., Bench]) -> AsyncIterator[Bench]:
    made = make_bench()
    async with bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")) as gateway:
        made.gateway = gateway.catalogs["lake"]
        yield made


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        yield session


@pytest.fixture
async def narrow(make_bench: Callable[..., Bench]) -> AsyncIterator[Bench]:
    """A gateway that keeps little."""
    made = make_bench(body_bytes=LIMIT, bodies_bytes=4 * LIMIT, own="token = 'our-own'")
    async with bootstrap.run_gateways(made.settings, made.publisher, Log("gateway")) as gateway:
        made.gateway = gateway.catalogs["lake"]
        yield made
