"""A gateway in a thread of this process, and what it has published."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from firnline_adapters.config.config_file import ConfigFile
from firnline_adapters.config.settings import ListenAddress
from firnline_adapters.in_memory import MemoryBroker, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.records.events import TableCommitted
from firnline_gateway import bootstrap
from firnline_gateway.settings import GatewaySettings
from firnline_local.processes.ports import free_port

WAIT_S = 30.0


@dataclass(frozen=True)
class GatewayThread:
    """`uri`: of its root; a catalog is below its name."""

    uri: str
    broker: MemoryBroker

    def events(self, count: int) -> list[TableCommitted]:
        """All so far, as soon as there are so many."""
        until = time.monotonic() + WAIT_S
        while len(found := self.broker.records("table-commits")) < count:
            assert time.monotonic() < until, found
            time.sleep(0.05)
        return found


@contextmanager
def gateway_before(
    upstreams: Mapping[str, str], folder: Path, more: Mapping[str, str] = {}
) -> Iterator[GatewayThread]:
    """`upstreams`: URI of each catalog by its name. `more`: what else is said of each."""
    port, broker = free_port(), MemoryBroker()
    uri = f"http://127.0.0.1:{port}"
    settings = GatewaySettings(
        kafka="-",
        listen_address=ListenAddress("127.0.0.1", port),
        state_dir=str(folder / "gateway"),
    )
    catalogs = {
        name: {"uri": f"{uri}/{name}", "firnline.upstream-uri": one, **more}
        for name, one in upstreams.items()
    }
    vars(settings)["file"] = ConfigFile("firnline.toml", catalogs)  # as if it had been read
    ready, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with bootstrap.run_gateways(settings, MemoryPublisher(broker), Log("gateway")):
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(WAIT_S)
        yield GatewayThread(uri, broker)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
