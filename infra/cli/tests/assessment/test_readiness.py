"""What a table needs before it can be v3, and v4 as its draft has it."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_cli.assessment.facts import AssessedFacts, DeleteFacts, Pace
from firnline_cli.assessment.readiness import (
    Readiness,
    lake_words,
    readiness_of,
    ready_counts,
    table_words,
)


def of(version: int, **more: Any) -> dict[int, Readiness]:
    facts = AssessedFacts(version, 5, 0, 0, **more)
    return {one.version: one for one in readiness_of(facts)}


def codes(one: Readiness) -> dict[str, bool]:
    return {point.code: point.needed for point in one.points}


def test_only_versions_above_its_own_are_told() -> None:
    assert {version: set(of(version)) for version in (1, 2, 3, 4)} == {
        1: {3, 4}, 2: {3, 4}, 3: {4}, 4: set(),
    }  # fmt: skip


def test_a_quiet_v2_table_is_ready_for_v3_and_has_to_be_v3_before_v4() -> None:
    found = of(2)
    assert (found[3].is_ready, found[3].as_of) == (True, "")
    assert (found[4].is_ready, found[4].as_of) == (False, "2026-11")
    assert of(3)[4].is_ready
    assert not of(1)[3].is_ready


@pytest.mark.parametrize(
    ("more", "version", "code", "needed"),
    [
        ({"unready_writers": ("flink with Iceberg 1.10",)}, 3, "writers", True),
        ({"deletes": DeleteFacts(position_files=2)}, 3, "v2_deletes", False),
        ({"deletes": DeleteFacts(position_files=2)}, 4, "position_deletes", False),
        ({"deletes": DeleteFacts(equality_files=2)}, 4, "equality_deletes", False),
        (
            {"deletes": DeleteFacts(equality_files=2), "pace": Pace(equality_deletes=9)},
            *(4, "equality_deletes", True),
        ),
        ({"outside_files": 3}, 4, "outside_files", False),
        ({"schemeless_files": 3}, 4, "paths_without_scheme", True),
        ({"manifests": 100}, 4, "metadata_tree", False),
        ({"pace": Pace(commits=1_440)}, 4, "metadata_tree", False),
    ],
)
def test_each_point_by_what_makes_it(
    more: dict[str, Any], version: int, code: str, needed: bool
) -> None:
    assert code not in codes(of(2)[version])
    assert codes(of(2, **more)[version])[code] is needed


def test_a_lake_in_two_lines_and_a_table_in_one_for_each_version() -> None:
    unready = readiness_of(AssessedFacts(2, 5, 0, 0, unready_writers=("trino",)))
    counts = ready_counts([unready, readiness_of(AssessedFacts(3, 5, 0, 0)), ()])
    assert counts["v3"] == {"ready": 0, "not_ready": 1, "writers": 1}
    assert counts["v4"] == {"ready": 1, "not_ready": 1, "format_version": 1}
    assert list(lake_words(counts)) == [
        "0 tables could become v3, 1 not: writers 1.",
        "1 tables could become v4 (a draft, as of 2026-11, not maintained), "
        "1 not: format version 1.",
    ]
    told = table_words(unready[0])
    assert told.startswith("v3: not ready; first: trino wrote it this week")
    assert "a draft as of 2026-11" in table_words(unready[1])
