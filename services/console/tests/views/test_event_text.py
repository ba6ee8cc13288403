"""Every fact that a person cares about is a line in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from firnline_adapters.records.signing import keys_here
from firnline_console.views.event_text import event_of
from firnline_domain.base.values import replace
from firnline_domain.records.events import TableChange
from firnline_domain.records.parts.summaries import TASK_ID, sign_summary

Make = Callable[..., Any]


@pytest.mark.parametrize(
    ("path", "kind", "text"),
    [
        ("table_committed/upsert", "commit", "overwrite: +1 equality-delete file"),
        ("table_committed/dropped", "table", "dropped"),
        ("rewrite_files/compact", "order", "compact 2026-11-21: equality deletes"),
        (
            "rewrite_committed/native",
            "committed",
            "2026-11-21: 10 → 1 data file, 12 delete files removed, 12.3 kB → 8.0 kB, "
            "10 deleted rows removed, 7 files left for the next task",
        ),
        (
            "rewrite_conflicted/new_position_deletes",
            "conflicted",
            "2026-11-21: a writer deleted rows in a file that it replaces",
        ),
        (
            "task_failed/out_of_memory",
            "failed",
            "2026-11-21: ran out of memory, attempt 2; executor lost: exit 137",
        ),
        ("snapshots_expired/expired", "expired", "12 snapshots expired, 40 files deleted, 3 left"),
        (
            "table_order/manifests",
            "order",
            "rewrite manifests: 120 manifests instead of 1 full ones, 100 more trigger a rewrite",
        ),
        (
            "table_result/manifests",
            "committed",
            "rewrite manifests: manifests before 120, manifests after 3",
        ),
        ("rows_compared/equal", "compared", "2026-11-21: 990 rows verified, the same as before"),
        (
            "rows_compared/skipped",
            "compared",
            "2026-11-21: not verified: the snapshot before it has expired",
        ),
        (
            "outputs_swept/killed_worker",
            "swept",
            "removed 3 uncommitted output files; 2 file lists skipped",
        ),
        ("unpark_table/everything", "operator", "ops retries all partitions"),
        (
            "hold_partitions/undone",
            "operator",
            "ops excludes 2026-01-01: its last rewrite was reverted by a person; "
            "`firnline unpark` continues",
        ),
        ("pause_maintenance/table", "operator", "ops pauses maintenance"),
        (
            "pause_maintenance/fleet",
            "operator",
            "ops pauses maintenance: storage migration (all tables)",
        ),
        ("resume_maintenance/fleet", "operator", "ops resumes maintenance (all tables)"),
        (
            "dead_lettered/unknown_schema",
            "dead_letter",
            "enricher could not process table-commits/3/17: unknown_schema",
        ),
    ],
)
def test_a_fact_in_words(make: Make, path: str, kind: str, text: str) -> None:
    line = event_of(make(path))
    assert line is not None
    assert (line.kind, line.text) == (kind, text)


def test_numbers_of_a_decision_are_in_its_words(make: Make) -> None:
    numbers = {"equality_deletes": 12.0, "min_equality_deletes": 4.0}
    line = event_of(make("rewrite_files/compact", numbers=numbers))
    assert line is not None
    assert line.text.endswith("12 equality-delete files, 4 trigger a rewrite")


def test_an_unknown_code_is_shown_as_it_is(make: Make) -> None:
    line = event_of(make("rewrite_files/compact", reason="moon_phase"))
    assert line is not None
    assert line.text == "compact 2026-11-21: moon_phase"


def test_our_own_commit_is_told_from_a_writers(make: Make) -> None:
    fact = make("table_committed/upsert")
    summary = sign_summary({TASK_ID: "abc"}, fact.table.uuid, keys_here(), 1)
    own = replace(fact.snapshots[0], summary=summary)
    line = event_of(replace(fact, snapshots=(own,)))
    assert line is not None
    assert (line.kind, line.task_id) == ("own", "abc")


def test_an_ordinary_change_of_files_is_told_by_its_commit_alone(make: Make) -> None:
    assert event_of(make("files_changed/upsert")) is None


def test_a_commit_that_changed_nothing_to_tell_is_silent(make: Make) -> None:
    quiet = make("table_committed/upsert", snapshots=(), refs=(), change=TableChange.COMMITTED)
    assert event_of(quiet) is None


def test_a_retry_is_a_line_of_its_own(make: Make) -> None:
    first, second = (event_of(make("rewrite_files/compact", attempt=n)) for n in (1, 2))
    assert first is not None
    assert second is not None
    assert first.id != second.id


def test_a_commit_that_differs_says_what_takes_it_back(make: Make) -> None:
    fact = replace(make("rows_compared/equal"), outcome="differ", reason="rows_differ")
    line = event_of(fact)
    assert line.kind == "failed"
    assert line.text.endswith(
        "differ from those before the commit; firnline undo 00000000 reverts it"
    )


def test_a_rewrite_is_told_by_what_it_saved(make: Make) -> None:
    commit = make("table_committed/upsert")
    sizes = {"added-files-size": "38700", "removed-files-size": "106000"}
    counts = {"added-data-files": "3", "deleted-data-files": "48"}
    ours = sign_summary({TASK_ID: "t1,t2"}, commit.table.uuid, keys_here(), 1)
    summary = {**counts, **sizes, **ours}
    replaced = replace(commit.snapshots[-1], operation="replace", summary=summary)
    line = event_of(replace(commit, snapshots=(replaced,)))
    assert line is not None
    assert (line.kind, line.task_id) == ("own", "t1,t2")
    assert line.text == "replace: +3 data files, −48 data files, −67.3 kB"
