"""Probes whether a part of the embedded stack answers. A frozen process is as `ready` as it was
before."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from firnline_local.processes.ports import LOOPBACK
from firnline_local.stack.state import StackRecord

TIMEOUT_S = 2.0
CONSOLE_S = 5.0  # it waits for its Redis as long as that may take, and then says so
NO_ANSWER = "no answer"
# ApiVersions, version 0, without a client id (Kafka's protocol guide): any broker answers it.
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_open = build_opener(ProxyHandler({})).open


def probe_parts(record: StackRecord) -> dict[str, str]:
    """Probe every part that is ready. Return by name: '' if it answers, else what is wrong."""
    ready = [name for name, part in record.parts.items() if part.life == "ready"]
    with ThreadPoolExecutor(max(len(ready), 1)) as pool:
        answers = pool.map(lambda name: _probe_part(name, record.ports), ready)
        return dict(zip(ready, answers, strict=True))


def _probe_part(part: str, ports: dict[str, int]) -> str:
    asks: dict[str, Callable[[], str]] = {
        "redis": lambda: _probe_port(ports["redis"], b"PING\r\n"),
        "kafka": lambda: _probe_port(ports["kafka"], API_VERSIONS),
        "catalog": lambda: _probe_http(ports["catalog"], "/v1/config", TIMEOUT_S),
        "console": lambda: _probe_http(ports["console"], "/healthz", CONSOLE_S),
    }
    try:
        return asks.get(
            part, lambda: _probe_http(ports[f"{part}-metrics"], "/metrics", TIMEOUT_S)
        )()
    except KeyError:
        return ""  # nowhere to ask
    except (OSError, HTTPException):
        return NO_ANSWER


def _probe_port(port: int, request: bytes) -> str:
    with socket.create_connection((LOOPBACK, port), TIMEOUT_S) as connection:
        connection.sendall(request)
        return "" if connection.recv(1) else NO_ANSWER


def _probe_http(port: int, path: str, timeout_s: float) -> str:
    try:
        with _open(f"http://{LOOPBACK}:{port}{path}", timeout=timeout_s):
            return ""
    except HTTPError as error:
        return error.read(200).decode(errors="replace") if error.code == 503 else ""
