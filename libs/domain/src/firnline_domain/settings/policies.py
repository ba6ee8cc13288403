"""What `firnline.toml` sets for tables, and demands of them, by a pattern of their names. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from operator import itemgetter
from typing import Generic, TypeVar

from firnline_domain.base.values import Value
from firnline_domain.identity import TableName, levels_of
from firnline_domain.settings.in_force import OURS, READ_ELSEWHERE, value_problem
from firnline_domain.settings.table_rules import TableRule
from firnline_domain.settings.thresholds import POLICY, PROPERTIES

T = TypeVar("T")
MAX_TABLES = 100_000  # remembered, 0.3 kB each
_LEVEL_END = "\x1f"  # between two levels: no catalog allows it within one
_ANY_LEVELS = "**"
_IN_LEVEL = f"[^{_LEVEL_END}]"
# Of a pattern and of a value (the holidays of ten years): both are in a table's state and tasks.
MAX_PATTERN_CHARS, MAX_VALUE_CHARS = 1_000, 8_000


class Policy(Value):
    """The properties that are set for tables whose names match."""

    match: str  # a pattern that `compile_pattern` can read
    properties: tuple[tuple[str, str], ...]


class NamePatterns(Generic[T]):
    """Values by patterns of table names, in their order."""

    def __init__(self, values: Iterable[tuple[str, T]]) -> None:
        """Compile the patterns. Raises ValueError for one that is none."""
        self._by_namespace = defaultdict[str | None, list[tuple[int, re.Pattern[str], T]]](list)
        for number, (text, value) in enumerate(values):
            found = number, compile_pattern(text), value
            self._by_namespace[_literal_namespace(text)].append(found)

    def find_values(self, name: str) -> tuple[T, ...]:
        """Return the values whose pattern matches this `matched_name`. A pattern that names a
        namespace is tried for tables within it only: a deployment has one for each of its teams."""
        namespace = name.split(_LEVEL_END, 2)[1]
        tried = (*self._by_namespace.get(None, ()), *self._by_namespace.get(namespace, ()))
        found = [one for one in tried if one[1].fullmatch(name)]
        return tuple(value for _, _, value in sorted(found, key=itemgetter(0)))


class TablePolicies:
    """All policies of a file and its rules, in its order."""

    def __init__(self, policies: Iterable[Policy] = (), rules: Iterable[TableRule] = ()) -> None:
        """Compile the patterns. Raises ValueError for one that is none."""
        self.policies, self.rules = tuple(policies), tuple(rules)
        self._policies = NamePatterns((one.match, one) for one in self.policies)
        self._rules = NamePatterns((one.match, one) for one in self.rules)
        text = repr((self.policies, self.rules))
        is_empty = not self.policies and not self.rules
        self.digest = "" if is_empty else sha256(text.encode()).hexdigest()[:16]
        self._properties_of = lru_cache(MAX_TABLES)(self._find_properties)
        self._rules_of = lru_cache(MAX_TABLES)(self._rules.find_values)

    def with_policies(self, table: TableName, settings: Mapping[str, str]) -> Mapping[str, str]:
        """Return the settings of a table and its namespace (`with_namespace`) with what the
        policies set for it now."""
        return replace_policies(settings, self.properties_of(table))

    def properties_of(self, table: TableName) -> Mapping[str, str]:
        """Return what the policies set for a table now, each under its key in the settings."""
        return self._properties_of(matched_name(table)) if self.policies else {}

    def rules_of(self, table: TableName) -> tuple[TableRule, ...]:
        """Return the rules for a table."""
        return self._rules_of(matched_name(table)) if self.rules else ()

    def _find_properties(self, name: str) -> Mapping[str, str]:
        return _merge_properties(self._policies.find_values(name))


@lru_cache(maxsize=4_096)  # most tables match the same ones, and share the result
def _merge_properties(policies: tuple[Policy, ...]) -> Mapping[str, str]:
    """Return what is set, by property and policy: of several, the last one sets it."""
    found = {
        key: (f"{POLICY}{policy.match}:{key}", text)
        for policy in policies
        for key, text in policy.properties
    }
    return dict(found.values())


NO_POLICIES = TablePolicies()


def split_policies(settings: Mapping[str, str]) -> dict[str, str]:
    """Return those settings of a table that policies have set."""
    return {key: text for key, text in settings.items() if key.startswith(POLICY)}


def replace_policies(settings: Mapping[str, str], found: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings of a table and its namespace (`with_namespace`) with these of policies,
    and without others."""
    if any(key.startswith(POLICY) for key in settings):
        settings = {key: text for key, text in settings.items() if not key.startswith(POLICY)}
    return {**found, **settings} if found else settings


