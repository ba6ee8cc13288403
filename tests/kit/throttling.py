"""A store that is asked too much: it answers 503 SlowDown a few times, or to a share of what it is
asked, then does what was asked."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from firnline_local.processes.ports import LOOPBACK

SLOW_DOWN = (
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
PATIENCE_S = 30.0  # with the store


class ThrottledStore(ThreadingHTTPServer):
    """Before another one. The client's `Host` is passed on: its signature is of that.

    `refusals`: of each method and path the first so many; `share`: of everything, while it is set.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, upstream: str, refusals: int = 0) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.place = urlsplit(upstream).netloc
        self.refusals, self.share = refusals, 0.0
        self.refused: list[str] = []
        self.denied = 0  # by the store itself: keys that it does not know, or no more
        self._seen = Counter[str]()

    @property
    def uri(self) -> str:
        return f"http://{LOOPBACK}:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone; its own log says so."""

    def refuses(self, what: str) -> bool:
        """Whether this request is one too many."""
        self._seen[what] += 1
        found = self._seen[what] <= self.refusals or random.random() < self.share
        if found:
            self.refused.append(what)
        return found


class _Handler(BaseHTTPRequestHandler):
    server: ThrottledStore
    protocol_version = "HTTP/1.1"

    def handle_one(self) -> None:
        body = self.body()
        if self.server.refuses(f"{self.command} {self.path.partition('?')[0]}"):
            self.say(503, {"Content-Type": "application/xml"}, SLOW_DOWN)
            return
        try:
            status, headers, found = self.passed_on(body)
        except (OSError, HTTPException):
            self.close_connection = True  # the store is away
            return
        self.server.denied += status == 403
        self.say(status, headers, found)

    def passed_on(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        there = HTTPConnection(self.server.place, timeout=PATIENCE_S)
        try:
            there.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() != "expect":  # answered here already
                    there.putheader(name, value)
            there.endheaders(body or None)
            answer = there.getresponse()
            found = answer.read()
            headers = {name: one for name, one in answer.getheaders() if name != "Connection"}
            return answer.status, headers, found
        finally:
            there.close()

    def body(self) -> bytes:
        """As it came, with the frames of its chunks."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while True:
            line = self.rfile.readline()
            found += line + self.rfile.read(int(line, 16)) + self.rfile.readline()
            if int(line, 16) == 0:
                return found

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_one  # noqa: N815

    def say(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        length = headers.get("Content-Length") or str(len(body))
        for name, value in {**headers, "Content-Length": length}.items():
            if name.lower() != "transfer-encoding":
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Tests look at `refused`."""


@contextmanager
def throttling(upstream: str, refusals: int = 0) -> Iterator[ThrottledStore]:
    """Serves as long as the block runs."""
    with ThrottledStore(upstream, refusals) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
