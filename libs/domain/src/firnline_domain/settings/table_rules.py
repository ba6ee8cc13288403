"""Rules: what an operator requires of tables, or forbids, by a pattern of their names. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache

from firnline_domain.base.numbers import Range, parse_number
from firnline_domain.base.values import Value
from firnline_domain.settings.in_force import unknown_names
from firnline_domain.settings.thresholds import PROPERTIES

FORMAT_VERSION = "format-version"
PARTITION_FIELDS = "partition-fields"  # of the current spec: `day(at)`, `bucket(16, id)`, `region`
SORT_ORDER = "sort-order"  # of the table: `at desc`
MAX_CHARS = 1_000  # of an expected value
_RANGE = re.compile(r"([0-9.eE+-]*)\.\.([0-9.eE+-]*)", re.ASCII)
Values = tuple[str, ...]  # that a table has of a property or a layout; () = none


class TableRule(Value):
    """Values that tables must have, and must not have, by the names of properties and layouts."""

    match: str
    required: tuple[tuple[str, str], ...]
    forbidden: tuple[tuple[str, str], ...]
    about: str = ""  # what it is for, in the operator's words

    @property
    def label(self) -> str:
        return f"{self.match} ({self.about})" if self.about else self.match


def asked_names(rules: Iterable[TableRule]) -> Iterator[str]:
    """Yield the names of rules whose values are not among the settings of a table."""
    for rule in rules:
        for name, _ in (*rule.required, *rule.forbidden):
            if name not in PROPERTIES and name != FORMAT_VERSION:
                yield name


def find_broken(
    rules: Iterable[TableRule], find_values: Callable[[str], Values | None]
) -> Iterator[str]:
    """Yield a text about each value that breaks a rule. `find_values` returns None for a name whose
    values are not known: it breaks none."""
    for rule in rules:
        for name, expected in rule.required:
            values = find_values(name)
            if values is not None and not any(_is_expected(one, expected) for one in values):
                yield f"{rule.label}: {name} must be {expected}, and is {_values_text(values)}"
        for name, expected in rule.forbidden:
            wrong = [one for one in find_values(name) or () if _is_expected(one, expected)]
            if wrong:
                yield f"{rule.label}: {name} must not be {_values_text(tuple(wrong))}"


def _values_text(values: Values) -> str:
    return ", ".join(values) or "not set"


def expected_problem(name: str, text: str) -> str:
    """Return why a rule cannot expect this, and what to write; "" if it can."""
    if unknown := next(unknown_names({name: ""}), ""):
        return unknown
    if len(text) > MAX_CHARS:
        return f"it is longer than {MAX_CHARS:,} characters: write a shorter value"
    for one in _alternatives(text):
        if not one:
            return "write a value, a pattern with *, or a range such as 24..168"
        if _RANGE.fullmatch(one) and _range_of(one) is None:
            return f"'{one}' is no range: write 24..168, 24.. or ..168"
    return ""


def _alternatives(text: str) -> list[str]:
    return [one.strip() for one in text.split("|")]


@lru_cache(maxsize=8_192)
def _is_expected(value: str, expected: str) -> bool:
    """Return True if a value is one of those expected; upper and lower case are the same."""
    return any(_is_like(value, one) for one in _alternatives(expected))


def _is_like(value: str, one: str) -> bool:
    if (allowed := _range_of(one)) is not None:
        return allowed.parse(value) is not None
    return fnmatchcase(value.strip().casefold(), one.casefold())


def _range_of(text: str) -> Range | None:
    """Return the range that a text describes, with an end at least; None if it is none."""
    if not (found := _RANGE.fullmatch(text)) or text == "..":
        return None
    low, high = (parse_number(end, is_whole=False) for end in found.groups())
    if (low is None and found[1]) or (high is None and found[2]):
        return None
    least, most = low or 0, float("inf") if high is None else high
    return Range(least, most, whole=False) if least <= most else None
