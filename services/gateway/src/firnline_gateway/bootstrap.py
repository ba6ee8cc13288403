"""The gateway's clients and threads: built here, started in order, stopped in reverse."""

from __future__ import annotations

import asyncio
import fcntl
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from aiohttp import web
from firnline_adapters.clock import now_ms
from firnline_adapters.config.tls import server_context
from firnline_adapters.observability.health import HEALTH, say_ready
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import Misconfigured
from firnline_domain.ports import Publisher

from firnline_gateway.chain import open_chain
from firnline_gateway.handlers import Gateway, Gateways
from firnline_gateway.middlewares.middleware import Parts, ProcessStack
from firnline_gateway.outbox.journal import OutboxJournal
from firnline_gateway.outbox.sender import OutboxSender
from firnline_gateway.outbox.sqlite import SqliteOutbox
from firnline_gateway.proxy.body_memory import MemoryBudget
from firnline_gateway.proxy.upstream import HEADER_BYTES, Upstream
from firnline_gateway.settings import GatewaySettings

LINE_BYTES = 16 * 1024  # of a request's first line; it is kept while the catalog thinks
READ_BYTES = 64 * 1024  # that wait in a client's connection, and once more while it is told to stop
DRAIN_S = 30.0  # for calls in flight at SIGTERM; the catalog is still at work on them
LAST_FLUSH_S = 10.0  # then for the broker; what it does not take stays in the outbox file


async def serve(
    settings: GatewaySettings, publisher: Publisher, log: Log, statistics: Publisher | None = None
) -> None:
    """Serve until SIGTERM or SIGINT: finish the calls in flight, then flush the outbox."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with run_gateways(settings, publisher, log, statistics):
        scheme = "https" if settings.tls_certificate else "http"
        say_ready(log, uri=f"{scheme}://{settings.listen_address}")
        await stop.wait()
        HEALTH.set_ended()
        log.info("stopping")


@asynccontextmanager
async def run_gateways(
    settings: GatewaySettings, publisher: Publisher, log: Log, statistics: Publisher | None = None
) -> AsyncIterator[Gateways]:
    """Yield gateways that listen while the block runs. `statistics`: a publisher for what may be
    lost, so that `flush` of the other one does not wait for it."""
    state = Path(settings.state_dir)
    with exclusive_state_dir(state, log):
        journal = OutboxJournal(SqliteOutbox(state / "outbox.db"), log, now_ms)
        sender = OutboxSender(journal, publisher, log, now_ms)
        sender.start()
        budget = MemoryBudget(settings.bodies_bytes)
        try:
            async with ProcessStack() as stack:
                shared = (settings, journal, statistics or publisher, log, now_ms, stack)
                gateways = Gateways(
                    {
                        name: await stack.enter_async_context(
                            serve_catalog(
                                Parts(*shared, Upstream(catalog, settings.upstream_timeout_s)),
                                budget,
                            )
                        )
                        for name, catalog in settings.upstreams.items()
                    },
                    settings.mounts_catalogs,
                )
                await stack.enter_async_context(run_server(gateways, settings))
                yield gateways
        finally:
            sent = await asyncio.to_thread(sender.stop, LAST_FLUSH_S)
            log.info("stopped", outbox="empty" if sent else "kept for the next start")
            journal.stop(LAST_FLUSH_S)


@asynccontextmanager
async def serve_catalog(parts: Parts, budget: MemoryBudget) -> AsyncIterator[Gateway]:
    """Pass on the calls to one catalog while the block runs; then wait for their remaining work."""
    try:
        async with open_chain(parts) as chain:
            yield Gateway(parts.upstream, chain, budget, parts.settings.body_bytes)
    finally:
        await parts.upstream.close()


@asynccontextmanager
async def run_server(gateway: Gateways, settings: GatewaySettings) -> AsyncIterator[None]:
    """Run the HTTP server; at its end wait for the calls in flight. Raises Misconfigured if it
    cannot listen."""
    server = web.Server(
        gateway,
        auto_decompress=False,
        access_log=None,
        max_line_size=LINE_BYTES,
        max_field_size=HEADER_BYTES,
        read_bufsize=READ_BYTES,
    )
    runner = web.ServerRunner(server, shutdown_timeout=DRAIN_S)
    await runner.setup()
    try:
        try:
            tls = server_context(settings.tls_certificate, settings.tls_key)
            await web.TCPSite(runner, *settings.listen_address, ssl_context=tls).start()
        except OSError as error:
            raise Misconfigured(f"FIRNLINE_LISTEN_ADDRESS: {error.strerror or error}") from error
        yield
    finally:
        await runner.cleanup()


@contextmanager
def exclusive_state_dir(directory: Path, log: Log) -> Iterator[None]:
    """Own the state directory. Raises Misconfigured if another gateway does. A directory that
    cannot be written is only logged: writers need the gateway more than the gateway needs its
    disk."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "gateway.lock").open("a")
    except OSError as error:
        log.error("state_dir_unusable", directory=directory, why=error)
        yield
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Misconfigured(
                f"FIRNLINE_STATE_DIR={directory} is in use by another gateway; give each its own"
            ) from None
        yield
