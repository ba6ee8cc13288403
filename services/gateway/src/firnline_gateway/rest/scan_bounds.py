"""The time between which a scan wants rows, as its filter says it (Iceberg's `ExpressionParser`).

Java's clients tell no values: a date or a timestamp within 90 days is told by its distance from
now, in days or hours (`ExpressionUtil.sanitize`). That is what is read here, and plain dates and
timestamps of clients that tell them. Other values say nothing of time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.base.values import Value

MAX_VALUES = 1_000  # of one `in`: with more the condition counts as none
ABOUT_NOW_MS = 5 * 60_000
_FROM = frozenset({"gt", "gt-eq", "eq", "in"})
_UNTIL = frozenset({"lt", "lt-eq", "eq", "in"})
_TOLD = re.compile(r"\((date|timestamp)-(\d{1,4})-(hours|days)-(ago|from-now)\)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_UNITS = {"hours": HOUR_MS, "days": DAY_MS}
Span = tuple[int, int]  # the first and the last millisecond that a value may stand for


class TimeBounds(Value):
    """The first and the last millisecond of what is wanted; None = there is no such bound."""

    from_ms: int | None = None
    until_ms: int | None = None

    def intersect(self, other: TimeBounds) -> TimeBounds:
        """Return the bounds that meet both."""
        starts = [one for one in (self.from_ms, other.from_ms) if one is not None]
        ends = [one for one in (self.until_ms, other.until_ms) if one is not None]
        return TimeBounds(max(starts, default=None), min(ends, default=None))

    def span_both(self, other: TimeBounds) -> TimeBounds:
        """Return bounds that contain both, with all times between."""
        return TimeBounds(
            None if None in (self.from_ms, other.from_ms) else min(self.from_ms, other.from_ms),  # type: ignore[type-var]
            None if None in (self.until_ms, other.until_ms) else max(self.until_ms, other.until_ms),  # type: ignore[type-var]
        )


def bounds_of(condition: str, values: Iterable[Any], now_ms: int) -> TimeBounds:
    """Return the time bounds of one condition on a column; no bounds if its values are not
    times."""
    known = [span_of(value, now_ms) for value in values]
    spans = [one for one in known if one is not None]
    if not spans or len(spans) < len(known):
        return TimeBounds()
    return TimeBounds(
        min(map(_span_start, spans)) if condition in _FROM else None,
        max(_span_end(span, condition) for span in spans) if condition in _UNTIL else None,
    )


def _span_start(span: Span) -> int:
    """Return the start of a span; if full hours or days ago include a midnight, that midnight is
    what people mean."""
    midnight_ms = span[1] // DAY_MS * DAY_MS
    return max(span[0], midnight_ms)


def _span_end(span: Span, condition: str) -> int:
    first, last = span
    midnight_ms = last // DAY_MS * DAY_MS
    return midnight_ms - 1 if condition == "lt" and first <= midnight_ms != last else last


def span_of(value: Any, now_ms: int) -> Span | None:
    """Return the time that a value stands for; None for other values."""
    if not isinstance(value, str):
        return None
    if told := _TOLD.fullmatch(value):
        kind, number, unit, way = told.groups()
        return _relative_span(kind, int(number), _UNITS[unit], way == "ago", now_ms)
    if value == "(date-today)":
        return _day_span(now_ms)
    if value == "(timestamp-about-now)":
        return now_ms - ABOUT_NOW_MS, now_ms + ABOUT_NOW_MS
    return _literal_span(value)


def _relative_span(kind: str, number: int, unit_ms: int, ago: bool, now_ms: int) -> Span:
    if kind == "date":
        return _day_span(now_ms + (-number if ago else number) * DAY_MS)
    # Full hours or days: up to one more has passed.
    if ago:
        return now_ms - (number + 1) * unit_ms, now_ms - number * unit_ms
    return now_ms + number * unit_ms, now_ms + (number + 1) * unit_ms


def _day_span(at_ms: int) -> Span:
    begins_ms = at_ms // DAY_MS * DAY_MS
    return begins_ms, begins_ms + DAY_MS - 1


def _literal_span(value: str) -> Span | None:
    """Return the first and the last ms of a date or a time in ISO 8601, UTC without a zone; None if
    it is neither."""
    if not _DATE.match(value):
        return None
    try:
        then = datetime.fromisoformat(value)
    except ValueError:
        return None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    at_ms = int(then.timestamp() * 1_000)
    return _day_span(at_ms) if _DATE.fullmatch(value) else (at_ms, at_ms)
