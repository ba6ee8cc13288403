"""Key-value stores of a bucket's state: what a driver brings, and one batch's changes over
the store below."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from firnline_domain.identity import MAIN
from firnline_domain.records.events import FilesChanged

from firnline_planner.state.encoding import (
    SEPARATOR_BYTES,
    group_of,
    partition_key,
    ref_key,
)

# Of a key with its value: half of what changelog and handovers take of one record. A table may hold
# 0.5 MB of changes back (`missing_snapshots.HELD_BYTES`), and its settings are 0.2 MB at most
# (`kept_settings`).
MAX_VALUE_BYTES = 8 * 1024 * 1024


class ReadableStore(Protocol):
    """Keys and values of one bucket, sorted by key."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value, or None."""

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the pairs whose key starts with the prefix, in order; they do not change
        meanwhile."""


class BatchReadableStore(ReadableStore, Protocol):
    """Reads many keys in one call."""

    def get_all(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the value of each key, or None."""


class KeyValueStore(ReadableStore, Protocol):
    """A store that a driver provides. `max_value_bytes` limits a key together with its value."""

    @property
    def max_value_bytes(self) -> int: ...

    def put(self, key: bytes, value: bytes) -> None:
        """Set a value; never blocks for long, and is not undone."""

    def delete(self, key: bytes) -> None:
        """Remove a key that is there."""


class WriteBuffer:
    """The changes of a batch: seen at once, and kept beside the store below.

    Changes lie by the group of their key: a batch changes thousands of tables, and shows each.
    """

    max_value_bytes = MAX_VALUE_BYTES

    def __init__(self, below: BatchReadableStore) -> None:
        self._below = below
        self._ahead: dict[bytes, bytes | None] = {}
        self._groups: dict[bytes, dict[bytes, bytes | None]] = {}

    @property
    def changes(self) -> dict[bytes, bytes | None]:
        """Return all changes; None = deleted."""
        found: dict[bytes, bytes | None] = {}
        for group in self._groups.values():
            found.update(group)
        return found

    def get(self, key: bytes) -> bytes | None:
        group = self._groups.get(group_of(key))
        if group and key in group:
            return group[key]
        return self._ahead[key] if key in self._ahead else self._below.get(key)

    def read_ahead(self, keys: list[bytes]) -> None:
        """Have these at hand, and nothing else of the store, until they are replaced or changes
        are kept or discarded."""
        self._ahead = dict(zip(keys, self._below.get_all(keys), strict=True)) if keys else {}

    def put(self, key: bytes, value: bytes) -> None:
        self._groups.setdefault(group_of(key), {})[key] = value

    def delete(self, key: bytes) -> None:
        self._groups.setdefault(group_of(key), {})[key] = None

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the pairs as `KeyValueStore.scan` does, without the changes made while it runs."""
        changed = self._changes_with_prefix(prefix)
        for key, value in self._below.scan(prefix):
            if key not in changed:
                yield key, value
        yield from ((key, value) for key, value in sorted(changed.items()) if value is not None)

    def _changes_with_prefix(self, prefix: bytes) -> dict[bytes, bytes | None]:
        if group_of(prefix) == prefix and prefix.endswith(SEPARATOR_BYTES):
            return dict(self._groups.get(prefix, {}))
        return {key: value for key, value in self.changes.items() if key.startswith(prefix)}

    def discard(self) -> None:
        """Discard the changes, and what was read ahead: the store may have other values now."""
        self._groups.clear()
        self._ahead.clear()


def keys_needed(record: Any) -> Iterator[bytes]:
    """Yield the keys of the entries that handling a record reads first; none for rare records.
    RocksDB takes 41 us for a table and a partition between two events, and 15 us if those of some
    hundred events are read together: only then its code and its indexes are in the processor's
    caches."""
    if not isinstance(record, FilesChanged) or record.ref != MAIN:
        return
    table_key = record.table.key
    yield ref_key(table_key, MAIN)
    for part in record.partitions:
        yield partition_key(table_key, MAIN, part.scope)
