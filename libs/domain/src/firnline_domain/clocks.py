"""Compare the clocks of several hosts before something that cannot be taken back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from firnline_domain.base.times import MINUTE_MS
from firnline_domain.errors import TaskRefused

CLOCKS_DIFFER = "clocks_differ"
FURTHEST_MS = 5 * MINUTE_MS  # apart: with a time server hosts differ by milliseconds
ORDERED = "the order"


def agreed_now(clocks: Mapping[str, int], ordered_at_ms: int) -> int:
    """Return the earliest of several clocks, in milliseconds since 1970. `clocks`: by their owners.
    `ordered_at_ms`: by the clock of the sender of the task, some time ago.

    Raises TaskRefused `clocks_differ`, to be tried again: they are more than five minutes apart, or
    there is only one."""
    moments = sorted((at_ms, name) for name, at_ms in clocks.items())
    if len(moments) < 2:
        text = "only one clock is known: neither the catalog nor the storage dates its answers"
        raise TaskRefused(CLOCKS_DIFFER, text, retryable=True)
    (first_ms, _), (last_ms, _) = moments[0], moments[-1]
    if max(last_ms, ordered_at_ms) - first_ms > FURTHEST_MS:
        shown = [*moments, (ordered_at_ms, ORDERED)] if ordered_at_ms > first_ms else moments
        said = ", ".join(f"{name} {_format_time(at_ms)}" for at_ms, name in shown)
        text = f"clocks are more than 5 min apart: {said}. Set the wrong one (chronyc tracking)"
        raise TaskRefused(CLOCKS_DIFFER, text, retryable=True)
    return first_ms


def _format_time(at_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):  # no year of Python's
        return f"{at_ms} ms"
