"""Policies and rules of `firnline.toml`, read again when the file changes.

[[policies]]                        # any number; of several that match, the last one sets it
match = "lake.*.events_*"           # catalog.namespace.table
"firnline.retain.hours" = 48

[[rules]]                           # any number; a table that breaks one gets a recommendation
match = "lake.finance.**"
about = "standard of the finance team"
require = {"owner" = "*", "format-version" = "2..", "partition-fields" = "day(*) | month(*)"}
forbid = {"write.format.default" = "avro | orc"}
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeVar

from firnline_domain.errors import Misconfigured
from firnline_domain.settings.in_force import unknown_names
from firnline_domain.settings.policies import (
    Policy,
    TablePolicies,
    compile_pattern,
    property_problem,
)
from firnline_domain.settings.table_rules import MAX_CHARS, TableRule, expected_problem
from firnline_domain.settings.thresholds import PROPERTIES

from firnline_adapters.config.config_file import TABLE_LISTS, flatten, parse_toml, unknown_sections
from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log

POLICIES, RULES = TABLE_LISTS
NAMES = {POLICIES: "policy", RULES: "rule"}
MATCH, ABOUT, REQUIRE, FORBID = "match", "about", "require", "forbid"
Table = Mapping[str, Any]  # of TOML
T = TypeVar("T")
CHECK_S = 1.0  # between two looks at the file
SETTLED_S = 2.0  # without a change, until it is read


@dataclass(frozen=True)
class ReadPolicies:
    """Policies and rules of one state of a file. `problems`: what keeps the file from being in
    force, and what to do. `warnings`: names that mean nothing."""

    policies: TablePolicies
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_policies(path: str) -> ReadPolicies:
    """Read the policies and rules of a file; what has a problem is left out. Raises Misconfigured
    for a file that cannot be read as a whole."""
    sections = parse_toml(path)
    reader = _ListReader(path)
    reader.problems += [f"{path}: {one}" for one in unknown_sections(sections)]
    policies = [*reader.read_each(sections, POLICIES, reader.read_policy)]
    rules = [*reader.read_each(sections, RULES, reader.read_rule)]
    found = TablePolicies(policies, rules)
    return ReadPolicies(found, tuple(reader.problems), tuple(reader.warnings))


class _ListReader:
    """Reads the tables of a file and collects what is wrong with them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def read_each(
        self, sections: Mapping[str, Any], section: str, read: Callable[[str, str, Table], T]
    ) -> Iterator[T]:
        """Yield what `read` makes of each table of a section with a pattern, by its label, its
        pattern and the rest."""
        found = sections.get(section, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            self.problems.append(
                f"{self._path}: {section}: write [[{section}]] above each {NAMES[section]}"
            )
            return
        for number, table in enumerate(found, 1):
            match = table.get(MATCH)
            label = f"{self._path}: {NAMES[section]} {number}"
            label += f" ({match})" if isinstance(match, str) else ""
            one = read(label, str(match), {key: table[key] for key in table if key != MATCH})
            try:
                if not isinstance(match, str):
                    raise ValueError('write match = "catalog.namespace.table"')
                compile_pattern(match)
            except ValueError as error:
                self.problems.append(f"{label}: {MATCH}: {error}")
                continue
            yield one

    def read_policy(self, label: str, match: str, table: Table) -> Policy:
        """Read what a policy sets."""
        return Policy(match, tuple(self._read_properties(label, table)))

    def _read_properties(self, label: str, table: Table) -> Iterator[tuple[str, str]]:
        for name, text in flatten(table, f"{label}:", self.problems):
            if wrong := property_problem(name, text):
                self.problems.append(f"{label}: {name}: {wrong}")
            elif name not in PROPERTIES:
                unknown = f"{name} is no property of Firnline: remove it"
                self.warnings.append(f"{label}: {next(unknown_names({name: text}), unknown)}")
            else:
                yield name, text

    def read_rule(self, label: str, match: str, table: Table) -> TableRule:
        """Read what a rule requires and forbids."""
        about = table.get(ABOUT, "")
        if not isinstance(about, str):
            self.problems.append(f"{label}: {ABOUT}: write a text")
        for key in table.keys() - {ABOUT, REQUIRE, FORBID}:
            self.problems.append(
                f"{label}: {key}: a rule has {MATCH}, {ABOUT}, {REQUIRE} and {FORBID}"
            )
        required, forbidden = (
            tuple(self._read_expected(label, key, table.get(key, {}))) for key in (REQUIRE, FORBID)
        )
        if not required and not forbidden:
            self.problems.append(f"{label}: write what it is to {REQUIRE} or to {FORBID}")
        return TableRule(match, required, forbidden, str(about)[:MAX_CHARS])

    def _read_expected(self, label: str, key: str, table: Any) -> Iterator[tuple[str, str]]:
        if not isinstance(table, dict):
            self.problems.append(f'{label}: {key}: write {key} = {{"NAME" = "VALUE"}}')
            return
        for name, text in flatten(table, f"{label}: {key}", self.problems):
            if wrong := expected_problem(name, text):
                self.problems.append(f"{label}: {key}: {name}: {wrong}")
            else:
                yield name, text


class PolicyFile:
    """The policies and rules of `firnline.toml` in force. A changed file is read once it has not
    changed for some seconds: it may be half-written. If it then cannot be read, or has a problem,
    what was in force before stays so until it is corrected."""

    def __init__(self, path: str | None, log: Log) -> None:
        """Read the file, if there is one. Raises Misconfigured if it has a problem."""
        self._path, self._log = path, log
        self._policies = TablePolicies()
        self._complaints: tuple[str, ...] = ()
        self._checked_s = self._changed_s = monotonic()
        self._seen = self._read_version = _file_version(path) if path else None
        if path:
            read = self._read(path)
            if read.problems:
                raise Misconfigured("\n".join(read.problems))
            self._policies = read.policies

    def read_current(self) -> TablePolicies:
        """Return the policies in force, some seconds behind the file."""
        now_s = monotonic()
        if self._path and now_s - self._checked_s >= CHECK_S:
            self._checked_s = now_s
            self._follow_file(self._path, now_s)
        return self._policies

    def _follow_file(self, path: str, now_s: float) -> None:
        version = _file_version(path)
        if version != self._seen:
            self._seen, self._changed_s = version, now_s
        if version == self._read_version or now_s - self._changed_s < SETTLED_S:
            return
        read = self._read(path)
        if _file_version(path) != version:  # written meanwhile
            return
        self._read_version = version
        if not read.problems and read.policies.digest != self._policies.digest:
            self._policies = read.policies
            found = read.policies
            counts = f"{len(found.policies)} policies, {len(found.rules)} rules"
            self._log.info("policies_changed", path=path, found=counts)

    def _read(self, path: str) -> ReadPolicies:
        try:
            read = read_policies(path)
        except Misconfigured as error:
            read = ReadPolicies(TablePolicies(), (str(error),))
        metrics.gauge("policy_problems", len(read.problems))
        complaints = (*read.problems, *read.warnings)
        if complaints != self._complaints:
            self._complaints = complaints
            for why in complaints:
                self._log.warning("policies_invalid", why=why)
        return read


def _file_version(path: str) -> tuple[int, ...] | None:
    """Return what changes with a file; None if it cannot be known."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
