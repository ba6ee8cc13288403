"""Numbers, ages and names for a terminal."""

from __future__ import annotations

from typing import Any

from rich.filesize import decimal
from rich.text import Text

STATUS = {
    "in_flight": "at work",
    "would_order": "would order",
    "cooling": "cooling",
    "backing_off": "backing off",
    "parked": "parked",
}
COLOURS = {
    "in_flight": "cyan",
    "would_order": "cyan",
    "running": "cyan",
    "committed": "green",
    "conflicted": "yellow",
    "overdue": "yellow",
    "backing_off": "yellow",
    "failed": "red",
    "parked": "red",
    "idle": "dim",
    "skipped": "dim",
    "cooling": "dim",
}


def age(at_ms: int | None, now_ms: int) -> str:
    """`now`, `45 s`, `3 min`, `2 h`, `4 d`; `-` where it is not known."""
    if at_ms is None:
        return "-"
    seconds = max(now_ms - at_ms, 0) / 1000
    for limit, size, unit in (
        (1.5, 0, "now"),
        (90, 1, "s"),
        (5400, 60, "min"),
        (172_800, 3600, "h"),
    ):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}" if size else unit
    return f"{seconds / 86_400:.0f} d"


def number(value: Any) -> str:
    """`12,345`; `-` where it is not known."""
    return "-" if value is None else f"{value:,}"


def size(value: Any) -> str:
    """`1.2 MB`, decimal units; `-` where it is not known."""
    return "-" if value is None else decimal(value)


def plain(text: str) -> str:
    """Without control characters: names from outside do not drive the terminal."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def styled(text: str, style: str = "") -> Text:
    """Text for rich, never markup."""
    return Text(plain(text), style=style)


def status_text(code: str) -> Text:
    """A status in its colour; an unknown one as it is."""
    return styled(STATUS.get(code, code), COLOURS.get(code, ""))
