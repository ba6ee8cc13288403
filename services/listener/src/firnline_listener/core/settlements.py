"""Which doorbells of a source are dealt with: all up to a position, or the source hears nothing."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class Ring:
    """One doorbell of a source, from `poll` to `settle`."""

    position: Any
    is_done: bool = False


class Settlements:
    """The doorbells of one source in its order. Any thread ends one, the source's settles."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: deque[Ring] = deque()

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, position: Any) -> Ring:
        """Note a doorbell."""
        ring = Ring(position)
        with self._lock:
            self._open.append(ring)
        return ring

    def take_settled(self) -> Ring | None:
        """Forget the doorbells that are dealt with, up to the first that is not, and return the
        last of them."""
        last = None
        with self._lock:
            while self._open and self._open[0].is_done:
                last = self._open.popleft()
        return last
