"""Memory for bodies of calls that are under way: so much at once, whoever sends them."""

from __future__ import annotations

from types import TracebackType

SMALL_BYTES = 64 * 1024  # nearly every commit; its request is also kept on the disk meanwhile
LARGE_SHARE = 0.75  # of the room: what is above it is for small bodies alone


class Room:
    """Counts bytes, waits for nobody: who gets no room passes his body on without keeping it."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._taken = 0

    @property
    def taken(self) -> int:
        """Bytes that are held now."""
        return self._taken

    def share(self) -> Share:
        """Nothing yet; it can grow."""
        return Share(self)

    def take(self, size: int, large: bool) -> bool:
        """False if there is no room for so many bytes more."""
        if self._taken + size > self._most * (LARGE_SHARE if large else 1.0):
            return False
        self._taken += size
        return True

    def give(self, size: int) -> None:
        """So many bytes are let go of."""
        self._taken -= size


class Share:
    """What one call holds of the room, until `end`."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._size = 0

    def grow(self, size: int) -> bool:
        """Hold so many bytes more; False if there is no room for them."""
        if not self._room.take(size, large=self._size + size > SMALL_BYTES):
            return False
        self._size += size
        return True

    def end(self) -> None:
        """Give all of it back; again does nothing."""
        self._room.give(self._size)
        self._size = 0

    def __enter__(self) -> Share:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()
