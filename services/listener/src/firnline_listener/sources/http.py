"""`POST /v1/commits`: writers and catalogs ring by HTTP, with a key."""

from __future__ import annotations

import asyncio
import hmac
import queue
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from firnline_adapters.config.settings import LOOPBACK
from firnline_adapters.observability import metrics
from firnline_domain.errors import Misconfigured

from firnline_listener.payloads.registry import PAYLOADS, Parse
from firnline_listener.port import Doorbell, Surroundings
from firnline_listener.sources.openapi import describe_api

PATH = "/v1/commits"
BODY_BYTES = 1 << 20
MAX_WAITING = 10_000  # doorbells; beyond, callers are asked to come again
RETRY_S = "5"
START_S = 10.0
MIN_KEY = 16  # characters


@dataclass(frozen=True)
class Webhooks:
    """What the endpoint accepts. `key`: "" = from anyone, on loopback alone."""

    catalog: str
    only: str
    key: str
    parse: Parse


class HttpSource:
    """A `DoorbellSource` with a server on a thread of its own. It forgets what it has accepted at a
    crash: the sweep finds it."""

    def __init__(self, hooks: Webhooks, where: Surroundings) -> None:
        """Begin to listen. Raises Misconfigured if that is not possible."""
        self._hooks, self._where = hooks, where
        self._waiting: queue.Queue[Doorbell] = queue.Queue(MAX_WAITING)
        self._loop = asyncio.new_event_loop()
        self._began: queue.Queue[OSError | None] = queue.Queue()
        self._stop = asyncio.Event()
        self.port = 0
        threading.Thread(
            target=self._loop.run_until_complete, args=[self._serve()], daemon=True
        ).start()
        if (error := self._began.get(timeout=START_S)) is not None:
            text = f"FIRNLINE_LISTEN_ADDRESS={where.serves_at}: {error.strerror or error}"
            raise Misconfigured(text) from error

    def poll(self, timeout_s: float) -> Sequence[Doorbell]:
        found = list[Doorbell]()
        with suppress(queue.Empty):
            found.append(self._waiting.get(timeout=timeout_s))
            while True:
                found.append(self._waiting.get_nowait())
        return found

    def settle(self, position: Any) -> None:
        """Keep nothing: the caller has its answer."""

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)

    async def _serve(self) -> None:
        app = web.Application(client_max_size=BODY_BYTES)
        app.router.add_post(PATH, self._take_commits)
        app.router.add_get("/v1/openapi.json", self._show_api)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, *self._where.serves_at, ssl_context=self._where.tls)
            await site.start()
            self.port = runner.addresses[0][1]
            self._began.put(None)
            await self._stop.wait()
        except OSError as error:
            self._began.put(error)
        finally:
            await runner.cleanup()

    async def _show_api(self, _: web.Request) -> web.Response:
        return web.json_response(describe_api())

    async def _take_commits(self, request: web.Request) -> web.Response:
        if not self._is_allowed(request.headers.get("Authorization", "")):
            headers = {"WWW-Authenticate": "Bearer"}
            return _refuse(401, "send the key as `Authorization: Bearer KEY`", headers)
        body = await request.read()  # raises 413
        headers = {name.lower(): one for name, one in request.headers.items()}
        try:
            doorbells = self._hooks.parse(headers, body, self._hooks.catalog, self._hooks.only)
        except (ValueError, RecursionError) as error:
            metrics.count("doorbells_dropped", source=self._where.name)
            return _refuse(400, str(error))
        if self._waiting.qsize() + len(doorbells) > MAX_WAITING:
            return _refuse(503, "too many commits wait", {"Retry-After": RETRY_S})
        for one in doorbells:
            self._waiting.put_nowait(one)
        return web.json_response({"accepted": len(doorbells)}, status=202)

    def _is_allowed(self, authorization: str) -> bool:
        if not self._hooks.key:
            return True
        scheme, _, key = authorization.partition(" ")
        same = hmac.compare_digest(key.strip().encode(), self._hooks.key.encode())
        return same and scheme.lower() == "bearer"


def _refuse(status: int, why: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.json_response({"error": why}, status=status, headers=headers)


def open_http(properties: Mapping[str, str], where: Surroundings) -> HttpSource:
    """Open the endpoint of a section. Raises Misconfigured."""
    section, key = f"[sources.{where.name}]", properties.get("key", "")
    payload = properties.get("payload", "commits")
    if payload not in PAYLOADS:
        raise Misconfigured(f"{section} payload={payload!r}: write one of {', '.join(PAYLOADS)}")
    if len(key) < MIN_KEY and (key or where.serves_at.host != LOOPBACK):
        raise Misconfigured(
            f"{section} key: set {MIN_KEY} or more characters. An endpoint without a key needs "
            f"FIRNLINE_LISTEN_ADDRESS={LOOPBACK}:PORT, and it is {where.serves_at}"
        )
    catalog, only = where.catalog_of(properties), properties.get("only", "")
    return HttpSource(Webhooks(catalog, only, key, PAYLOADS[payload]), where)
