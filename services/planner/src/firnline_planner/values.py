"""State as bytes: a version byte, then JSON without the defaults.

Version 1 is JSON whose absent fields have their defaults, so a new field with a default needs no
new version. The keys sort a table's entries together, for scans by prefix.
"""

from __future__ import annotations

from firnline_domain.holds import Pause
from firnline_domain.identity import Scope
from firnline_domain.progress import Partition, Table
from pydantic import TypeAdapter

TABLES = TypeAdapter(Table)
PARTITIONS = TypeAdapter(Partition)
PAUSES: TypeAdapter[Pause | None] = TypeAdapter(Pause | None)
VERSION = b"\x01"
SEPARATOR = "\x1f"  # in no uuid, ref or JSON text
# Changes are written in the order of their keys: a table only after its partitions, and that a
# record is in the state only after all that it changed. A crash in between is seen then.
PAUSE, PARTITION, TABLE, CURSOR = b"0", b"1", b"2", b"3"


class UnknownVersion(ValueError):
    """The state was written by a newer planner; start that one, or remove its directory."""


def to_bytes(value: Table | Partition) -> bytes:
    """The value as it is kept."""
    if isinstance(value, Table):
        return VERSION + TABLES.dump_json(value, exclude_defaults=True, exclude={"pause"})
    return VERSION + PARTITIONS.dump_json(value, exclude_defaults=True)


def table_from(data: bytes) -> Table:
    """A table back. Raises UnknownVersion."""
    return TABLES.validate_json(_body(data))


def partition_from(data: bytes) -> Partition:
    """A partition back. Raises UnknownVersion."""
    return PARTITIONS.validate_json(_body(data))


def pause_to_bytes(pause: Pause | None) -> bytes:
    """The switch as it is kept, pulled or not."""
    return VERSION + PAUSES.dump_json(pause)


def pause_from(data: bytes) -> Pause | None:
    """The switch back. Raises UnknownVersion."""
    return PAUSES.validate_json(_body(data))


def _body(data: bytes) -> bytes:
    if data[:1] != VERSION:
        raise UnknownVersion(f"state of version {data[:1].hex()}")
    return data[1:]


def table_key(uuid: str, ref: str) -> bytes:
    """Key of one ref of a table."""
    return TABLE + f"{uuid}{SEPARATOR}{ref}".encode()


def partition_prefix(uuid: str, ref: str) -> bytes:
    """What the keys of a ref's partitions start with."""
    return PARTITION + f"{uuid}{SEPARATOR}{ref}{SEPARATOR}".encode()


def partition_key(uuid: str, ref: str, scope: Scope) -> bytes:
    """Key of a partition."""
    return partition_prefix(uuid, ref) + f"{scope.spec_id}{SEPARATOR}{scope.partition}".encode()


def pause_key(uuid: str | None) -> bytes:
    """Key of a table's switch, or of the fleet's."""
    return PAUSE + (uuid or "").encode()


def cursor_key(topic: str) -> bytes:
    """Key of how far a topic is in the state."""
    return CURSOR + topic.encode()
