"""Events of Polaris' Kafka listener: they name the table, and no snapshot."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from firnline_listener.port import Doorbell

CHANGES = frozenset(f"AFTER_{one}_TABLE" for one in ("CREATE", "REGISTER", "UPDATE", "DROP"))
RENAME = "AFTER_RENAME_TABLE"


class _Event(msgspec.Struct):
    event_type: str
    catalog_name: str = ""
    namespace: list[str] = []
    table_name: str = ""
    source: list[str] = []  # of a rename: levels and name
    destination: list[str] = []


def parse(_: Mapping[str, str], body: bytes, catalog: str, only: str) -> list[Doorbell]:
    """Return the tables of an event that follows a change. Raises ValueError."""
    event = msgspec.json.decode(body, type=_Event)
    found = list[list[str]]()
    if only not in ("", event.catalog_name):
        return []
    if event.event_type in CHANGES:
        found = [[*event.namespace, event.table_name]]
    elif event.event_type == RENAME:
        found = [event.source, event.destination]
    return [
        Doorbell(catalog=catalog, namespace=tuple(levels), name=name)
        for *levels, name in filter(None, found)
    ]
