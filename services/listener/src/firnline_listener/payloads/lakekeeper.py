"""CloudEvents of Lakekeeper: in binary mode (Kafka, HTTP) and in structured mode (NATS, HTTP)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from firnline_domain.base.values import replace

from firnline_listener.port import Doorbell

JOINED_BY_SEPARATOR = frozenset({"updateTable", "renameTable", "undropTabulars"})
JOINED_BY_DOTS = frozenset({"createTable", "registerTable", "dropTable"})
_ATTRIBUTE = re.compile("ce[_-]")  # a header in Kafka, in HTTP


class _Table(msgspec.Struct):
    namespace: list[str]
    name: str


class _RefUpdate(msgspec.Struct, rename="kebab"):
    action: str
    ref_name: str = ""
    snapshot_id: int | None = None


class _Request(msgspec.Struct):
    """The request of a commit or a rename, as far as it is read."""

    updates: list[_RefUpdate] = []
    destination: _Table | None = None


def parse(headers: Mapping[str, str], body: bytes, catalog: str, only: str) -> list[Doorbell]:
    """Return the tables of an event about one. Raises ValueError."""
    attributes = {name[3:]: one for name, one in headers.items() if _ATTRIBUTE.match(name)}
    data: Any = None
    if attributes:
        data = msgspec.json.decode(body) if body else None
    else:
        attributes = msgspec.json.decode(body, type=dict[str, Any])
        data = attributes.pop("data", None)
    event = msgspec.convert(attributes, _Attributes)
    return _find_tables(event, data, catalog) if only in ("", event.warehouse_id) else []


class _Attributes(msgspec.Struct, rename="kebab"):
    type: str
    tabular_type: str
    tabular_id: str
    warehouse_id: str
    namespace: str
    name: str


def _find_tables(event: _Attributes, data: Any, catalog: str) -> list[Doorbell]:
    joined = event.type in JOINED_BY_SEPARATOR
    if event.tabular_type.lower() != "table" or not (joined or event.type in JOINED_BY_DOTS):
        return []
    request = msgspec.convert(data or {}, _Request)
    named = Doorbell(
        catalog=catalog,
        namespace=tuple(event.namespace.split("\x1f" if joined else ".")),
        name=event.name,
        uuid=event.tabular_id,
        snapshot_id=_find_head(request),
    )
    if request.destination is None:
        return [named]
    levels, name = tuple(request.destination.namespace), request.destination.name
    return [named, replace(named, namespace=levels, name=name)]


def _find_head(request: _Request) -> int | None:
    moves = (one for one in request.updates if one.action == "set-snapshot-ref")
    return next((one.snapshot_id for one in moves if one.ref_name == "main"), None)
