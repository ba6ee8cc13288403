"""Memory for bodies of calls that are under way: so many bytes at once, whoever sends them."""

from __future__ import annotations

from collections import Counter

SMALL_BYTES = 64 * 1024  # nearly every commit; its request is also kept on the disk meanwhile
LARGE_SHARE = 0.75  # of the budget: what is above it is for small bodies alone


class MemoryBudget:
    """Counts bytes and waits for nobody: a body that finds no room is passed on and not kept.

    A caller that is known by name holds no more than what it leaves for the others: the first one
    half, the next one half of what is left. So five callers that hold all they can leave 8 MB of
    256 MB, and small bodies have a quarter in which the same holds.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self.taken = 0  # bytes that are held now
        self._of_caller: Counter[str] = Counter()  # of these

    def create_reservation(self, caller: str | None = None) -> Reservation:
        """Return an empty reservation; it can grow. `caller`: None = no particular caller."""
        return Reservation(self, caller)

    def take_bytes(self, size: int, large: bool, caller: str | None) -> bool:
        """Take that many more bytes. Return False if there is no room for them."""
        most = self._max * (LARGE_SHARE if large else 1.0)
        left = most - self.taken - size
        if left < 0 or (caller is not None and self._of_caller[caller] + size > left):
            return False
        self._add_taken(size, caller)
        return True

    def give_back(self, size: int, caller: str | None) -> None:
        """Return bytes to the budget."""
        self._add_taken(-size, caller)

    def _add_taken(self, size: int, caller: str | None) -> None:
        self.taken += size
        if caller is not None:
            self._of_caller[caller] += size


class Reservation:
    """Bytes of the budget that one call holds until `release`."""

    def __init__(self, budget: MemoryBudget, caller: str | None) -> None:
        self._budget = budget
        self._caller = caller
        self._size = 0
        self.is_refused = False  # there was no room when it was to grow

    def grow(self, size: int) -> bool:
        """Hold that many more bytes. Return False if there is no room for them."""
        large = self._size + size > SMALL_BYTES
        if not self._budget.take_bytes(size, large, self._caller):
            self.is_refused = True
            return False
        self._size += size
        return True

    def release(self) -> None:
        """Release all of it; a second call does nothing."""
        self._budget.give_back(self._size, self._caller)
        self._size = 0
