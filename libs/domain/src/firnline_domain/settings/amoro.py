"""Amoro's table properties that mean something here, and what.

The others are a table in docs/reference/properties.md.
Names and defaults as of Amoro 0.9 (its page "Table Configurations", and `TableProperties`).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from firnline_domain.base.numbers import MAX_CHARS
from firnline_domain.base.values import Value

PREFIX = "self-optimizing."
NEVER_MS = 100 * 365 * 86_400_000  # what Amoro writes as an interval below zero


def _same(text: str) -> str:
    return text


_BELOW_ZERO = re.compile(r"-[0-9]{1,18}", re.ASCII)


def _interval(text: str) -> str:
    """Milliseconds; below zero means never."""
    return str(NEVER_MS) if _BELOW_ZERO.fullmatch(text.strip(" \t\r\n")) else text


def _interval_or_zero(text: str) -> str:
    """Milliseconds; below zero means never, which is 0 here."""
    return "0" if _BELOW_ZERO.fullmatch(text.strip(" \t\r\n")) else text


_DURATION = re.compile(r"(\d{1,15}) *([a-z]*)", re.ASCII)
_UNITS_MS = {
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("", "min", "minute", "minutes"), 60_000),  # without a unit: minutes
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1),
}


def _duration(text: str) -> str:
    """`720min`, `7 d` in milliseconds; any other text as it is."""
    match = _DURATION.fullmatch(text.strip(" \t\r\n").lower()) if len(text) <= MAX_CHARS else None
    if match is None or match[2] not in _UNITS_MS:
        return text
    return str(int(match[1]) * _UNITS_MS[match[2]])


class Meaning(Value):
    """Fields of `Thresholds` that a property sets, its text in their terms, and how to write it
    where that differs from them."""

    fields: tuple[str, ...]
    translated: Callable[[str], str] = _same
    form: str = ""


UNDERSTOOD = {
    # Who forbids Amoro to optimize a table may have meant Amoro alone: there is advice about it.
    "self-optimizing.enabled": Meaning(("enabled",)),
    # Amoro counts both kinds together; each has its own threshold here.
    "self-optimizing.minor.trigger.file-count": Meaning(("min_fragments", "min_equality_deletes")),
    "self-optimizing.minor.trigger.interval": Meaning(("max_age_ms",), _interval),
    "self-optimizing.major.trigger.duplicate-ratio": Meaning(("min_dead_ratio",)),
    "self-optimizing.full.trigger.interval": Meaning(("full_interval_ms",), _interval_or_zero),
    # Whoever has told Amoro to keep snapshots means it, whoever expires them.
    "table-expire.enabled": Meaning(("gc_enabled",)),
    "snapshot.keep.duration": Meaning(
        ("max_snapshot_age_ms",), _duration, "duration, as in 720min, 12h or 7d"
    ),
    "snapshot.keep.min-count": Meaning(("min_snapshots",)),
    "self-optimizing.group": Meaning(("group",)),
}
# These texts ask for what Firnline does anyway: nothing to say about them.
NO_DIFFERENCE = frozenset(
    {
        ("self-optimizing.fragment-ratio", "8"),
        ("self-optimizing.min-target-size-ratio", "0.75"),
        ("self-optimizing.allow-partial-commit", "true"),
        ("self-optimizing.full.rewrite-all-files", "true"),
    }
)
