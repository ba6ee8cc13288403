"""Rules for tables: values that are required or forbidden, and what breaks them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from firnline_domain.advice.rules import RULES
from firnline_domain.settings.table_rules import TableRule, asked_names, expected_problem

from tests.kit.advice_input import known


def finding(required: dict[str, str], forbidden: dict[str, str] | None = None, **seen: Any) -> str:
    """What is said of a table, without the rule's name."""
    named = [tuple(one.items()) for one in (required, forbidden or {})]
    rule = TableRule("lake.**", named[0], named[1])
    found = RULES["broken_rules"](known(rules=(rule,), **seen), 1.0)
    return found.finding.replace("lake.**: ", "") if found else ""


@pytest.mark.parametrize(
    ("expected", "values", "breaks"),
    [
        ("*", ("x",), False),
        ("*", (), True),
        ("zstd | snappy", ("ZSTD",), False),
        ("zstd | snappy", ("gzip",), True),
        ("day(*)", ("bucket(16, id)", "day(at)"), False),
        ("day(*)", ("bucket(16, id)", "month(at)"), True),
        ("24..168", ("168",), False),
        ("24..168", ("169",), True),
        ("24..", ("1e3",), False),
        ("..168", ("many",), True),
    ],
)
def test_a_value_on_both_sides_of_what_is_required(
    expected: str, values: tuple[str, ...], breaks: bool
) -> None:
    assert bool(finding({"owner": expected}, facts={"owner": values})) is breaks
    forbidden = finding({}, {"owner": expected}, facts={"owner": values})
    assert bool(forbidden) is (not breaks)


def test_a_finding_names_rule_property_and_value() -> None:
    assert finding({"owner": "*"}, facts={"owner": ()}) == "owner must be *, and is not set"
    assert finding({"format-version": "3"}, format_version=2) == (
        "format-version must be 3, and is 2"
    )
    wrong = {"partition-fields": ("day(at)", "bucket(16, id)")}
    assert finding({}, {"partition-fields": "bucket*"}, facts=wrong) == (
        "partition-fields must not be bucket(16, id)"
    )
    rule = TableRule("lake.**", (("owner", "*"),), (), "our standard")
    found = RULES["broken_rules"](known(rules=(rule,), facts={"owner": ()}), 1.0)
    assert found
    assert found.finding.startswith("lake.** (our standard): owner")


def test_a_property_of_firnline_counts_as_it_is_in_force() -> None:
    name = "firnline.rewrite.min-fragments"
    assert not finding({name: "2..8"})  # the default
    assert not finding({name: "2..8"}, settings={f"namespace:{name}": "6"})
    assert finding({name: "2..8"}, settings={f"policy:lake.**:{name}": "9"}) == (
        f"{name} must be 2..8, and is 9"
    )
    assert finding({"firnline.sort": "*"}) == "firnline.sort must be *, and is not set"


def test_what_is_not_known_yet_breaks_no_rule() -> None:
    assert not finding({"owner": "*"}, {"region": "*"})


def test_many_broken_values_are_one_finding() -> None:
    names = [f"p{number}" for number in range(50)]
    found = finding(dict.fromkeys(names, "*"), facts=dict.fromkeys(names, ()))
    assert found.endswith("; and 30 more")


def test_only_what_no_setting_tells_is_asked_for() -> None:
    required = (("owner", "*"), ("format-version", "2"), ("firnline.retain.hours", "24"))
    rule = TableRule("**", required, (("partition-fields", "*"),))
    assert [*asked_names([rule])] == ["owner", "partition-fields"]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("owner", "*", ""),
        ("owner", "a | b", ""),
        ("owner", "a..b", ""),
        ("owner", "1..2.5", ""),
        ("owner", "a |", "write a value"),
        ("owner", "", "write a value"),
        ("owner", "..", "'..' is no range"),
        ("owner", "5..1", "'5..1' is no range"),
        ("owner", "x" * 1_001, "it is longer"),
        ("firnline.retain.hour", "1", "firnline.retain.hour is no setting"),
    ],
)
def test_what_cannot_be_expected_is_a_problem(name: str, text: str, problem: str) -> None:
    found = expected_problem(name, text)
    assert found.startswith(problem)
    assert bool(found) == bool(problem)


def test_no_value_makes_a_rule_slow() -> None:
    before = time.process_time()
    assert finding({"owner": "*a" * 100 + "b"}, facts={"owner": ("a" * 1_000,)})
    assert time.process_time() - before < 1
