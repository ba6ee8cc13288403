"""State as bytes: a version byte, what is needed often as numbers, the rest as MessagePack.

A table begins with what its bucket has to know on start: a million whole values take a minute to
read, a million such heads seconds. Fields have their names and are left out where they have their
defaults (`Value`), so a new field with a default needs no new version. What is older is read still
(`older_values`). The keys sort a table's entries together, for scans by prefix.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import msgspec
from firnline_domain.counters.gaps import ask_ms
from firnline_domain.counters.work import Partition, Table
from firnline_domain.identity import Scope
from firnline_domain.records.assignments import Route
from firnline_domain.records.pauses import Pause
from firnline_domain.times import earliest

from firnline_planner.fleet_share import FleetShare
from firnline_planner.older_values import JSON, JSON_AND_RING, RING, older_table

PACKED = RING  # of all but tables, for which it is an older version
TABLE_PACKED = b"\x04"
HEAD = struct.Struct("<cqH")  # of a table since version 2: version, due, orders out
NEVER = -1
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


_TABLE_VERSIONS = frozenset({JSON, JSON_AND_RING, RING, TABLE_PACKED})
_pack = msgspec.msgpack.Encoder().encode
_packed_table = msgspec.msgpack.Decoder(Table).decode
_packed_partition = msgspec.msgpack.Decoder(Partition).decode
_packed_share = msgspec.msgpack.Decoder(FleetShare).decode
_packed_route = msgspec.msgpack.Decoder(Route).decode


def to_bytes(value: Table | Partition | FleetShare | Route) -> bytes:
    """The value as it is kept."""
    return _table_to_bytes(value) if isinstance(value, Table) else PACKED + _pack(value)


def _table_to_bytes(table: Table) -> bytes:
    due = due_ms(table)
    out = min(len(table.work.running), 0xFFFF)
    head = HEAD.pack(TABLE_PACKED, NEVER if due is None else due, out)
    return head + _pack(Table(table.counters, table.work))  # its pause is kept by itself


def head_of(data: bytes) -> Head:
    """Of a table. Raises UnknownVersion."""
    if _version(data) == JSON:
        table = older_table(data)
        return Head(due_ms(table), len(table.work.running))
    _, due, in_flight = HEAD.unpack_from(data)
    return Head(None if due == NEVER else due, in_flight)


def table_from(data: bytes) -> Table:
    """A table back. Raises UnknownVersion."""
    if _version(data) == TABLE_PACKED:
        return _packed_table(memoryview(data)[HEAD.size :])
    return older_table(data)


def _version(data: bytes) -> bytes:
    version = data[:1]
    if version not in _TABLE_VERSIONS:
        raise UnknownVersion(f"state of version {version.hex()}")
    return version


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


def due_ms(table: Table) -> int | None:
    """The first of its moments; None = never."""
    return earliest(look_ms(table), table.work.show_ms)


def look_ms(table: Table) -> int | None:
    """When something is to be decided, asked for or given up."""
    return earliest(table.work.look_ms, table.work.expiry_ms, ask_ms(table.counters))
