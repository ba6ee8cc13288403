"""Where a task's time went."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Clock:
    """Times of one task, in ms since the epoch and in seconds by phase."""

    started_ms: int
    first_byte_ms: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.monotonic)

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.seconds[f"{name}_seconds"] = round(now - self._last, 3)
        self._last = now
