"""Which tables have something due: a heap of moments, rebuilt from the state on start (H16)."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Schedule(Generic[K]):
    """The next due moment of each key. A tick with nothing due costs one comparison."""

    def __init__(self) -> None:
        self._due: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._pushed = 0  # breaks ties, so that keys are never compared

    def __len__(self) -> int:
        return len(self._due)

    def plan(self, key: K, due_ms: int | None) -> None:
        """Set a key's moment; None takes it off."""
        if due_ms is None:
            self._due.pop(key, None)
        elif self._due.get(key) != due_ms:
            self._due[key] = due_ms
            self._pushed += 1
            heapq.heappush(self._heap, (due_ms, self._pushed, key))

    def due(self, now_ms: int, most: int | None = None) -> list[K]:
        """Keys whose moment has come, earliest first, at most so many; they are taken off."""
        found: list[K] = []
        while self._heap and self._heap[0][0] <= now_ms and len(found) != most:
            due_ms, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due_ms:  # else it was planned anew
                del self._due[key]
                found.append(key)
        return found
