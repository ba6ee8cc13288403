"""Track which offset of a partition may be committed when records finish out of order."""

from __future__ import annotations


class OffsetTracker:
    """Offsets of one partition: everything below `committable` is done."""

    def __init__(self, start: int) -> None:
        self._next = start
        self._open: set[int] = set()

    @property
    def next_to_read(self) -> int:
        """Return the offset after the last record read."""
        return self._next

    @property
    def committable(self) -> int:
        """Return the lowest offset that is not done: the one to commit (Kafka commits the
        *next*)."""
        return min(self._open, default=self._next)

    def mark_read(self, offset: int) -> None:
        """Note that a record was read; nothing above it is committed until it is done."""
        self._open.add(offset)
        self._next = max(self._next, offset + 1)

    def mark_done(self, offset: int) -> None:
        """Note that a record is done; repeating it does no harm."""
        self._open.discard(offset)
