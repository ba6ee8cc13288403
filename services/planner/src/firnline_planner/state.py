"""The planner's state of one bucket: pairs of bytes, and changes that are not final yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from firnline_domain.holds import Pause
from firnline_domain.identity import Scope
from firnline_domain.progress import Partition, Table

from firnline_planner.values import (
    TABLE,
    cursor_key,
    partition_from,
    partition_key,
    partition_prefix,
    pause_from,
    pause_key,
    pause_to_bytes,
    table_from,
    table_key,
    to_bytes,
)


class Readable(Protocol):
    """Keys and values of one bucket, sorted by key."""

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Pairs whose key starts with the prefix, in order; the pairs do not change meanwhile."""


class Pairs(Readable, Protocol):
    """All that a driver has to bring."""

    def put(self, key: bytes, value: bytes) -> None:
        """Set a value; never blocks for long, and is not undone."""

    def delete(self, key: bytes) -> None:
        """Remove a key that is there."""


class MemoryPairs:
    """Pairs in a dict."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        """See `Pairs.get`."""
        return self.values.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """See `Pairs.put`."""
        self.values[key] = value

    def delete(self, key: bytes) -> None:
        """See `Pairs.delete`."""
        del self.values[key]

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `Pairs.scan`."""
        yield from sorted(pair for pair in self.values.items() if pair[0].startswith(prefix))


class Overlay:
    """Pairs whose changes are seen at once, and kept beside the store below."""

    def __init__(self, below: Readable) -> None:
        self._below = below
        self.changes: dict[bytes, bytes | None] = {}  # None = deleted

    def get(self, key: bytes) -> bytes | None:
        """See `Pairs.get`."""
        return self.changes[key] if key in self.changes else self._below.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """See `Pairs.put`."""
        self.changes[key] = value

    def delete(self, key: bytes) -> None:
        """See `Pairs.delete`; a key that is not there does no harm."""
        self.changes[key] = None

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `Pairs.scan`; what is changed while it runs is not seen."""
        changed = {key: self.changes[key] for key in self.changes if key.startswith(prefix)}
        for key, value in self._below.scan(prefix):
            if key not in changed:
                yield key, value
        yield from ((key, value) for key, value in sorted(changed.items()) if value is not None)

    def discard(self) -> None:
        """Forget the changes."""
        self.changes.clear()


class StagedPairs(Overlay):
    """Pairs whose changes reach the store below only with `commit`."""

    def __init__(self, below: Pairs) -> None:
        super().__init__(below)
        self._store = below

    def commit(self) -> None:
        """Write the changes below, in the order of their keys."""
        for key, value in sorted(self.changes.items()):
            before = self._store.get(key)
            if value is None and before is not None:
                self._store.delete(key)
            elif value is not None and value != before:
                self._store.put(key, value)
        self.changes.clear()


class State:
    """Tables, partitions and cursors of one bucket. Nothing is kept before `commit`."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = StagedPairs(pairs)
        self._touched: dict[bytes, Table | None] = {}

    def table(self, uuid: str, ref: str) -> Table | None:
        """One ref of a table."""
        return self.table_at(table_key(uuid, ref))

    def table_at(self, key: bytes) -> Table | None:
        """The table of a key as `tables` gave it."""
        data = self._pairs.get(key)
        return None if data is None else self._paused(table_from(data))

    def _paused(self, table: Table) -> Table:
        pause = self.pause(table.counters.table.uuid)
        return table if pause is None else replace(table, pause=pause)

    def pause(self, uuid: str) -> Pause | None:
        """What holds for a table, whether or not it is known: the fleet's switch, or its own."""
        return self._switch(None) or self._switch(uuid)

    def _switch(self, uuid: str | None) -> Pause | None:
        data = self._pairs.get(pause_key(uuid))
        return None if data is None else pause_from(data)

    def put_pause(self, uuid: str | None, pause: Pause | None) -> None:
        """Pull a table's switch (or, None, the fleet's), or let go of it.

        Never deleted: the fleet's key is in every partition, and Faust deletes a key where it has
        seen it last (its index knows one partition of a key).
        """
        self._pairs.put(pause_key(uuid), pause_to_bytes(pause))

    def tables(self) -> Iterator[tuple[bytes, Table]]:
        """Every table with its key."""
        for key, data in self._pairs.scan(TABLE):
            yield key, self._paused(table_from(data))

    def put_table(self, table: Table) -> None:
        """Keep a table."""
        key = table_key(table.counters.table.uuid, table.counters.ref)
        self._touched[key] = table
        self._pairs.put(key, to_bytes(table))

    def drop_table(self, table: Table) -> None:
        """Forget a table."""
        key = table_key(table.counters.table.uuid, table.counters.ref)
        self._touched[key] = None
        self._pairs.delete(key)
        self._pairs.delete(pause_key(table.counters.table.uuid))

    def partition(self, uuid: str, ref: str, scope: Scope) -> Partition | None:
        """One partition."""
        data = self._pairs.get(partition_key(uuid, ref, scope))
        return None if data is None else partition_from(data)

    def partitions(self, uuid: str, ref: str) -> Iterator[Partition]:
        """Every partition of a ref; changes made meanwhile are not seen."""
        for _, data in self._pairs.scan(partition_prefix(uuid, ref)):
            yield partition_from(data)

    def put_partition(self, uuid: str, ref: str, partition: Partition) -> None:
        """Keep a partition."""
        self._pairs.put(partition_key(uuid, ref, partition.counters.scope), to_bytes(partition))

    def drop_partition(self, uuid: str, ref: str, scope: Scope) -> None:
        """Forget a partition."""
        self._pairs.delete(partition_key(uuid, ref, scope))

    def cursor(self, topic: str) -> int:
        """The offset after the last record of the topic that is in the state."""
        return int(self._pairs.get(cursor_key(topic)) or 0)

    def put_cursor(self, topic: str, offset: int) -> None:
        """A record is in the state with this commit; a repeated one moves nothing back."""
        if offset >= self.cursor(topic):
            self._pairs.put(cursor_key(topic), str(offset + 1).encode())

    def commit(self) -> dict[bytes, Table | None]:
        """Keep everything changed since; the tables among it by key, None = dropped."""
        self._pairs.commit()
        touched, self._touched = self._touched, {}
        return touched

    def discard(self) -> None:
        """Forget everything changed since the last commit."""
        self._pairs.discard()
        self._touched.clear()
