"""A lane: deliveries that must be dealt with in order, and how long the first has been stuck."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from firnline_domain.ports import Delivery

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 15.0
PATIENCE_S = 600.0  # a catalog's or a store's usual outage is over by then


@dataclass
class Lane:
    """One topic partition, or one table; others go on while it pauses."""

    waiting: deque[Delivery] = field(default_factory=deque)
    not_before: float = 0.0
    newest: float = 0.0  # when the last one came
    _pause: float = FIRST_PAUSE_S
    _stuck_since: float | None = None

    def arrived(self, delivery: Delivery, now: float) -> None:
        """One more."""
        self.waiting.append(delivery)
        self.newest = now

    def stuck(self, now: float) -> bool:
        """Pause, twice as long each time; True when patience is at its end."""
        self._stuck_since = now if self._stuck_since is None else self._stuck_since
        self.not_before, self._pause = now + self._pause, min(self._pause * 2, LONGEST_PAUSE_S)
        return now - self._stuck_since > PATIENCE_S

    def moving(self) -> None:
        """Something of it was dealt with."""
        self.not_before, self._pause, self._stuck_since = 0.0, FIRST_PAUSE_S, None
