"""A catalog that asks for more than the reference one does: a warehouse, a token, rights; whose
clock may differ, and whose tables lie elsewhere. A proxy before it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

TOKENS = "/v1/oauth/tokens"


@dataclass
class Wishes:
    """What it asks for. `moved`: texts in its answers, and what they say instead."""

    upstream: str
    warehouse: str | None = None
    secret: str | None = None  # of the client `doctor`, who gets a token for it
    denied: set[str] = field(default_factory=set)  # pieces of paths
    ahead_s: float = 0.0
    moved: dict[str, str] = field(default_factory=dict)


class PickyCatalog(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, wishes: Wishes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.wishes = wishes

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def picky_catalog(upstream: str) -> Iterator[PickyCatalog]:
    """A running one."""
    with PickyCatalog(Wishes(upstream)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: PickyCatalog

    def do_GET(self) -> None:
        self._handle(None)

    def do_DELETE(self) -> None:
        self._handle(None)

    def do_HEAD(self) -> None:
        self._handle(None)

    def do_POST(self) -> None:
        self._handle(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def date_time_string(self, timestamp: float | None = None) -> str:
        return formatdate(time.time() + self.server.wishes.ahead_s, usegmt=True)

    def _handle(self, body: bytes | None) -> None:
        wishes, parts = self.server.wishes, urlsplit(self.path)
        if parts.path == TOKENS:
            return self._token(parse_qs((body or b"").decode()))
        if wishes.secret and self.headers.get("Authorization") != f"Bearer for-{wishes.secret}":
            return self._refuse(401, "NotAuthorizedException", "this token is none of mine")
        if parts.path == "/v1/config" and wishes.warehouse:
            asked = parse_qs(parts.query).get("warehouse", [""])[0]
            if asked != wishes.warehouse:
                text = f"Warehouse {asked} not found" if asked else "Please specify a warehouse"
                return self._refuse(404 if asked else 400, "NotFoundException", text)
        if any(one in self.path for one in wishes.denied):
            return self._refuse(403, "ForbiddenException", "you may not")
        return self._pass_on(body)

    def _token(self, asked: dict[str, list[str]]) -> None:
        secret = asked.get("client_secret", [""])[0]
        if secret != self.server.wishes.secret:
            error = {"error": "invalid_client", "error_description": "secret has expired"}
            return self._answer(401, json.dumps(error).encode())
        token = {"access_token": f"for-{secret}", "token_type": "bearer", "expires_in": 3600}
        return self._answer(200, json.dumps(token).encode())

    def _refuse(self, status: int, kind: str, text: str) -> None:
        error = {"error": {"message": text, "type": kind, "code": status}}
        self._answer(status, json.dumps(error).encode())

    def _pass_on(self, body: bytes | None) -> None:
        headers = {"Content-Type": "application/json"}
        url = self.server.wishes.upstream + self.path
        try:
            with urlopen(Request(url, body, headers, method=self.command)) as answer:
                self._answer(answer.status, answer.read())
        except HTTPError as error:
            self._answer(error.code, error.read())

    def _answer(self, status: int, body: bytes) -> None:
        for old, new in self.server.wishes.moved.items():
            body = body.replace(old.encode(), new.encode())
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
