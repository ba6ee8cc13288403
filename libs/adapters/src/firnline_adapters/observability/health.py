"""`/healthz`, `/readyz` and `/metrics` of a service, by one small server.

Healthy: the process answers. Ready: it has said so, and what it needs answers now. What it can do
without is shown and does not count.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import make_wsgi_app

from firnline_adapters.config.redaction import redact
from firnline_adapters.config.settings import ListenAddress
from firnline_adapters.observability.logs import Log

Check = Callable[[], object]
KEPT_S = 2.0  # an answer counts so long: whoever asks often does not ask what we need as often
TRY_S = 2.0
OK = "ok"


@dataclass
class _Need:
    check: Check
    is_needed: bool
    asked_s: float = float("-inf")
    answer: str = ""


class ServiceHealth:
    """Dependencies of a service, and whether it has begun to serve."""

    def __init__(self) -> None:
        self._needs: dict[str, _Need] = {}
        self._asking = threading.Lock()
        self._began = False

    def add_requirement(self, name: str, check: Check) -> None:
        """Add a dependency: not ready while `check` raises."""
        self._needs[name] = _Need(check, is_needed=True)

    def add_optional(self, name: str, check: Check) -> None:
        """Add a dependency that is shown, and that the service does without."""
        self._needs[name] = _Need(check, is_needed=False)

    def set_serving(self) -> None:
        """Note that the service serves."""
        self._began = True

    def set_ended(self) -> None:
        """Note that the service takes no more."""
        self._began = False

    def report(self) -> tuple[bool, dict[str, str]]:
        """Return (is ready, what each has answered)."""
        with self._asking:
            needs = self._needs.copy()  # others are added while a check runs
            answers = {name: _run_check(need) for name, need in needs.items()}
        ready = all(answers[name] == OK for name, need in needs.items() if need.is_needed)
        return ready and self._began, {"service": OK if self._began else "not serving", **answers}


def _run_check(need: _Need) -> str:
    now = time.monotonic()
    if now - need.asked_s >= KEPT_S:
        try:
            need.check()
            need.answer = OK
        except Exception as error:  # whatever it is, it does not answer
            need.answer = redact(str(error))
        need.asked_s = time.monotonic()
    return need.answer


HEALTH = ServiceHealth()  # of this process


def say_ready(log: Log, **facts: Any) -> None:
    """Log that the service is ready; `/readyz` reports it from now on."""
    HEALTH.set_serving()
    log.info("ready", **facts)


def http_answers(uri: str, tls: ssl.SSLContext | None = None) -> Check:
    """Return a check that raises if a catalog does not answer, or with a status of 500 or more; a
    refusal is an answer. `tls`: certificates to trust and to present."""
    place = f"{uri.rstrip('/')}/v1/config"

    def check_response() -> None:
        try:
            urllib.request.urlopen(place, timeout=TRY_S, context=tls).close()
        except urllib.error.HTTPError as error:
            if error.code >= 500:
                raise

    return check_response


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Drop the line: requests are not logged."""


def serve_health(address: ListenAddress, health: ServiceHealth = HEALTH) -> None:
    """Answer on a thread of its own until the process ends. Raises OSError."""
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    family = type("Server", (_Server,), {"address_family": found[0][0]})
    server: WSGIServer = make_server(
        address.host, address.port, wsgi_application(health), family, _Silent
    )
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()


def wsgi_application(health: ServiceHealth) -> Callable[..., Iterable[bytes]]:
    """Return the WSGI application with the three pages."""
    metrics: Any = make_wsgi_app()

    def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/healthz":
            return _send_json(start, True, {"service": OK})
        if path == "/readyz":
            return _send_json(start, *health.report())
        if path in ("/", "/metrics"):
            pages: Iterable[bytes] = metrics(environ, start)
            return pages
        start("404 Not Found", [])
        return [b""]

    return answer


def _send_json(start: Any, fine: bool, body: dict[str, str]) -> Iterable[bytes]:
    status = "200 OK" if fine else "503 Service Unavailable"
    start(status, [("Content-Type", "application/json")])
    return [json.dumps(body).encode() + b"\n"]
