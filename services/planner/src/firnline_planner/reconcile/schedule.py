"""Schedule of a bucket: when each table is reconciled next, and when its state is published
next."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from firnline_domain.counters.state.work import Table

from firnline_planner.state.encoding import reconcile_ms

K = TypeVar("K", bound=Hashable)


class Schedule(Generic[K]):
    """The next due moment of each key. A tick with nothing due costs one comparison."""

    def __init__(self) -> None:
        self._due: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._pushed = 0  # breaks ties, so that keys are never compared

    def __len__(self) -> int:
        return len(self._due)

    def set_due(self, key: K, due_ms: int | None) -> None:
        """Set a key's due time; None removes the key."""
        if due_ms is None:
            self._due.pop(key, None)
        elif self._due.get(key) != due_ms:
            self._due[key] = due_ms
            self._pushed += 1
            heapq.heappush(self._heap, (due_ms, self._pushed, key))

    def take_due(self, now_ms: int, limit: int | None = None) -> list[K]:
        """Remove and return the keys whose time has come, earliest first, at most `limit`."""
        found: list[K] = []
        while self._heap and self._heap[0][0] <= now_ms and len(found) != limit:
            due_ms, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due_ms:  # else it was planned anew
                del self._due[key]
                found.append(key)
        return found


@dataclass(frozen=True)
class Due:
    """Keys of tables whose time has come."""

    reconciles: list[bytes]
    publications: list[bytes]


NOTHING = Due([], [])


class TableSchedule:
    """Two of them: orders depend on reconciles, so those never queue behind what people see."""

    def __init__(self) -> None:
        self._reconciles: Schedule[bytes] = Schedule()
        self._publications: Schedule[bytes] = Schedule()

    def add_unread(self, key: bytes, due_ms: int | None) -> None:
        """Add a table that was not read yet; its first reconcile sets the rest (`update_table`)."""
        self._reconciles.set_due(key, due_ms)

    def update_table(self, key: bytes, table: Table | None) -> None:
        """Schedule the table as it is kept now; None = dropped."""
        self._reconciles.set_due(key, None if table is None else reconcile_ms(table))
        self._publications.set_due(key, None if table is None else table.work.publish_ms)

    def delay_table(self, key: bytes, reconcile_ms: int | None, publish_ms: int | None) -> None:
        """Delay reconcile and publication of a table that has failed until these times; None = as
        scheduled."""
        if reconcile_ms is not None:
            self._reconciles.set_due(key, reconcile_ms)
        if publish_ms is not None:
            self._publications.set_due(key, publish_ms)

    def take_due(self, now_ms: int, reconciles: int | None, publications: int | None) -> Due:
        """Remove and return at most that many of each kind, those that have waited longest."""
        return Due(
            self._reconciles.take_due(now_ms, reconciles),
            self._publications.take_due(now_ms, publications),
        )

    def put_back(self, due: Due, now_ms: int) -> None:
        """Schedule the tables of a tick again, for now, because its changes were not kept."""
        for key in due.reconciles:
            self._reconciles.set_due(key, now_ms)
        for key in due.publications:
            self._publications.set_due(key, now_ms)
