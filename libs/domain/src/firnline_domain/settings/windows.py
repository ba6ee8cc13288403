"""Define when maintenance may run: windows that recur, and blackouts.

Mon-Fri 22:00-06:00 Europe/Berlin; Sat,Sun 00:00-24:00 Europe/Berlin
2026-12-24T00:00Z/2026-12-27T00:00Z; Mon-Fri 08:00-18:00 Europe/Berlin

Several are separated by `;`. Without days every day is meant, without a zone UTC. A window that
ends before it begins ends on the next day. Times are those of the zone's clocks: a window from
22:00 to 06:00 is an hour shorter or longer in the nights when they are moved. People write the year
9999 for "for ever": what lies beyond the calendar, in UTC, is moved to its end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import Value
from firnline_domain.settings.rule_lists import UnreadableRules, split_rules

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
# A table's owner may write what he likes, and every tick evaluates it: 400 periods take 20 ms.
MAX_PERIODS = 400
MAX_PERIOD_CHARS = 200
FIRST_MS, LAST_MS = 0, 253_402_300_799_999  # 1970-01-01T00:00Z to 9999-12-31T23:59:59.999Z
# Of the moments at which weekly periods are looked for: a fortnight from the calendar's ends.
FIRST_NOW_MS, LAST_NOW_MS = FIRST_MS + 14 * DAY_MS, LAST_MS - 14 * DAY_MS
AHEAD_DAYS = 8  # a week and a day: the next beginning of anything that recurs is within it
_ZONE = r"(?: +(?P<zone>\S+))?"
_WEEKLY = re.compile(
    r"(?:(?P<days>[A-Za-z,-]+) +)?(?P<start>\d\d:\d\d)-(?P<end>\d\d:\d\d)" + _ZONE, re.ASCII
)
_ONCE = re.compile(r"(?P<start>\d{4}-\d\d-\d\d\S*)/(?P<end>\d{4}-\d\d-\d\d\S*)" + _ZONE, re.ASCII)
FORM = (
    "write '[DAYS] HH:MM-HH:MM [ZONE]', as in 'Mon-Fri 22:00-06:00 Europe/Berlin', or "
    "'START/END [ZONE]', as in '2026-12-24T00:00Z/2026-12-27T00:00Z'; several with ';' between"
)


class TimeSpan(Value):
    """From a moment to another, that one left out; milliseconds since 1970."""

    start_ms: int
    end_ms: int


class Weekly(Value):
    """The same hours on some days of the week, by the clocks of a zone."""

    days: frozenset[int]  # 0 = Monday; of the beginning
    start_minute: int
    end_minute: int
    zone: str

    def spans_around(self, now_ms: int) -> Iterator[TimeSpan]:
        """Yield those that are not over for longer than a day, and those of the next week."""
        zone = ZoneInfo(self.zone)
        at_ms = min(max(now_ms, FIRST_NOW_MS), LAST_NOW_MS)
        today = datetime.fromtimestamp(at_ms / 1000, zone).date()
        over_night = self.end_minute <= self.start_minute
        for number in range(-2, AHEAD_DAYS + 1):
            day = today + timedelta(days=number)
            if day.weekday() in self.days:
                end_day = day + timedelta(days=1) if over_night else day
                start_ms = _moment_ms(day, self.start_minute, zone)
                end_ms = _moment_ms(end_day, self.end_minute, zone)
                if start_ms < end_ms:  # else the clocks were moved past all of it
                    yield TimeSpan(start_ms, end_ms)


class Once(Value):
    """A period that comes once."""

    span: TimeSpan

    def spans_around(self, now_ms: int) -> Iterator[TimeSpan]:
        """Yield the span, until it is over."""
        if now_ms < self.span.end_ms:
            yield self.span


Period = Weekly | Once


@lru_cache(maxsize=512)
def parse_periods(text: str) -> tuple[Period, ...]:
    """Read a setting; nothing if it is empty. Raises UnreadableRules, and nothing else for any
    text: a table's owner writes it, and all tables of a bucket would wait for the end."""
    try:
        parts = split_rules(text)
        if len(parts) > MAX_PERIODS:
            raise UnreadableRules(f"{len(parts)} periods: write {MAX_PERIODS} at the most")
        return tuple(_parse_period(part) for part in parts)
    except UnreadableRules:
        raise
    except Exception as error:  # of a library: calendars and zones have odd corners
        name = type(error).__name__
        raise UnreadableRules(f"'{text[:80]}' cannot be read ({name}): {FORM}") from error


@lru_cache(maxsize=64)  # every partition of a table asks at the same moment
def inside_until(text: str, now_ms: int) -> int | None:
    """Return when the present period ends, with those that follow without a pause, in ms since
    1970; None if none is on. Raises UnreadablePeriod."""
    return _inside_until(parse_periods(text), now_ms)


