"""A catalog that answers over HTTP: its tables are metadata alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID

from firnline_domain.identity import PREFIX_HEADER
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField

Name = tuple[str, ...]
SCHEMA = Schema(NestedField(1, "id", LongType()))
OURS = ("shop", "orders")


class RestCatalog(ThreadingHTTPServer):
    """Tables by name, `answers` by path where it says something else."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.tables: dict[Name, dict[str, Any]] = {}
        self.answers: dict[str, int] = {}  # path below /v1 -> status
        self.bodies: dict[str, bytes] = {}  # path below /v1 -> the answer as it is sent
        self.calls: list[str] = []
        self.delegated = 0  # calls that asked for keys of the storage
        self.prefix = ""
        self.others: dict[str, dict[Name, dict[str, Any]]] = {}  # tables under other prefixes

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def put(self, name: Name, location: str, uuid: int = 0, **properties: str) -> dict[str, Any]:
        """A table; `uuid`: 0 = of its own."""
        number = uuid or len(self.tables) + 100
        made = new_table_metadata(
            SCHEMA, PartitionSpec(), UNSORTED_SORT_ORDER, location, properties, UUID(int=number)
        )
        found: dict[str, Any] = made.model_dump(mode="json", by_alias=True)
        self.tables[name] = found
        return found

    def answer(
        self, path: str, asked: dict[str, list[str]], wanted: str = ""
    ) -> tuple[int, object]:
        """`wanted`: the prefix that the client asks for."""
        prefix = wanted if wanted in self.others else self.prefix
        tables = self.others.get(prefix, self.tables)
        path = path.removeprefix(f"{prefix}/") if prefix else path
        if path in self.answers:
            return self.answers[path], {"error": {"message": "no", "type": "E", "code": 1}}
        if path == "config":
            return 200, {"defaults": {}, "overrides": {"prefix": prefix}}
        if path == "namespaces":
            parent = tuple(asked.get("parent", [""])[0].split("\x1f")) if "parent" in asked else ()
            depth = len(parent)
            found = {one[: depth + 1] for one in tables if len(one) > depth + 1}
            below = sorted(one for one in found if one[:depth] == parent)
            return 200, {"namespaces": below}
        _, namespace, _, *name = path.split("/")
        levels = tuple(unquote(namespace).split("\x1f"))
        if not name:
            found = {one for one in tables if one[:-1] == levels}
            named = [{"namespace": one[:-1], "name": one[-1]} for one in sorted(found)]
            return 200, {"identifiers": named}
        if (made := tables.get((*levels, unquote(name[0])))) is None:
            return 404, {"error": {"message": "no", "type": "NoSuchTable", "code": 404}}
        place = f"{made['location']}/metadata/00001-x.metadata.json"
        return 200, {"metadata-location": place, "metadata": made}

    def loads(self) -> int:
        return sum("/tables/" in one for one in self.calls)


class _Handler(BaseHTTPRequestHandler):
    server: RestCatalog

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        path = parts.path.removeprefix("/v1/")
        self.server.calls.append(path)
        self.server.delegated += "X-Iceberg-Access-Delegation" in self.headers
        wanted = self.headers.get(PREFIX_HEADER, "")
        status, body = self.server.answer(path, parse_qs(parts.query), wanted)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(self.server.bodies.get(path, json.dumps(body).encode()))

    def log_message(self, *_: object) -> None:
        """Quiet."""


def serving() -> Iterator[RestCatalog]:
    """One with a table of ours."""
    server = RestCatalog()
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    server.put(OURS, "s3://lake/shop/orders", uuid=1)
    yield server
    server.shutdown()
    server.server_close()
