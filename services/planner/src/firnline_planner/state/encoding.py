"""BucketState as bytes: a version byte, what is needed often as numbers, the rest as MessagePack.

A table begins with what its bucket has to know on start: a million whole values take a minute to
read, a million such heads seconds. Fields have their names and are left out where they have their
defaults (`Value`), so a new field with a default needs no new version. The keys sort a table's
entries together, for scans by prefix.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache

import msgspec
from firnline_domain.base.times import earliest_of
from firnline_domain.base.values import Value, bound_amount, within_longs
from firnline_domain.counters.fold.missing_snapshots import resync_ms
from firnline_domain.counters.state.work import Partition, Table
from firnline_domain.identity import Scope
from firnline_domain.records.assignments import BucketRoute
from firnline_domain.records.pauses import Pause

from firnline_planner.state.fleet_share import FleetShare

VERSION = b"\x01"
HEAD = struct.Struct("<cqqH")  # of a table: version, due, when it was kept, orders out
NEVER = -1
SEPARATOR = "\x1f"  # in no key of a table, ref or JSON text
# Changes are written in the order of their keys: a table only after its partitions, and that a
# record is in the state only after all that it changed. A crash in between is seen then.
SEPARATOR_BYTES = SEPARATOR.encode()
SHARE, PAUSE, PARTITION, TABLE, CURSOR = b"!", b"0", b"1", b"2", b"3"
ROUTE, WAITING = b"#", b"$"  # of tables that were assigned


class UnusableState(Exception):
    """The state of a whole bucket: no record, and no table alone, is put aside for it."""


class UnknownVersion(UnusableState):
    """The state was written by a newer planner; start that one, or remove its directory."""


class UnreadableValue(ValueError):
    """A value of the state is damaged."""


@dataclass(frozen=True)
class StateHead:
    """Header of a table that a bucket follows without reading the table."""

    due_ms: int | None
    kept_ms: int
    in_flight: int


_encode = msgspec.msgpack.Encoder().encode
_table = msgspec.msgpack.Decoder(Table).decode
_partition = msgspec.msgpack.Decoder(Partition).decode
_share = msgspec.msgpack.Decoder(FleetShare).decode
_route = msgspec.msgpack.Decoder(BucketRoute).decode
_pause = msgspec.msgpack.Decoder(Pause).decode


def _encode_within_limits(value: Value) -> bytes:
    """Encode a value; never fail for a number, because a tick's changes of all tables are kept
    together."""
    try:
        return _encode(value)
    except OverflowError:  # a product of what writers claim, above what MessagePack holds
        return _encode(within_longs(value))


def to_bytes(value: Table | Partition | FleetShare | BucketRoute | Pause, now_ms: int = 0) -> bytes:
    """Encode a value in its current form. `now_ms` 0: without a time."""
    return (
        _table_to_bytes(value, now_ms)
        if isinstance(value, Table)
        else VERSION + _encode_within_limits(value)
    )


def _table_to_bytes(table: Table, now_ms: int) -> bytes:
    due = due_ms(table)
    out = min(len(table.work.running), 0xFFFF)
    head = HEAD.pack(
        VERSION, NEVER if due is None else bound_amount(due), bound_amount(now_ms), out
    )
    return head + _encode_within_limits(
        Table(table.counters, table.work)
    )  # its pause is kept by itself


def decode_head(data: bytes) -> StateHead:
    """Decode only the header of an encoded table: when it is due, when it was kept, and how many
    tasks are out. A damaged table is due at once, so that a tick reports it. Raises
    UnknownVersion."""
    if len(_check_version(data)) < HEAD.size:
        return StateHead(0, 0, 0)
    _, due, kept_ms, in_flight = HEAD.unpack_from(data)
    return StateHead(None if due == NEVER else due, kept_ms, in_flight)


def table_from(data: bytes) -> Table:
    """Decode a table. Raises UnknownVersion, as all readers do, and UnreadableValue."""
    try:
        return _table(memoryview(_check_version(data))[HEAD.size :])
    except msgspec.MsgspecError as error:
        raise UnreadableValue(f"a table of {len(data)} bytes: {error}") from error


def partition_from(data: bytes) -> Partition:
    return _partition(_body_bytes(data))


def share_from(data: bytes) -> FleetShare:
    """Decode the bucket's share of the deployment."""
    return _share(_body_bytes(data))


def route_from(data: bytes) -> BucketRoute:
    """Decode a table's route: the bucket to which its records go. Raises UnknownVersion."""
    return _route(_body_bytes(data))


def pause_from(data: bytes) -> Pause:
    return _pause(_body_bytes(data))


def _body_bytes(data: bytes) -> memoryview:
    return memoryview(_check_version(data))[1:]


def _check_version(data: bytes) -> bytes:
    if not data:
        raise UnreadableValue("a value of the state is empty")
    if data[:1] != VERSION:
        raise UnknownVersion(f"state of version {data[:1].hex()}")
    return data


def ref_key(table_key: str, ref: str) -> bytes:
    """Return the key of one ref of a table."""
    return f"2{table_key}{SEPARATOR}{ref}".encode()


def table_key_in(key: bytes) -> str:
    """Return the table of one of its keys."""
    return key[len(TABLE) : key.index(SEPARATOR_BYTES)].decode()


def partition_prefix(table_key: str, ref: str) -> bytes:
    """Return the common prefix of the keys of a ref's partitions."""
    return f"1{table_key}{SEPARATOR}{ref}{SEPARATOR}".encode()


def partition_key(table_key: str, ref: str, scope: Scope) -> bytes:
    """Return the key of a partition."""
    place = f"{scope.spec_id}{SEPARATOR}{scope.partition}"
    return f"1{table_key}{SEPARATOR}{ref}{SEPARATOR}{place}".encode()


def pause_key(table_key: str | None) -> bytes:
    """Return the key of a table's pause, or (None) of the deployment's."""
    return PAUSE + (table_key or "").encode()


def route_key(table_key: str) -> bytes:
    """Return the key of a table's route."""
    return ROUTE + table_key.encode()


def waiting_key(table_key: str, number: int) -> bytes:
    """Return the key of a record that waits for its table."""
    return WAITING + f"{table_key}{SEPARATOR}{number:08}".encode()


@cache
def cursor_key(topic: str) -> bytes:
    """Return the key of a topic's next offset in the state."""
    return CURSOR + topic.encode()


def group_of(key: bytes) -> bytes:
    """Return the common prefix of all entries of one kind of a table's ref, to scan them."""
    parts = key.split(SEPARATOR_BYTES, 2)
    return parts[0] if len(parts) < 3 else key[: len(key) - len(parts[2])]


def due_ms(table: Table) -> int | None:
    """Return when a table is due next: to be reconciled or to be published, whichever is earlier,
    in ms since 1970; None = never."""
    return earliest_of(reconcile_ms(table), table.work.publish_ms)


def reconcile_ms(table: Table) -> int | None:
    """Return when a decision, a resync request or the expiry of a task is due."""
    work = table.work
    due_ms = earliest_of(work.reconcile_ms, work.expiry.due_ms, resync_ms(table.counters))
    if work.actions or work.running:  # of most tables neither, and every commit asks twice
        due = (one.due_ms for one in work.actions.values())
        lost = (task.deadline_ms for task in work.running)
        due_ms = earliest_of(due_ms, *due, *lost)
    return due_ms
