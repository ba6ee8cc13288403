"""The state of a planner's bucket in memory."""

from __future__ import annotations

from collections.abc import Iterator

from firnline_planner.state.stores import MAX_VALUE_BYTES


class MemoryStore:
    """A dict."""

    max_value_bytes = MAX_VALUE_BYTES

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        """See `KeyValueStore.get`."""
        return self.values.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """See `KeyValueStore.put`."""
        self.values[key] = value

    def delete(self, key: bytes) -> None:
        """See `KeyValueStore.delete`."""
        del self.values[key]

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `KeyValueStore.scan`."""
        yield from sorted(pair for pair in self.values.items() if pair[0].startswith(prefix))
