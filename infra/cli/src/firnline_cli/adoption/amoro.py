"""Amoro's table properties as Firnline's: the statements that set them, for `adopt --from-amoro`.

Names and defaults as of Amoro 0.9 (its page "Table Configurations", and `TableProperties`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from firnline_domain.base.numbers import parse_number
from firnline_domain.base.times import DAY_MS, HOUR_MS, MINUTE_MS

OPTIMIZING = "self-optimizing."
NEVER_MS = 100 * 365 * DAY_MS
_DURATION = re.compile(r"(\d{1,15}) *([a-z]*)", re.ASCII)
_UNITS_MS = {
    **dict.fromkeys(("d", "day", "days"), DAY_MS),
    **dict.fromkeys(("h", "hour", "hours"), HOUR_MS),
    **dict.fromkeys(("", "min", "minute", "minutes"), MINUTE_MS),  # without a unit: minutes
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1),
}


def _copy_word(text: str) -> str | None:
    return text if re.fullmatch(r"[\w.-]+", text, re.ASCII) else None


def _convert_interval(never_ms: int) -> Callable[[str], str | None]:
    """Return a reader of milliseconds; `never_ms` replaces a negative number, Amoro's "never"."""

    def convert(text: str) -> str | None:
        interval_ms = parse_number(text.removeprefix("-"))
        if interval_ms is None:
            return None
        return str(never_ms if text.startswith("-") else interval_ms)

    return convert


def _convert_duration(text: str) -> str | None:
    """Convert `720min` or `7 d` to milliseconds, as text; None if it is no duration."""
    match = _DURATION.fullmatch(text.lower())
    if match is None or match[2] not in _UNITS_MS:
        return None
    return str(int(match[1]) * _UNITS_MS[match[2]])


CONVERSIONS: dict[str, tuple[tuple[str, ...], Callable[[str], str | None]]] = {
    "self-optimizing.enabled": (("firnline.enabled",), _copy_word),
    # Amoro counts both kinds together; each has its own threshold here.
    "self-optimizing.minor.trigger.file-count": (
        ("firnline.rewrite.min-fragments", "firnline.rewrite.min-equality-deletes"),
        _copy_word,
    ),
    "self-optimizing.minor.trigger.interval": (
        ("firnline.rewrite.max-age-ms",),
        _convert_interval(NEVER_MS),
    ),
    "self-optimizing.major.trigger.duplicate-ratio": (
        ("firnline.rewrite.min-dead-ratio",),
        _copy_word,
    ),
    "self-optimizing.full.trigger.interval": (
        ("firnline.rewrite.full-interval-ms",),
        _convert_interval(0),
    ),
    "self-optimizing.group": (("firnline.group",), _copy_word),
    "table-expire.enabled": (("gc.enabled",), _copy_word),
    "snapshot.keep.duration": (("history.expire.max-snapshot-age-ms",), _convert_duration),
    "snapshot.keep.min-count": (("history.expire.min-snapshots-to-keep",), _copy_word),
}


def convert_properties(properties: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the properties to set, and Amoro's names that have no counterpart or no readable
    value. A property that the table sets already is left alone."""
    converted: dict[str, str] = {}
    ignored = []
    for name, text in sorted(properties.items()):
        if name in CONVERSIONS:
            targets, convert = CONVERSIONS[name]
            if (value := convert(text.strip(" \t\r\n"))) is None:
                ignored.append(name)
            else:
                converted |= {one: value for one in targets if one not in properties}
        elif name.startswith(OPTIMIZING):
            ignored.append(name)
    return converted, ignored


def alter_table(name: tuple[str, ...], properties: Mapping[str, str]) -> str:
    """Write the statement that sets properties, in Spark's SQL."""
    table = ".".join("`" + level.replace("`", "``") + "`" for level in name)
    settings = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    return f"ALTER TABLE {table} SET TBLPROPERTIES ({settings});"
