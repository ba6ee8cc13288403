"""One REST catalog that leads its clients to a prefix by their warehouse, as Nessie, Polaris and
Lakekeeper do; behind each prefix is a catalog of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

PASSED_ON = ("Content-Type", "Accept", "X-Iceberg-Access-Delegation")


class _Front(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, backends: Mapping[str, str], warehouses: Mapping[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.backends, self.warehouses = backends, warehouses


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Front

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        parts = urlsplit(self.path)
        if parts.path == "/v1/config":
            asked = parse_qs(parts.query).get("warehouse", [""])[0]
            if (prefix := self.server.warehouses.get(asked)) is None:
                self._send(404, b'{"error":{"message":"no such warehouse","code":404}}')
                return
            status, said = _ask(self.server.backends[prefix] + "/v1/config", "GET", None, {})
            config = json.loads(said)
            config.setdefault("overrides", {})["prefix"] = prefix
            self._send(status, json.dumps(config).encode())
            return
        for prefix, backend in self.server.backends.items():
            if self.path.startswith(f"/v1/{prefix}/"):
                target = f"{backend}/v1/{self.path.removeprefix(f'/v1/{prefix}/')}"
                headers = {name: self.headers[name] for name in PASSED_ON if name in self.headers}
                self._send(*_ask(target, self.command, body, headers))
                return
        self._send(404, b'{"error":{"message":"no such prefix","code":404}}')

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _ask(
    uri: str, method: str, body: bytes | None, headers: Mapping[str, str]
) -> tuple[int, bytes]:
    request = Request(uri, body, dict(headers), method=method)
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        return error.code, error.read()


@contextmanager
def prefixed_catalog(backends: Mapping[str, str], warehouses: Mapping[str, str]) -> Iterator[str]:
    """Its URI. `backends`: by prefix, as it stands in paths. `warehouses`: the prefix of each; that
    of who names none under ""."""
    with _Front(backends, warehouses) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
