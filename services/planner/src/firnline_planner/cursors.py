"""How far one bucket's state has read each topic."""

from __future__ import annotations

from firnline_planner.pairs import Pairs
from firnline_planner.staged import Staged
from firnline_planner.values import CURSOR, cursor_key


class Cursors:
    """Those that are kept, each read once, and what is staged of them."""

    def __init__(self, pairs: Pairs, staged: Staged) -> None:
        self._pairs = pairs
        self._staged = staged
        self._kept: dict[bytes, int] = {}

    @property
    def are_none(self) -> bool:
        """True if no record is in the state."""
        return next(self._pairs.scan(CURSOR), None) is None

    def of(self, topic: str) -> int:
        """The offset after the last record of the topic that is in the state."""
        key = cursor_key(topic)
        if key not in self._kept:
            self._kept[key] = int(self._pairs.get(key) or 0)
        staged = self._staged.get(key)
        return staged if isinstance(staged, int) else self._kept[key]

    def put(self, topic: str, offset: int) -> None:
        """A record is in the state with this commit; a repeated one moves nothing back."""
        if offset >= self.of(topic):
            self._staged[cursor_key(topic)] = offset + 1

    def keep(self, key: bytes, offset: int) -> None:
        """One is final."""
        self._kept[key] = offset
        self._pairs.put(key, str(offset).encode())
