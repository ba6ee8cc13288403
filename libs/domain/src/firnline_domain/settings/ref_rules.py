"""Choose which tags and branches go, by rules of a table's owner: patterns and ages.

daily-* 30d keep 7; release-* never; * 90d

Several rules are separated by `;`; of a tag the first whose pattern it fits holds, and one that
fits none stays. `keep 7`: the seven newest of the pattern stay whatever their age. A ref is as old
as the snapshot that it points at, which is how Iceberg counts (`history.expire.max-ref-age-ms`)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
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
