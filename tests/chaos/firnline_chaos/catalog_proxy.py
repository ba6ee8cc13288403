"""Stands between the gateways and the catalog: sees every commit, and spoils some of them.

What it sees is the run's memory: which request made which snapshot, even where the answer is lost
on the way, even where the snapshot is expired a moment later.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from email.message import Message
from enum import StrEnum
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LOOPBACK = "127.0.0.1"
PATIENCE_S = 60.0  # with the catalog: it may be paused for a while
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}
DROPPED = HOP_BY_HOP | {"accept-encoding"}
Answer = tuple[int, list[tuple[str, str]], bytes]
Gate = Callable[[str, Message], Answer | None]
"""Given path and headers, it answers itself, or lets pass."""


class Spoil(StrEnum):
    """What becomes of one commit."""

    LOSE_REQUEST = "lose_request"  # never reaches the catalog; the connection closes
    LOSE_ANSWER = "lose_answer"  # applied; the connection closes
    HALF_ANSWER = "half_answer"  # applied; half of the answer comes
    REPEAT = "repeat"  # sent twice; the answer is the first one
    REPEAT_LAST = "repeat_last"  # sent twice; the answer is the second one: 409, though applied
    ERROR_500 = "error_500"  # applied, and answered with 500
    ERROR_502 = "error_502"  # not applied
    ERROR_503 = "error_503"  # not applied
    ERROR_504 = "error_504"  # applied
    DELAY = "delay"  # applied after a while
    LATE_ANSWER = "late_answer"  # applied at once, answered after a while


APPLIED_ERRORS = {Spoil.ERROR_500: 500, Spoil.ERROR_504: 504}
REFUSALS = {Spoil.ERROR_502: 502, Spoil.ERROR_503: 503}
# A second copy's 409 tells a writer of Iceberg's own library that nothing was applied: it would do
# its work twice, and remove the manifests of the first time. No fault of Firnline's, which must
# stand it itself (docs/decisions/0009).
ONLY_FIRNLINE = frozenset({Spoil.REPEAT_LAST})


@dataclass
class Order:
    """The next `times` commits that fit are spoiled."""

    spoil: Spoil
    times: int
    seconds: float = 0.0
    firnlines: bool = False  # of Firnline's commits alone
    done: int = 0


@dataclass(frozen=True)
class Sent:
    """One commit request, by what it says."""

    number: int
    table: str
    snapshots: tuple[int, ...]
    firnlines: bool


@dataclass
class Journal:
    """What came through. `see` and `propose` are given (table name, snapshots as JSON): those that
    a table has, and those that a commit wants to add."""

    see: Callable[[str, Iterable[Any]], None] = lambda *_: None
    propose: Callable[[str, Iterable[Any]], None] = lambda *_: None  # before it is sent
    sent: list[Sent] = field(default_factory=list)
    spoiled: dict[str, int] = field(default_factory=dict)


class CatalogProxy(ThreadingHTTPServer):
    """Serve on a thread of its own. `port` is the catalog's."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int, journal: Journal) -> None:
        super().__init__((LOOPBACK, 0), _Call)
        self.upstream, self.journal = port, journal
        self.lock = threading.Lock()
        self.orders: list[Order] = []
        self.cut = False
        self.gate: Gate = lambda *_: None
        self._open: set[socket.socket] = set()

    @property
    def uri(self) -> str:
        return f"http://{LOOPBACK}:{self.server_address[1]}"

    def spoil(self, order: Order) -> None:
        with self.lock:
            self.orders.append(order)

    def cut_off(self) -> None:
        """Break every connection, and every new one, until `mend`."""
        self.cut = True
        with self.lock:
            broken = list(self._open)
        for one in broken:
            _shut(one)

    def mend(self) -> None:
        """The way is free again."""
        self.cut = False

    def calm(self) -> None:
        """From now on everything is passed on."""
        self.mend()
        with self.lock:
            self.orders.clear()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        with self.lock:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self.lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return not self.cut

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a peer that was killed; its own log says so

    def taken(self, sent: Sent) -> Order | None:
        """What is to be done with this commit."""
        with self.lock:
            for order in self.orders:
                if order.firnlines and not sent.firnlines:
                    continue
                order.done += 1
                if order.done >= order.times:
                    self.orders.remove(order)
                name = str(order.spoil)
                self.journal.spoiled[name] = self.journal.spoiled.get(name, 0) + 1
                return order
        return None


