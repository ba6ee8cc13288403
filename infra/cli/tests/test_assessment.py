"""What is said of a table by what was read of it, and how a page shows it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from firnline_cli.assessment.facts import AssessedFacts, DeleteFacts, Pace
from firnline_cli.assessment.findings import FindingKind, findings_of
from firnline_cli.assessment.html import render_page
from firnline_cli.assessment.lake import AssessedLake
from firnline_cli.assessment.summary import LakeSummary, summarize
from firnline_cli.assessment.text import cpu_time_text, plan_of, words_of
from firnline_cli.assessment.verdict import (
    PlannedRewrite,
    TableAssessment,
    by_need,
    upkeep_s,
    with_shared_uuids,
)
from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.errors import CatalogUnreachable
from firnline_domain.settings.thresholds import Thresholds
from firnline_iceberg.table.catalog_client import Tables

NOW_MS = 1_795_000_000_000
HOSTILE = '<script>alert("x")</script>&\x1b[31m'


def facts(**more: Any) -> AssessedFacts:
    given: dict[str, Any] = {"data_files": 4, "partitions": 3, "live_specs": (0,)}
    return AssessedFacts(2, 5, NOW_MS - DAY_MS, NOW_MS, **given | more)


def codes(**more: Any) -> list[tuple[str, str]]:
    found = findings_of("db.t", facts(**more), None, NOW_MS)
    return [(str(one.kind), one.code) for one in found]


EQUALITY = DeleteFacts(equality_files=3, equality_records=9, equality_specs=(0,))


def test_a_table_with_nothing_is_said_nothing_of() -> None:
    assert codes() == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"repeated": 2}, ("hazard", "duplicate_files")),
        ({"deletes": EQUALITY, "partitions": 1}, ("hazard", "rewrite_may_bring_rows_back")),
        ({"deletes": EQUALITY, "live_specs": (0, 1)}, ("hazard", "spec_changed")),
        ({"deletes": EQUALITY}, ("readers", "equality_deletes_unread")),
        ({"deletes": DeleteFacts(position_files=20, dangling=20)}, ("debt", "dangling_deletes")),
        ({"metadata_bytes": 9 << 20}, ("metadata", "large_metadata")),
    ],
)
def test_each_finding_by_what_makes_it(more: dict[str, Any], expected: tuple[str, str]) -> None:
    assert expected in codes(**more)


def test_names_that_share_a_uuid_are_a_hazard_to_each_other() -> None:
    tables = {"a": "u1", "b": "u2", "c": "u1", "d": ""}
    read = [TableAssessment(("db", name), facts(uuid=uuid)) for name, uuid in tables.items()]
    found = with_shared_uuids(
        [*read, TableAssessment(("db", "e"), error="x"), TableAssessment(("db", "f"))]
    )
    told = {one.dotted_name: one.findings[0].text for one in found if one.findings}
    assert told.keys() == {"db.a", "db.c"}
    assert told["db.a"].startswith("db.c has the same uuid")
    assert all(one.is_sick == bool(one.findings) for one in found)


def test_equality_deletes_of_several_partitions_are_no_hazard_by_themselves() -> None:
    assert {kind for kind, _ in codes(deletes=EQUALITY)} == {"debt", "readers"}


def test_the_gravest_is_said_first_and_a_v3_table_by_what_it_uses() -> None:
    deletes = DeleteFacts(equality_files=1, vectors=2, oldest_ms=NOW_MS - 3 * DAY_MS)
    table = AssessedFacts(3, 1, 0, 0, deletes=deletes, repeated=1, types=("variant",), partitions=2)
    found = findings_of("db.t", table, None, NOW_MS)
    kinds = [one.kind for one in found]
    assert kinds == sorted(kinds, key=list(FindingKind).index)
    v3 = next(one for one in found if one.code == "format_v3")
    assert "variant, deletion vectors" in v3.text
    debt = next(one for one in found if one.code == "delete_debt")
    assert debt.text.endswith("the oldest equality delete is 3 d old")


def planned(**more: Any) -> PlannedRewrite:
    given: dict[str, Any] = {"reason": "fragments", "now": True, "spared_s": 1.0}
    values = {"partition": "a", "action": "compact", "files": 9, "bytes": 9, "cost_s": 2.0}
    return PlannedRewrite(**values | given | more)


def test_when_a_rewrite_comes() -> None:
    assert words_of(planned(), NOW_MS) == "compact a (fragments)"
    later = planned(now=False, reason="minimum_gain", due_ms=NOW_MS + 5 * HOUR_MS)
    assert words_of(later, NOW_MS) == "compact a in 5 h (minimum gain)"
    held = planned(now=False, reason="paused")
    assert words_of(held, NOW_MS) == "compact a: waits (paused)"


def verdict(name: str, **more: Any) -> TableAssessment:
    return TableAssessment(("db", name), facts(), **more)


def test_those_that_readers_pay_most_for_come_first() -> None:
    hazard = verdict("b", findings=findings_of("db.b", facts(repeated=1), None, NOW_MS))
    found = sorted([verdict("c"), hazard, verdict("a", spared_s=5.0)], key=by_need)
    assert [one.name[-1] for one in found] == ["a", "b", "c"]


def lake(*verdicts: TableAssessment, **more: Any) -> LakeSummary:
    given: dict[str, Any] = {"unlisted": {}, "seconds": 3.0, "interrupted": False}
    return summarize(verdicts, len(verdicts), **given | more)


def test_names_and_errors_are_text_on_the_page() -> None:
    findings = findings_of(HOSTILE, facts(metadata_bytes=9 << 20), None, NOW_MS)
    sick = TableAssessment(
        ("db", HOSTILE), facts(), findings, (planned(partition=HOSTILE),), 1, reads_per_hour=2.0
    )
    unread = TableAssessment(("db", f"{HOSTILE}2"), error=HOSTILE)
    made = render_page(lake(sick, unread, unlisted={HOSTILE: HOSTILE}), [sick, unread], NOW_MS)
    assert "<script" not in made
    assert "\x1b" not in made
    assert made.count("&lt;script&gt;") >= 5
    tags = {one.lower() for one in re.findall(r"<([a-z0-9]+)", made)}
    assert "script" not in tags
    assert not re.search(r"\b(src|href|on[a-z]+)=", made)  # nothing is fetched, nothing runs


def test_a_lake_in_one_line() -> None:
    summary = lake(verdict("a", orders=2, later=1, cost_s=7.0, spared_s=120.0))
    assert "2 rewrites now and 1 later" in plan_of(summary)
    assert plan_of(lake(verdict("a"))) == ""
    assert [cpu_time_text(one) for one in (0.0, 0.31, 40.0, 600.0, 36_000.0)] == [
        *("0 CPU s", "0.3 CPU s", "40 CPU s", "10 CPU min", "10.0 CPU h"),
    ]


def test_upkeep_grows_with_what_writers_add() -> None:
    limits = Thresholds()
    assert upkeep_s(facts(), limits) == 0.0
    slow = facts(pace=Pace(files=80, bytes=80e6))
    fast = facts(pace=Pace(files=800, bytes=800e6))
    assert 0 < upkeep_s(slow, limits) < upkeep_s(fast, limits) < 11 * upkeep_s(slow, limits)


class Denied(Tables):
    """Lists one namespace alone, and loads nothing."""

    def list_namespace(self, namespace: tuple[str, ...]) -> Any:
        if namespace == ("secret",):
            raise CatalogUnreachable("catalog: 403 Forbidden")
        return ([], [("secret",), ("open",)]) if not namespace else ([("open", "t")], [])

    def load_named(self, namespace: tuple[str, ...], name: str) -> Any:
        raise ValueError("odd: Bearer abcdef")


def test_a_namespace_that_may_not_be_listed_hides_no_other() -> None:
    told = list[int]()
    found = AssessedLake(
        Denied("http://127.0.0.1:9"), Thresholds(), 2, NOW_MS, sleep=lambda _: None
    )
    names = found.list_tables([()], told.append)
    assert (names, told[-1]) == ([("open", "t")], 1)
    assert found.unlisted == {"secret": "catalog: 403 Forbidden"}
    [broken] = found.read_verdicts(names)
    assert broken.error.startswith("ValueError: odd")
    found.close()
