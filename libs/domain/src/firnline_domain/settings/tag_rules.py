"""Choose which tags are made at the end of a period, by rules of a table's owner: their names.

daily-{date}; monthly-{month}

The word in braces says how long the period is, and stands for it in the name (UTC). Which of them
go again, `parse_ref_rules` says."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from firnline_domain.base.values import Value
from firnline_domain.settings.rule_lists import UnreadableRules, split_rules

FORM = (
    "write names with one of {hour}, {date}, {week}, {month} or {year} each, as in "
    "'daily-{date}; monthly-{month}', of letters, digits, '.', '_' and '-', no name twice"
)
MAX_NAME = 100
_RULE = re.compile(r"[A-Za-z0-9._-]*\{(?P<period>[a-z]+)\}[A-Za-z0-9._-]*", re.ASCII)


class TagRule(Value):
    """`name` holds `{period}`."""

    name: str
    period: str


class Period(Value):
    """`tag`: its name, `[start_ms, end_ms)` what it stands for."""

    tag: str
    start_ms: int
    end_ms: int


@lru_cache(maxsize=512)
def parse_tag_rules(text: str) -> tuple[TagRule, ...]:
    """Parse a setting; nothing if it is empty. Raises UnreadableTags."""
    rules = tuple(_parse_rule(part) for part in split_rules(text))
    if len({one.name for one in rules}) < len(rules):
        raise UnreadableRules(f"a name is there twice: {FORM}")
    return rules


def _parse_rule(text: str) -> TagRule:
    found = _RULE.fullmatch(text)
    if found is None or found["period"] not in _STARTS or len(text) > MAX_NAME:
        raise UnreadableRules(f"'{text[:80]}' cannot be read: {FORM}")
    return TagRule(text, found["period"])


def periods_at(text: str, at_ms: int) -> tuple[Period, ...]:
    """Return of each rule the period that a time is in. Raises UnreadableTags."""
    return tuple(_period_at(rule, at_ms) for rule in parse_tag_rules(text))


def periods_ended(text: str, at_ms: int, seen_ms: int | None = None) -> tuple[Period, ...]:
    """Return of each rule the newest period that was over at a time; of those up to `seen_ms`.
    Raises UnreadableRules."""
    ended = (now.start_ms - 1 for now in periods_at(text, at_ms))
    last = (one if seen_ms is None else min(one, seen_ms) for one in ended)
    return tuple(
        _period_at(rule, one) for rule, one in zip(parse_tag_rules(text), last, strict=True)
    )


def _period_at(rule: TagRule, at_ms: int) -> Period:
    start_of, form = _STARTS[rule.period]
    start = start_of(datetime.fromtimestamp(at_ms / 1000, UTC))
    end = start_of(start + _LONGER_THAN[rule.period])
    tag = rule.name.replace("{" + rule.period + "}", start.strftime(form))
    return Period(tag, _to_ms(start), _to_ms(end))


def _to_ms(at: datetime) -> int:
    return int(at.timestamp()) * 1000


def _start_of_day(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


_STARTS: dict[str, tuple[Callable[[datetime], datetime], str]] = {
    "hour": (lambda at: at.replace(minute=0, second=0, microsecond=0), "%Y-%m-%dT%H"),
    "date": (_start_of_day, "%Y-%m-%d"),
    "week": (lambda at: _start_of_day(at) - timedelta(at.weekday()), "%G-W%V"),
    "month": (lambda at: _start_of_day(at).replace(day=1), "%Y-%m"),
    "year": (lambda at: _start_of_day(at).replace(month=1, day=1), "%Y"),
}
_LONGER_THAN = {  # from the start of a period into the next one, and not beyond it
    "hour": timedelta(hours=1),
    "date": timedelta(1),
    "week": timedelta(7),
    "month": timedelta(31),
    "year": timedelta(366),
}