class _Call(BaseHTTPRequestHandler):
    server: CatalogProxy
    protocol_version = "HTTP/1.1"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._pass
        raise AttributeError(name)

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if refused := self.server.gate(self.path, self.headers):
            return self._give(*refused)
        sent = self._commit(body)
        order = self.server.taken(sent) if sent else None
        try:
            answer = self._spoiled(order, body) if order else self._forwarded(body)
        except (OSError, HTTPException):
            answer = None  # the catalog is away
        if answer is None or self.server.cut:
            return self._hang_up()
        return self._give(*answer, half=order is not None and order.spoil is Spoil.HALF_ANSWER)

    def _commit(self, body: bytes) -> Sent | None:
        if self.command != "POST" or "/tables/" not in self.path or self.path.endswith("/metrics"):
            return None
        added = _added(body)
        ids = tuple(one["snapshot-id"] for one in added)
        with self.server.lock:
            number = len(self.server.journal.sent)
            name = self.path.rsplit("/", 1)[1]
            sent = Sent(number, name, ids, b'"firnline.task-id"' in body)
            self.server.journal.sent.append(sent)
        self.server.journal.propose(name, added)
        return sent

    def _spoiled(self, order: Order, body: bytes) -> Answer | None:
        spoil = order.spoil
        if spoil is Spoil.LOSE_REQUEST:
            return None
        if spoil in REFUSALS:
            return _error(REFUSALS[spoil])
        if spoil is Spoil.DELAY:
            time.sleep(order.seconds)
        answer = self._forwarded(body)
        if spoil in (Spoil.REPEAT, Spoil.REPEAT_LAST):
            again = self._forwarded(body)
            answer = again if spoil is Spoil.REPEAT_LAST else answer
        if spoil is Spoil.LATE_ANSWER:
            time.sleep(order.seconds)
        if spoil in APPLIED_ERRORS:
            return _error(APPLIED_ERRORS[spoil])
        return None if spoil is Spoil.LOSE_ANSWER else answer

    def _forwarded(self, body: bytes) -> Answer:
        connection = HTTPConnection(LOOPBACK, self.server.upstream, timeout=PATIENCE_S)
        try:
            headers = {k: v for k, v in self.headers.items() if k.lower() not in DROPPED}
            headers["Accept-Encoding"] = "identity"  # answers are read here
            connection.request(self.command, self.path, body or None, headers)
            answer = connection.getresponse()
            found = answer.status, _headers(answer), answer.read()
        finally:
            connection.close()
        self._see(found, body)
        return found

    def _see(self, answer: Answer, asked: bytes) -> None:
        """Every answer about a table tells of snapshots. An accepted commit's are seen as they were
        sent: some catalogs show no parent."""
        status, _, body = answer
        if status == 200 and "/tables/" in self.path and b'"metadata"' in body:
            metadata = json.loads(body)["metadata"]
            name = self.path.split("/tables/")[1].split("/")[0].split("?")[0]
            if self.command == "POST" and not self.path.endswith("/metrics"):
                self.server.journal.see(name, _added(asked))
            self.server.journal.see(name, metadata.get("snapshots") or [])

    def _give(
        self, status: int, headers: list[tuple[str, str]], body: bytes, half: bool = False
    ) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if half else body)
        if half:
            self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        _shut(self.connection)

    def log_message(self, *_: object) -> None:
        pass


def _added(body: bytes) -> list[Any]:
    """Snapshots that a commit adds."""
    updates = json.loads(body).get("updates", [])
    return [one["snapshot"] for one in updates if one["action"] == "add-snapshot"]


def _headers(answer: HTTPResponse) -> list[tuple[str, str]]:
    return [(k, v) for k, v in answer.getheaders() if k.lower() not in HOP_BY_HOP]


def _error(status: int) -> Answer:
    body = {"error": {"message": "chaos", "type": "Chaos", "code": status}}
    return status, [("Content-Type", "application/json")], json.dumps(body).encode()


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it was closed already
