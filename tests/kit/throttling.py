"""A store that is asked too much: it answers 503 SlowDown a few times, then does what was asked."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from firnline_local.ports import LOOPBACK

SLOW_DOWN = (
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)


@contextmanager
def throttling(upstream: str, refusals: int) -> Iterator[tuple[str, list[str]]]:
    """(Its address, what it has refused) of a store before another one. The client's `Host` is
    passed on: its signature is of that."""
    seen, refused = Counter[str](), list[str]()
    place = urlsplit(upstream).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            body = self.body()
            what = f"{self.command} {self.path.partition('?')[0]}"
            seen[what] += 1
            if seen[what] <= refusals:
                refused.append(what)
                self.say(503, {"Content-Type": "application/xml"}, SLOW_DOWN)
                return
            there = HTTPConnection(place, timeout=30)
            there.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() != "expect":  # answered here already
                    there.putheader(name, value)
            there.endheaders(body or None)
            answer = there.getresponse()
            found = answer.read()
            headers = {name: one for name, one in answer.getheaders() if name != "Connection"}
            self.say(answer.status, headers, found)
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

        def log_message(self, format: str, *args: Any) -> None:
            """Tests look at `refused`."""

    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://{LOOPBACK}:{server.server_address[1]}", refused
        server.shutdown()
        thread.join()
