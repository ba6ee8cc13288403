"""Firnline's gateway as a process of its own; what it publishes is kept by nobody."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from firnline_adapters.config.settings import ListenAddress
from firnline_adapters.in_memory import MemoryBroker, MemoryPublisher
from firnline_adapters.observability.logs import start_logging
from firnline_gateway.bootstrap import serve
from firnline_gateway.settings import GatewaySettings
from firnline_local.processes.command import Command
from firnline_local.servers import catalog


def command(folder: Path, upstream: str, port: int) -> Command:
    """A gateway before a catalog."""
    return Command(
        name="gateway",
        argv=(sys.executable, "-m", "bench.rewrite.gateway_side", upstream, str(port), str(folder)),
        cwd=Path.cwd(),
        ready=catalog.make_probe(catalog.uri(port)),
    )


if __name__ == "__main__":
    _, _upstream, _port, _folder = sys.argv
    _settings = GatewaySettings(
        upstream_uri=_upstream,
        kafka="-",
        listen_address=ListenAddress("127.0.0.1", int(_port)),
        state_dir=_folder,
    )
    _publisher = MemoryPublisher(MemoryBroker())
    asyncio.run(serve(_settings, _publisher, start_logging("gateway")))
