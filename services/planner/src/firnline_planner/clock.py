"""The wall clock, for drivers: everything behind them is told the time."""

from __future__ import annotations

import time


def wall_ms() -> int:
    """Now, in milliseconds since 1970."""
    return int(time.time() * 1000)
