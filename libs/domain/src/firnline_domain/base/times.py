"""Spans of time in milliseconds and seconds, and the earliest of several points in time."""

from __future__ import annotations

HOUR_S = 3_600.0
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
CLOCKS_DIFFER_MS = 5 * MINUTE_MS  # that clocks of hosts that are looked after may differ


def earliest_of(*moments: int | None) -> int | None:
    """Return the first of the moments that are set, else None."""
    first = None
    for moment in moments:
        if moment is not None and (first is None or moment < first):
            first = moment
    return first
