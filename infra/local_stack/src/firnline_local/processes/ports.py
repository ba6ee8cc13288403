"""Free loopback ports."""

from __future__ import annotations

import random
import socket

LOOPBACK = "127.0.0.1"
# Below Linux's ephemeral range (32768-60999): no outgoing connection takes a port that a
# restarting server is about to bind again.
RANGE = range(20000, 32000)
TRIES = 200


class NoFreePort(RuntimeError):
    """Two hundred random ports were all taken."""


def is_free(port: int) -> bool:
    """Return whether a server could listen on it now (ports in TIME_WAIT count as free)."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def is_open(port: int, timeout_s: float = 0.2, host: str = LOOPBACK) -> bool:
    """Return whether a process listens on it."""
    try:
        socket.create_connection((host, port), timeout_s).close()
    except OSError:
        return False
    return True


def free_port(taken: frozenset[int] = frozenset()) -> int:
    """Return a port that no process listens on and that is not in `taken`. Raises NoFreePort."""
    for _ in range(TRIES):
        port = random.choice(RANGE)
        if port not in taken and is_free(port):
            return port
    raise NoFreePort(f"{TRIES} random ports of {RANGE.start}-{RANGE.stop} were all taken")
