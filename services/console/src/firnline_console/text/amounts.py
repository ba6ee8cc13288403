"""Numbers as readable text."""

from __future__ import annotations

import math
from collections.abc import Mapping

from firnline_domain.identity import Scope

UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
STEP = 1000


def in_bytes(count: float) -> str:
    """Return the size in decimal units: `1.2 MB`."""
    amount, unit = float(count), 0
    while abs(amount) >= STEP and unit < len(UNITS) - 1:
        amount /= STEP
        unit += 1
    return f"{amount:.0f} {UNITS[unit]}" if unit == 0 else f"{amount:.1f} {UNITS[unit]}"


def count_text(count: int, noun: str) -> str:
    """Return the count with its noun: `1 file`, `12,000 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def in_time(seconds: float) -> str:
    """Return the duration in one unit: `45 s`, `3 min`, `2 h`, `4 d`."""
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (172_800, 3600, "h")):
        if abs(seconds) < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def scope_label(scope: Scope | None) -> str:
    """Return a partition as text; a task may have none."""
    return scope.label if scope else "whole table"


def finite_numbers(numbers: Mapping[str, float]) -> dict[str, float]:
    """Return the numbers without infinities and NaN, which JSON does not support."""
    return {name: number for name, number in numbers.items() if math.isfinite(number)}
