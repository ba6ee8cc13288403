"""Tables as planners of before have kept them; what is read once is written in the newest version.

Version 1 is JSON alone. Versions 2 and 3 have a head, then 8 bytes for each recent snapshot where
each one's parent is the one before it, then the rest, 2 in JSON and 3 in MessagePack; other recent
snapshots are in the rest, each with its parent.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import msgspec
from firnline_domain.counters.lineage import Lineage
from firnline_domain.counters.work import Table
from firnline_domain.values import replace

JSON, JSON_AND_RING, RING = b"\x01", b"\x02", b"\x03"
_HEAD = struct.Struct("<cqHBBq")  # version, due, orders out, links, flags, the oldest link's parent
_CHAINED, _ORPHAN = 1, 2  # each link's parent is the one before; the oldest link has no parent

Links = Iterator[tuple[int, int | None]]


def older_table(data: bytes) -> Table:
    """A table of versions 1 to 3."""
    if data[:1] == JSON:
        return _table(msgspec.json.decode(data[1:]))
    version, _, _, links, flags, oldest = _HEAD.unpack_from(data)
    rest = memoryview(data)[_HEAD.size + 8 * links :]
    fields = (msgspec.msgpack if version == RING else msgspec.json).decode(rest)
    if not flags & _CHAINED:
        return _table(fields)
    ids = struct.unpack_from(f"<{links}q", data, _HEAD.size)
    parents = (None if flags & _ORPHAN else oldest, *ids[:-1])
    return _with(_table(fields), zip(ids, parents, strict=True))


def _table(fields: dict[str, Any]) -> Table:
    counters = fields["counters"]
    links = _links(counters.pop("recent", ()), counters.pop("recent_parents", None))
    return _with(msgspec.convert(fields, Table), links)


def _links(recent: list[Any], parents: list[int | None] | None) -> Links:
    if parents is not None:
        yield from zip(recent, parents, strict=True)
    else:
        yield from ((link["snapshot_id"], link["parent_snapshot_id"]) for link in recent)


def _with(table: Table, links: Links) -> Table:
    return replace(table, counters=replace(table.counters, recent=Lineage.of(links)))
