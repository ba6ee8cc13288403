"""State as bytes: a version byte, what is needed often as numbers, the rest as MessagePack.

A table begins with what its bucket has to know on start (a million whole values take a minute to
read, a million such heads seconds), then the ring of recent snapshots, 8 bytes each instead of 20.
Fields have their names and are left out where they have their defaults (`Value`), so a new field
with a default needs no new version. Versions 1 (JSON alone) and 2 (a table as here, the rest JSON)
are read still. The keys sort a table's entries together, for scans by prefix.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import msgspec
from firnline_domain.assignments import Route
from firnline_domain.fleet_share import FleetShare
from firnline_domain.holds import Pause
from firnline_domain.identity import Scope
from firnline_domain.progress import Partition, Table
from firnline_domain.values import replace

from firnline_planner.due import due_ms

JSON, JSON_AND_RING, PACKED = b"\x01", b"\x02", b"\x03"  # versions
HEAD = struct.Struct("<cqHBBq")  # version, due, orders out, links, flags, the oldest link's parent
NEVER = -1
CHAINED, ORPHAN = 1, 2  # each link's parent is the one before; the oldest link has no parent
SEPARATOR = "\x1f"  # in no uuid, ref or JSON text
# Changes are written in the order of their keys: a table only after its partitions, and that a
# record is in the state only after all that it changed. A crash in between is seen then.
SEPARATOR_BYTES = SEPARATOR.encode()
SHARE, PAUSE, PARTITION, TABLE, CURSOR = b"!", b"0", b"1", b"2", b"3"
ROUTE, WAITING = b"#", b"$"  # of tables that were assigned


class UnknownVersion(ValueError):
    """The state was written by a newer planner; start that one, or remove its directory."""


@dataclass(frozen=True)
class Head:
    """What a bucket follows of a table without reading it."""

    due_ms: int | None
    in_flight: int


_pack = msgspec.msgpack.Encoder().encode
_packed_table = msgspec.msgpack.Decoder(Table).decode
_packed_partition = msgspec.msgpack.Decoder(Partition).decode
_packed_share = msgspec.msgpack.Decoder(FleetShare).decode
_packed_route = msgspec.msgpack.Decoder(Route).decode


def to_bytes(value: Table | Partition | FleetShare | Route) -> bytes:
    """The value as it is kept."""
    return _table_to_bytes(value) if isinstance(value, Table) else PACKED + _pack(value)


def _table_to_bytes(table: Table) -> bytes:
    counters, due = table.counters, due_ms(table)
    ids, parents = counters.recent, counters.recent_parents
    chained = bool(ids) and len(ids) < 256 and parents[1:] == ids[:-1]
    oldest = parents[0] if chained else None
    flags = (CHAINED if chained else 0) | (ORPHAN if oldest is None else 0)
    head = HEAD.pack(
        PACKED,
        NEVER if due is None else due,
        min(len(table.work.running), 0xFFFF),
        len(ids) if chained else 0,
        flags,
        oldest or 0,
    )
    if not chained:
        return head + _pack(replace(table, pause=None))
    rest = _pack(Table(replace(counters, recent=(), recent_parents=()), table.work))
    return head + struct.pack(f"<{len(ids)}q", *ids) + rest


def head_of(data: bytes) -> Head:
    """Of a table. Raises UnknownVersion."""
    if data[:1] == JSON:
        table = table_from(data)
        return Head(due_ms(table), len(table.work.running))
    due, in_flight = _unpacked(data)[1:3]
    return Head(None if due == NEVER else due, in_flight)


def table_from(data: bytes) -> Table:
    """A table back. Raises UnknownVersion."""
    if data[:1] == JSON:
        return _older_table(data[1:])
    version, _, _, links, flags, oldest = _unpacked(data)
    rest = memoryview(data)[HEAD.size + 8 * links :]
    table = _packed_table(rest) if version == PACKED else _older_table(rest)
    if not flags & CHAINED:
        return table
    ids = struct.unpack_from(f"<{links}q", data, HEAD.size)
    parents = (None if flags & ORPHAN else oldest, *ids[:-1])
    return replace(table, counters=replace(table.counters, recent=ids, recent_parents=parents))


def _older_table(text: bytes | memoryview) -> Table:
    """Of versions 1 and 2, which kept each recent snapshot with its parent."""
    fields = msgspec.json.decode(text)
    counters = fields["counters"]
    links = counters.pop("recent", ())
    counters["recent"] = [link["snapshot_id"] for link in links]
    counters["recent_parents"] = [link["parent_snapshot_id"] for link in links]
    return msgspec.convert(fields, Table)


def _unpacked(data: bytes) -> tuple[bytes, int, int, int, int, int]:
    if data[:1] not in (JSON_AND_RING, PACKED):
        raise UnknownVersion(f"state of version {data[:1].hex()}")
    found: tuple[bytes, int, int, int, int, int] = HEAD.unpack_from(data)
    return found


def partition_from(data: bytes) -> Partition:
    """A partition back. Raises UnknownVersion."""
    if data[:1] == PACKED:
        return _packed_partition(memoryview(data)[1:])
    return msgspec.json.decode(_json(data), type=Partition)


def share_from(data: bytes) -> FleetShare:
    """The bucket's share of the fleet back. Raises UnknownVersion."""
    return _packed_share(_packed(data))


