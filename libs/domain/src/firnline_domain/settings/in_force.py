"""Resolve the settings of a table, where each was set, and what is wrong with them. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any

from firnline_domain.records.parts.archive_marks import MARKS
from firnline_domain.records.states import SettingInForce
from firnline_domain.settings.groups import unserved_text
from firnline_domain.settings.parquet import out_of_range, unusable_properties
from firnline_domain.settings.ref_rules import parse_ref_rules, parse_tag_rules
from firnline_domain.settings.rule_lists import find_problem
from firnline_domain.settings.thresholds import (
    NAMESPACE,
    PROPERTIES,
    RANGES,
    WORKERS,
    Origin,
    PropertySource,
    PropertyValue,
    Thresholds,
    property_values,
)
from firnline_domain.settings.windows import parse_periods

OURS = "firnline."
READ_ELSEWHERE = tuple(WORKERS)
DEFAULTS = Thresholds()
PERIODS = ("window", "blackout")
REF_RULES = ("expire_tags", "expire_branches")


def with_namespace(table: Mapping[str, str], namespace: Mapping[str, str]) -> dict[str, str]:
    """Merge the properties of a table and of its namespace into one mapping, kept apart by their
    names."""
    return {**{NAMESPACE + name: text for name, text in namespace.items()}, **table}


def settings_in_force(
    settings: Mapping[str, str], fleet: Thresholds | None = None
) -> dict[str, SettingInForce]:
    """Return every setting by the name of its property; `settings` as `with_namespace` and
    `TablePolicies.with_policies` give them."""
    return {
        setting.name: setting
        for setting in _resolve_all(tuple(sorted(settings.items())), fleet or DEFAULTS)
    }


@lru_cache(maxsize=4_096)  # asked whenever a table is shown; most tables of a fleet say the same
def _resolve_all(
    settings: tuple[tuple[str, str], ...], fleet: Thresholds
) -> tuple[SettingInForce, ...]:
    values = property_values(dict(settings))
    return tuple(
        _in_force(name, [one for one in values if one.field == known.field], fleet)
        for name, known in PROPERTIES.items()
    )


def _in_force(name: str, said: list[PropertyValue], fleet: Thresholds) -> SettingInForce:
    """Return a setting with its source and its problem: the strongest of the readable properties in
    `said`, weakest first, else the deployment's own value."""
    field = PROPERTIES[name].field
    wrong = next((value for value in reversed(said) if value.value is None), None)
    readable = [value for value in said if value.value is not None]
    unread = f"'{wrong.text}' of the {_owner_text(wrong.source)} cannot be read" if wrong else ""
    if readable:
        strongest = readable[-1]
        text = property_text(strongest.value)
        wrong_text = _period_problem(field, text) or _group_problem(field, text, fleet)
        source = strongest.source
        return SettingInForce(name, text, source.origin, wrong_text or unread, source.policy)
    value = getattr(fleet, field)
    origin = Origin.DEFAULT if value == getattr(DEFAULTS, field) else Origin.FLEET
    return SettingInForce(name, property_text(value), origin, unread)


def _owner_text(source: PropertySource) -> str:
    return source.text if source.policy else f"{source.text} property"


def _period_problem(field: str, text: str) -> str:
    """Return what is wrong with periods, and with rules for tags and branches: what keeps something
    back until it is corrected."""
    if field == "create_tags":
        wrong = find_problem(parse_tag_rules, text)
        return f"no tag is made: {wrong}" if wrong else ""
    if field in REF_RULES:
        wrong = find_problem(parse_ref_rules, text)
        return f"no snapshot is expired: {wrong}" if wrong else ""
    wrong = find_problem(parse_periods, text) if field in PERIODS else None
    return f"nothing is ordered: {wrong}" if wrong else ""


def _group_problem(field: str, text: str, fleet: Thresholds) -> str:
    wrong = unserved_text(text, fleet.groups) if field == "group" else None
    return wrong or ""


def property_text(value: Any) -> str:
    """Return a value as its property would be written; '' = unset."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def unreadable_values(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield a text about each value that cannot be parsed, with the value that is used instead."""
    for name, wanted in WORKERS.items():
        if name in settings and wanted.parse(settings[name]) is None:
            yield _unset_text(f"{name}={settings[name]}", wanted.allowed_text)
    for name, of_files in out_of_range(settings):
        yield _unset_text(f"{name}={settings[name]}", of_files.allowed_text)
    yield from unusable_properties(settings)
    for value in property_values(settings):
        name = f"{value.source.name}={value.text}{_source_suffix(value.source)}"
        if value.value is None:
            yield _unset_text(name, _expected_form(value.field))
        elif wrong := _period_problem(value.field, property_text(value.value)):
            yield f"{name}: {wrong}"


def value_problem(name: str, text: str) -> str:
    """Return why a property with this value is not in force, and what to write; "" if it is."""
    for value in property_values({name: text}):
        if value.value is None:
            return f"'{text}' cannot be read: write a {_expected_form(value.field)}"
        return _period_problem(value.field, property_text(value.value))
    return ""


def _unset_text(said: str, form: str) -> str:
    return f"{said} cannot be read and counts as unset: write a {form}"


def _expected_form(field: str) -> str:
    default = getattr(DEFAULTS, field)
    if isinstance(default, bool):
        return "true or false"
    if isinstance(default, StrEnum):
        return "word: " + " or ".join(type(default))
    return RANGES[field].allowed_text


def _source_suffix(source: PropertySource) -> str:
    return "" if source.origin is Origin.TABLE else f" (of the {source.text})"


def unknown_names(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield names that mean nothing, each with the one that comes nearest."""
    known = (*PROPERTIES, *READ_ELSEWHERE, *MARKS)
    for key in sorted(settings):
        source = PropertySource.parse(key)
        name, shown = source.name, source.name + _source_suffix(source)
        if name.startswith(OURS) and name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.75)
            all_of_them = "docs/reference/properties.md lists all there are"
            hint = f": {near[0]} is meant?" if near else f": {all_of_them}"
            yield f"{shown} is no setting{hint}"
        elif source.origin is not Origin.TABLE and name in READ_ELSEWHERE:
            yield f"{shown} is read from the table's own properties alone"
