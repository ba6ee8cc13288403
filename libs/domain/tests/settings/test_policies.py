"""Patterns of table names, and which of several policies sets a property."""

from __future__ import annotations

import time

import pytest
from firnline_domain.identity import TableName
from firnline_domain.settings.in_force import (
    settings_in_force,
    unknown_names,
    unreadable_values,
    with_namespace,
)
from firnline_domain.settings.policies import (
    Policy,
    TablePolicies,
    compile_pattern,
    matched_name,
    property_problem,
)
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds

EVENTS = TableName("u1", ("web",), "events_raw")
NESTED = TableName("u2", ("web", "eu.west"), "events_raw")
BRANCH = TableName("u3", ("web",), "events_raw", prefix="main")
RETAIN, FRAGMENTS = "firnline.retain.hours", "firnline.rewrite.min-fragments"


def policy(match: str, **properties: str) -> Policy:
    named = {f"firnline.{name.replace('_', '.')}": text for name, text in properties.items()}
    return Policy(match, tuple(named.items()))


@pytest.mark.parametrize(
    ("match", "tables"),
    [
        ("lake.*.events_*", [EVENTS, BRANCH]),
        ("lake.web.events_ra?", [EVENTS, BRANCH]),
        ("lake.*.events_ra", []),
        ("*.web.*", [EVENTS, BRANCH]),
        ("lake.*.*.events_*", [NESTED]),
        ('lake.web."eu.west".events_*', [NESTED]),
        ("lake.web.eu.west.events_*", []),
        ("lake.**.events_*", [EVENTS, NESTED, BRANCH]),
        ("lake.web.**", [EVENTS, NESTED, BRANCH]),
        ("**", [EVENTS, NESTED, BRANCH]),
        ("**.events_raw", [EVENTS, NESTED, BRANCH]),
        ("lake/main.*.*", [BRANCH]),
        ("lake.Web.*", []),
        ("other.**", []),
    ],
)
def test_a_pattern_matches_level_by_level(match: str, tables: list[TableName]) -> None:
    pattern = compile_pattern(match)
    all_of_them = (EVENTS, NESTED, BRANCH)
    assert [one for one in all_of_them if pattern.fullmatch(matched_name(one))] == tables


@pytest.mark.parametrize("match", ["", "events_*", "web.events_*", "lake..events", "lake.web."])
def test_a_pattern_that_no_table_has_is_refused(match: str) -> None:
    with pytest.raises(ValueError, match="namespace"):
        compile_pattern(match)


@pytest.mark.parametrize(
    ("match", "name"),
    [
        ("lake.*." + "*a" * 20 + "*b", "a" * 2_000),
        ("lake." + "**.a." * 20 + "b", ".".join("a" * 500)),
    ],
)
def test_no_name_makes_a_pattern_slow(match: str, name: str) -> None:
    table = TableName("u", tuple(name.split(".")) if "." in name else ("web",), name[:5_000])
    before = time.process_time()
    assert compile_pattern(match).fullmatch(matched_name(table)) is None
    assert time.process_time() - before < 0.5


@pytest.mark.parametrize(
    ("match", "does"),
    [
        ("lake.*.a*b*c", True),
        ("lake.*.*b*bc", True),
        ("lake.*.*bb*", False),
        ("lake.*.a?b*c", False),
        ("lake.*.?b?b*", True),
    ],
)
def test_wildcards_within_a_level_match_as_in_a_shell(match: str, does: bool) -> None:
    table = TableName("u", ("web",), "abxbc")
    assert (compile_pattern(match).fullmatch(matched_name(table)) is not None) is does


def test_a_table_is_stronger_than_its_namespace_and_that_than_policies() -> None:
    policies = TablePolicies([policy("lake.web.*", retain_hours="4")])
    fleet = Thresholds(retain_hours=5)

    def hours(table: dict[str, str], namespace: dict[str, str], name: TableName) -> object:
        settings = policies.with_policies(name, with_namespace(table, namespace))
        found = settings_in_force(settings, fleet)[RETAIN]
        assert float(found.value) == resolve_thresholds(settings, fleet).retain_hours
        return found.value, found.origin, found.policy

    assert hours({RETAIN: "2"}, {RETAIN: "3"}, EVENTS) == ("2", "table", "")
    assert hours({}, {RETAIN: "3"}, EVENTS) == ("3", "namespace", "")
    assert hours({}, {}, EVENTS) == ("4", "policy", "lake.web.*")
    assert hours({}, {}, NESTED) == ("5", "fleet", "")


def test_the_last_policy_that_sets_a_property_sets_it() -> None:
    first = Policy("**", ((RETAIN, "1"), (FRAGMENTS, "3")))
    policies = TablePolicies([first, Policy("lake.web.*", ((RETAIN, "2"),))])
    found = settings_in_force(policies.with_policies(EVENTS, {}))
    assert (found[RETAIN].value, found[RETAIN].policy) == ("2", "lake.web.*")
    assert (found[FRAGMENTS].value, found[FRAGMENTS].policy) == ("3", "**")


def test_policies_of_before_leave_a_tables_settings() -> None:
    before = TablePolicies([Policy("**", ((RETAIN, "1"),))])
    settings = before.with_policies(EVENTS, {"firnline.enabled": "true"})
    assert len(settings) == 2
    assert TablePolicies().with_policies(EVENTS, settings) == {"firnline.enabled": "true"}
    assert before.digest != TablePolicies([Policy("**", ((RETAIN, "2"),))]).digest


def test_a_value_that_cannot_be_read_is_reported_with_its_policy() -> None:
    policies = TablePolicies([Policy("lake.*.*", ((RETAIN, "soon"), ("firnline.windw", "x")))])
    settings = policies.with_policies(EVENTS, {})
    assert settings_in_force(settings)[RETAIN].problem == (
        "'soon' of the policy lake.*.* cannot be read"
    )
    assert next(unreadable_values(settings)).startswith(
        "firnline.retain.hours=soon (of the policy lake.*.*) cannot be read"
    )
    assert [*unknown_names(settings)] == [
        "firnline.windw (of the policy lake.*.*) is no setting: firnline.window is meant?"
    ]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        (RETAIN, "48", ""),
        (RETAIN, "soon", "'soon' cannot be read: write a number"),
        ("firnline.window", "sometimes", "nothing is ordered"),
        ("gc.enabled", "false", "a policy cannot set it"),
        ("firnline.rewrite.max-span-ms", "1", "a policy cannot set it"),
        ("color", "blue", ""),
    ],
)
def test_a_policy_sets_what_a_namespace_can(name: str, text: str, problem: str) -> None:
    found = property_problem(name, text)
    assert found.startswith(problem)
    assert bool(found) == bool(problem)
