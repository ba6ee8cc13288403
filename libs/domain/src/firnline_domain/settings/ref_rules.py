"""Choose which tags are made and which tags and branches go, by rules of a table's owner.

Rules for refs to expire are patterns and ages: daily-* 30d keep 7; release-* never; * 90d

Rules for tags to create are names, in which the word in braces says how long the period is and
stands for it (UTC): daily-{date}; monthly-{month}

Several rules are separated by `;`; of a tag the first whose pattern it fits holds, and one that
fits none stays. `keep 7`: the seven newest of the pattern stay whatever their age. A ref is as old
as the snapshot that it points at, which is how Iceberg counts (`history.expire.max-ref-age-ms`)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache

from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.base.values import Value
from firnline_domain.identity import MAIN
from firnline_domain.settings.rule_lists import UnreadableRules, split_rules

FORM = (
    "write 'PATTERN AGE [keep NUMBER]', as in 'daily-* 30d keep 7', with an age in hours (12h) or "
    "days (30d) or the word never; several with ';' between"
)
_RULE = re.compile(
    r"(?P<pattern>\S+) +(?:never|(?P<age>\d{1,6})(?P<unit>[hd]))(?: +keep +(?P<keep>\d{1,6}))?",
    re.ASCII,
)
_UNITS = {"h": HOUR_MS, "d": DAY_MS}
TAG_FORM = (
    "write names with one of {hour}, {date}, {week}, {month} or {year} each, as in "
    "'daily-{date}; monthly-{month}', of letters, digits, '.', '_' and '-', no name twice"
)
MAX_NAME = 100
_TAG_RULE = re.compile(r"[A-Za-z0-9._-]*\{(?P<period>[a-z]+)\}[A-Za-z0-9._-]*", re.ASCII)


class NamedRef(Value):
    """A tag, or a branch, and when the snapshot was made that it points at."""

    name: str
    at_ms: int


class RefRule(Value):
    """`age_ms` None: they stay for ever."""

    pattern: str
    age_ms: int | None
    keep: int = 0


@lru_cache(maxsize=512)
def parse_ref_rules(text: str) -> tuple[RefRule, ...]:
    """Parse a setting; nothing if it is empty. Raises UnreadableRule."""
    return tuple(_parse_rule(part) for part in split_rules(text))


def _parse_rule(text: str) -> RefRule:
    found = _RULE.fullmatch(text)
    if found is None or found["age"] == "0":
        raise UnreadableRules(f"'{text[:80]}' cannot be read: {FORM}")
    age_ms = int(found["age"]) * _UNITS[found["unit"]] if found["age"] else None
    return RefRule(found["pattern"], age_ms, int(found["keep"] or 0))


def expired_refs(refs: Iterable[NamedRef], text: str, now_ms: int) -> tuple[str, ...]:
    """Return the names of the refs that expire by the rules; never `main`. Raises
    UnreadableRules."""
    rules, of_rule = parse_ref_rules(text), defaultdict[RefRule, list[NamedRef]](list)
    for ref in refs:
        rule = next((one for one in rules if fnmatchcase(ref.name, one.pattern)), None)
        if rule is not None and rule.age_ms is not None and ref.name != MAIN:
            of_rule[rule].append(ref)
    gone = (
        ref.name
        for rule, found in of_rule.items()
        for ref in sorted(found, key=_newest_first)[rule.keep :]
        if ref.at_ms < now_ms - (rule.age_ms or 0)
    )
    return tuple(sorted(gone))


def _newest_first(ref: NamedRef) -> tuple[int, str]:
    return -ref.at_ms, ref.name


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
    rules = tuple(_parse_tag_rule(part) for part in split_rules(text))
    if len({one.name for one in rules}) < len(rules):
        raise UnreadableRules(f"a name is there twice: {TAG_FORM}")
    return rules


def _parse_tag_rule(text: str) -> TagRule:
    found = _TAG_RULE.fullmatch(text)
    if found is None or found["period"] not in _STARTS or len(text) > MAX_NAME:
        raise UnreadableRules(f"'{text[:80]}' cannot be read: {TAG_FORM}")
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
