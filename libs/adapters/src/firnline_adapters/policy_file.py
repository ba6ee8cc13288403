"""Policies of `firnline.toml`, read again when the file changes.

[[policies]]                        # any number; of several that match, the last one sets it
match = "lake.*.events_*"           # catalog.namespace.table
"firnline.retain.hours" = 48
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from firnline_domain.errors import Misconfigured
from firnline_domain.settings.in_force import unknown_names
from firnline_domain.settings.policies import (
    Policy,
    TablePolicies,
    compile_pattern,
    property_problem,
)
from firnline_domain.settings.thresholds import PROPERTIES

from firnline_adapters.config.config_file import flatten, parse_toml, unknown_sections
from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log

SECTION = "policies"
CHECK_S = 1.0  # between two looks at the file
SETTLED_S = 2.0  # without a change, until it is read


@dataclass(frozen=True)
class ReadPolicies:
    """Policies of one state of a file. `problems`: values that are not in force, and what to do.
    `warnings`: names that mean nothing."""

    policies: TablePolicies
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_policies(path: str) -> ReadPolicies:
    """Read the policies of a file; what has a problem is left out. Raises Misconfigured for a file
    that cannot be read as a whole."""
    sections = parse_toml(path)
    found = sections.get(SECTION, [])
    problems = [f"{path}: {one}" for one in unknown_sections(sections)]
    warnings, policies = list[str](), list[Policy]()
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        problems.append(f"{path}: {SECTION}: write [[{SECTION}]] above each policy")
        found = []
    for number, table in enumerate(found, 1):
        match = table.get("match")
        label = f"{path}: policy {number}" + (f" ({match})" if isinstance(match, str) else "")
        properties = dict(_read_properties(label, table, problems, warnings))
        try:
            if not isinstance(match, str):
                raise ValueError('write match = "catalog.namespace.table"')
            compile_pattern(match)
        except ValueError as error:
            problems.append(f"{label}: match: {error}")
            continue
        policies.append(Policy(match, tuple(properties.items())))
    return ReadPolicies(TablePolicies(policies), tuple(problems), tuple(warnings))


def _read_properties(
    label: str, table: Mapping[str, Any], problems: list[str], warnings: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield the properties that are in force."""
    rest = {name: value for name, value in table.items() if name != "match"}
    for name, text in flatten(rest, f"{label}:", problems):
        if wrong := property_problem(name, text):
            problems.append(f"{label}: {name}: {wrong}")
        elif name not in PROPERTIES:
            unknown = f"{name} is no property of Firnline: remove it"
            warnings.append(f"{label}: {next(unknown_names({name: text}), unknown)}")
        else:
            yield name, text


class PolicyFile:
    """The policies of `firnline.toml` in force. A changed file is read once it has not changed for
    some seconds: it may be half-written. If it then cannot be read, or has a problem, the policies
    of before hold until it is corrected."""

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
            self._log.info("policies_changed", file=path, policies=len(read.policies))

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
