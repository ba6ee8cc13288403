"""Limit the calls to one catalog in each minute, over all threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

BURST_SHARE = 0.1  # of a minute's calls, that may come at once
TINY = 1e-6  # of a call: what sums of floats lose, or a wait could be too short to end


class CallBudget:
    """A bucket of calls. In no minute are there more than `per_minute`."""

    def __init__(
        self,
        per_minute: float,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._now, self._sleep = now, sleep
        self._lock = threading.Lock()
        self._burst = max(per_minute * BURST_SHARE, 1.0)
        self._rate = max(per_minute - self._burst, per_minute / 2) / 60
        self._left, self._at = self._burst, now()

    def take_call(self) -> None:
        """Wait for a call, and take it."""
        while (wait_s := self._try_to_take()) > 0:
            self._sleep(wait_s)

    def has_call(self, reserved: int = 0) -> bool:
        """Return whether a call is left besides those that are reserved."""
        with self._lock:
            self._fill()
            return self._left >= reserved + 1

    def _try_to_take(self) -> float:
        """Take a call and return 0, or return how long to wait for the next one."""
        with self._lock:
            self._fill()
            if self._left >= 1 - TINY:
                self._left -= 1
                return 0.0
            return (1 - self._left) / self._rate

    def _fill(self) -> None:
        now = self._now()
        self._left = min(self._left + (now - self._at) * self._rate, self._burst)
        self._at = now
