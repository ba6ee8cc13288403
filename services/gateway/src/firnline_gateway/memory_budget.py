"""Memory for bodies of calls that are under way: so many bytes at once, whoever sends them."""

from __future__ import annotations

from types import TracebackType

SMALL_BYTES = 64 * 1024  # nearly every commit; its request is also kept on the disk meanwhile
LARGE_SHARE = 0.75  # of the budget: what is above it is for small bodies alone


class MemoryBudget:
    """Counts bytes and waits for nobody: a body that finds no room is passed on and not kept."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self.taken = 0  # bytes that are held now

    def reservation(self) -> Reservation:
        """An empty one; it can grow."""
        return Reservation(self)

    def take(self, size: int, large: bool) -> bool:
        """False if there is no room for so many bytes more."""
        if self.taken + size > self._max * (LARGE_SHARE if large else 1.0):
            return False
        self.taken += size
        return True


class Reservation:
    """What one call holds of the budget, until `release`."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._size = 0

    def grow(self, size: int) -> bool:
        """Hold so many bytes more; False if there is no room for them."""
        if not self._budget.take(size, large=self._size + size > SMALL_BYTES):
            return False
        self._size += size
        return True

    def release(self) -> None:
        """Give all of it back; again does nothing."""
        self._budget.taken -= self._size
        self._size = 0

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