def property_problem(name: str, text: str) -> str:
    """Return why a policy cannot set a property to this text, and what to do; "" if it can."""
    if len(text) > MAX_VALUE_CHARS:
        return f"it is longer than {MAX_VALUE_CHARS:,} characters: write a shorter value"
    if name in READ_ELSEWHERE or (name in PROPERTIES and not name.startswith(OURS)):
        return f"a policy cannot set it: set it on each table, or use a property of {OURS}*"
    return value_problem(name, text)


def matched_name(table: TableName) -> str:
    """Return a table's name as the patterns of `compile_pattern` match it."""
    return _LEVEL_END.join((table.catalog_path, *table.path))


@lru_cache(maxsize=8_192)
def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile `catalog.namespace.table`: `*` and `?` stand for characters within one level, `**`
    for any number of levels. A level with a dot in it stands in quotes. The catalog's name matches
    its tables under any prefix, `lake/main` those of one prefix. No name makes it slow: what is
    between two wildcards is matched where it first occurs, once. Raises ValueError."""
    if len(text) > MAX_PATTERN_CHARS:
        most = f"{MAX_PATTERN_CHARS:,} characters"
        raise ValueError(f"it is longer than {most}: write a shorter pattern")
    levels = levels_of(text)
    if len(levels) < 3 and _ANY_LEVELS not in levels:
        raise ValueError(f"'{text}' matches no table: write catalog.namespace.table")
    if levels[-1] == _ANY_LEVELS:
        levels = (*levels, "*")
    compiled = [
        _ANY_LEVELS if level == _ANY_LEVELS else _compile_level(level, at == 0)
        for at, level in enumerate(levels)
    ]
    compiled[-1] = compiled[-1].removesuffix(_LEVEL_END)
    return re.compile(_join_parts(compiled, _ANY_LEVELS, f"{_IN_LEVEL}+{_LEVEL_END}"))


def _literal_namespace(text: str) -> str | None:
    """Return the namespace, in its first level, of all tables that a pattern matches; None if there
    may be several."""
    levels = levels_of(text)
    is_literal = levels[0] != _ANY_LEVELS and len(levels) > 2 and not {*"*?"} & {*levels[1]}
    return levels[1] if is_literal else None


def _compile_level(level: str, is_catalog: bool) -> str:
    parts = [_IN_LEVEL if one == "?" else "*" if one == "*" else re.escape(one) for one in level]
    prefix = f"(?:/{_IN_LEVEL}*)?" if is_catalog and "/" not in level else ""
    return f"{_join_parts(parts, '*', _IN_LEVEL)}{prefix}{_LEVEL_END}"


def _join_parts(parts: Sequence[str], wildcard: str, unit: str) -> str:
    """Join the parts of a pattern, in which wildcards stand for any number of units."""
    runs = [""]
    for part in parts:
        if part == wildcard:
            runs.append("")
        else:
            runs[-1] += part
    first, *rest = runs
    if not rest:
        return first
    *between, last = rest
    return "".join((first, *(f"(?>(?:{unit})*?{run})" for run in between), f"(?:{unit})*{last}"))