def route_from(data: bytes) -> Route:
    """A route back. Raises UnknownVersion."""
    return _packed_route(_packed(data))


def _packed(data: bytes) -> memoryview:
    if data[:1] != PACKED:
        raise UnknownVersion(f"state of version {data[:1].hex()}")
    return memoryview(data)[1:]


def pause_to_bytes(pause: Pause | None) -> bytes:
    """The switch as it is kept, pulled or not."""
    return JSON + msgspec.json.encode(pause)


def pause_from(data: bytes) -> Pause | None:
    """The switch back. Raises UnknownVersion."""
    return msgspec.json.decode(_json(data), type=Pause | None)


def _json(data: bytes) -> bytes:
    if data[:1] != JSON:
        raise UnknownVersion(f"state of version {data[:1].hex()}")
    return data[1:]


def table_key(uuid: str, ref: str) -> bytes:
    """Key of one ref of a table."""
    return TABLE + f"{uuid}{SEPARATOR}{ref}".encode()


def table_uuid(key: bytes) -> str:
    """The table of one of its keys."""
    return key[len(TABLE) : key.index(SEPARATOR_BYTES)].decode()


def partition_prefix(uuid: str, ref: str) -> bytes:
    """What the keys of a ref's partitions start with."""
    return PARTITION + f"{uuid}{SEPARATOR}{ref}{SEPARATOR}".encode()


def partition_key(uuid: str, ref: str, scope: Scope) -> bytes:
    """Key of a partition."""
    return partition_prefix(uuid, ref) + f"{scope.spec_id}{SEPARATOR}{scope.partition}".encode()


def pause_key(uuid: str | None) -> bytes:
    """Key of a table's switch, or of the fleet's."""
    return PAUSE + (uuid or "").encode()


def route_key(uuid: str) -> bytes:
    """Key of a table's route."""
    return ROUTE + uuid.encode()


def waiting_key(uuid: str, number: int) -> bytes:
    """Key of a record that waits for its table."""
    return WAITING + f"{uuid}{SEPARATOR}{number:08}".encode()


def cursor_key(topic: str) -> bytes:
    """Key of how far a topic is in the state."""
    return CURSOR + topic.encode()


def group_of(key: bytes) -> bytes:
    """What all entries of one kind of a table's ref start with: the prefix of a scan."""
    parts = key.split(SEPARATOR_BYTES, 2)
    return parts[0] if len(parts) < 3 else key[: len(key) - len(parts[2])]
