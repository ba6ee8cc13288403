"""A bucket's state as pairs of bytes: what a driver has to bring."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class Readable(Protocol):
    """Keys and values of one bucket, sorted by key."""

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Pairs whose key starts with the prefix, in order; the pairs do not change meanwhile."""


class Store(Readable, Protocol):
    """Pairs that were kept."""

    def get_all(self, keys: list[bytes]) -> list[bytes | None]:
        """The value of each key, or None."""


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