@lru_cache(maxsize=64)
def opens_ms(text: str, now_ms: int) -> int | None:
    """Return when the next period begins; None = never again. Raises UnreadablePeriod."""
    starts = (
        span.start_ms for period in parse_periods(text) for span in period.spans_around(now_ms)
    )
    return min((start for start in starts if start > now_ms), default=None)


def _inside_until(every: Iterable[Period], now_ms: int) -> int | None:
    spans = _merge_spans(span for period in every for span in period.spans_around(now_ms))
    return next((one.end_ms for one in spans if one.start_ms <= now_ms < one.end_ms), None)


def _merge_spans(spans: Iterable[TimeSpan]) -> list[TimeSpan]:
    """Merge spans in their order; those that overlap or touch are one."""
    found: list[TimeSpan] = []
    for span in sorted(spans, key=lambda one: one.start_ms):
        if found and span.start_ms <= found[-1].end_ms:
            end_ms = max(found[-1].end_ms, span.end_ms)
            found[-1] = TimeSpan(found[-1].start_ms, end_ms)
        else:
            found.append(span)
    return found


def list_openings(text: str, now_ms: int, until_ms: int) -> list[TimeSpan]:
    """List when periods are on between two moments, at most AHEAD_DAYS apart. Raises
    UnreadableRules."""
    spans = _merge_spans(
        span for period in parse_periods(text) for span in period.spans_around(now_ms)
    )
    clipped = (TimeSpan(max(one.start_ms, now_ms), min(one.end_ms, until_ms)) for one in spans)
    return [one for one in clipped if one.start_ms < one.end_ms]


def _moment_ms(day: date, minute: int, zone: ZoneInfo) -> int:
    """Return a moment in milliseconds. A local time that the clocks skip is read as if they had not
    been moved yet."""
    day, minute = (day + timedelta(days=1), 0) if minute == 24 * 60 else (day, minute)
    local = datetime.combine(day, time(minute // 60, minute % 60), zone)
    return int(local.timestamp() * 1000)


def _parse_period(text: str) -> Period:
    if len(text) > MAX_PERIOD_CHARS:
        raise UnreadableRules(f"'{text[:80]}...' is longer than {MAX_PERIOD_CHARS} characters")
    if match := _ONCE.fullmatch(text):
        return _parse_once(text, match["start"], match["end"], _parse_zone(text, match["zone"]))
    if match := _WEEKLY.fullmatch(text):
        days = _parse_days(text, match["days"])
        start, end = _parse_minute(text, match["start"]), _parse_minute(text, match["end"])
        if start == end or start == 24 * 60:
            raise UnreadableRules(f"'{text}' is empty; the whole day is 00:00-24:00")
        return Weekly(days, start, end, _parse_zone(text, match["zone"]) or "UTC")
    raise UnreadableRules(f"'{text}' cannot be read: {FORM}")


def _parse_zone(text: str, name: str | None) -> str:
    try:
        return ZoneInfo(name).key if name else ""
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = "write one as Europe/Berlin or UTC"
        raise UnreadableRules(f"'{name}' in '{text}' is no time zone; {known}") from None


def _parse_days(text: str, names: str | None) -> frozenset[int]:
    if names is None:
        return frozenset(range(7))
    days: set[int] = set()
    for part in names.lower().split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            known = ", ".join(day.capitalize() for day in DAYS)
            raise UnreadableRules(f"'{part}' in '{text}' is no day; the days are {known}")
        start = DAYS.index(first)
        length = (DAYS.index(last or first) - start) % 7
        days |= {(start + number) % 7 for number in range(length + 1)}
    return frozenset(days)


def _parse_minute(text: str, clock: str) -> int:
    hour, minute = int(clock[:2]), int(clock[3:])
    if minute > 59 or hour * 60 + minute > 24 * 60:
        raise UnreadableRules(f"'{clock}' in '{text}' is no time of day (00:00 to 24:00)")
    return hour * 60 + minute


def _parse_once(text: str, start: str, end: str, zone: str) -> Once:
    span = TimeSpan(_instant_ms(text, start, zone), _instant_ms(text, end, zone))
    if span.end_ms <= span.start_ms:
        raise UnreadableRules(f"'{text}' ends before it begins")
    return Once(span)


def _instant_ms(text: str, moment: str, zone: str) -> int:
    try:
        instant = datetime.fromisoformat(moment)
    except ValueError:
        raise UnreadableRules(f"'{moment}' in '{text}' is no date and time: {FORM}") from None
    if instant.tzinfo is None:
        if not zone:
            raise UnreadableRules(
                f"'{moment}' in '{text}' has no zone: end it with Z or an offset, or name a zone "
                "behind the period"
            )
        instant = instant.replace(tzinfo=ZoneInfo(zone))
    # By arithmetic: `astimezone` raises where UTC has no such year.
    return min(max(int(instant.timestamp() * 1000), FIRST_MS), LAST_MS)
