"""The control topic of Iceberg's Kafka Connect sink: Avro, and each event brings its own schema."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from uuid import UUID

import fastavro
from firnline_schemas.codec import parse_bounded

from firnline_listener.port import Doorbell

MAGIC = b"\xc2\x01"
COMMITTED = "CommitToTable"


def parse(_: Mapping[str, str], body: bytes, catalog: str, only: str) -> list[Doorbell]:
    """Return the table of a commit that the sink's coordinator has made. Raises ValueError."""
    try:
        return _decode_event(body, catalog, only)
    except Exception as error:  # of a schema or a value from outside: there are many kinds
        raise ValueError(f"not an event of the sink: {error!r}") from None


def _decode_event(body: bytes, catalog: str, only: str) -> list[Doorbell]:
    if body[:2] != MAGIC:
        raise ValueError(f"it begins with {body[:2]!r}")
    start = 4 + struct.unpack_from("!H", body, 2)[0]
    schema = _read_schema(body[4:start])
    if schema is None:
        return []
    event: Any = fastavro.schemaless_reader(io.BytesIO(body[start:]), schema, None)
    table = event["payload"]["table_reference"]
    uuid = table.get("table_uuid")  # newer sinks send it
    if only not in ("", table["catalog"]):
        return []
    return [
        Doorbell(
            catalog=catalog,
            namespace=tuple(map(str, table["namespace"])),
            name=str(table["name"]),
            uuid=str(UUID(bytes=uuid)) if uuid else "",
            snapshot_id=event["payload"]["snapshot_id"],
        )
    ]


@lru_cache(maxsize=16)
def _read_schema(text: bytes) -> Any:
    """Return the schema of a commit; None for other events."""
    schema = json.loads(text)
    [payload] = [one["type"] for one in schema["fields"] if one["name"] == "payload"]
    if payload["name"].rpartition(".")[2] != COMMITTED:
        return None
    return parse_bounded(_strip_namespaces(schema))


def _strip_namespaces(schema: Any) -> Any:
    """Return the schema with plain names: Java leaves a namespace out where fastavro looks for
    it."""
    if isinstance(schema, list):
        return [_strip_namespaces(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _strip_namespaces(one) for name, one in schema.items() if name != "namespace"}
    return {**found, "name": str(found["name"]).rpartition(".")[2]} if "name" in found else found
