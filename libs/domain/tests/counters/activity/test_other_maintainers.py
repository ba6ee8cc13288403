"""Other maintainers of a table: who is noticed, and for how long it is yielded to."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.base.times import DAY_MS
from firnline_domain.counters.activity.other_maintainers import (
    SINGLE_RUN_YIELD_MS,
    OtherMaintainer,
    is_others_maintenance,
    notice_rewrite,
)
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import ChangeKind, FilesChanged, PartitionChange
from firnline_domain.records.parts.tallies import FileTally

START = 1_795_000_000_000
HOUR_MS, MINUTE_MS = 3_600_000, 60_000
PART = PartitionChange(Scope(0, "[]"), FileTally(), FileTally())
SPARK = {"engine-name": "spark", "app-id": "local-7"}


def change(at_ms: int = START, **more: Any) -> FilesChanged:
    values: dict[str, Any] = {
        "event_id": f"e{at_ms}",
        "table": TableName("u", ("db",), "t"),
        "ref": "main",
        "kind": ChangeKind.DELTA,
        "snapshot_id": at_ms % 1_000_003,
        "parent_snapshot_id": 1,
        "sequence_number": 2,
        "timestamp_ms": at_ms,
        "operation": "replace",
        "partitions": (PART,),
        "format_version": 2,
        "maker": SPARK,
        **more,
    }
    return FilesChanged(**values)


def after(*moments: int) -> OtherMaintainer:
    known = None
    for moment in moments:
        known = notice_rewrite(known, change(moment), moment + 5)
    assert known is not None
    return known


@pytest.mark.parametrize(
    ("case", "of_it", "expected"),
    [
        ("Spark's rewrite_data_files", {}, True),
        ("one whose engine says nothing", {"maker": {}}, True),
        ("Amoro, which overwrites", {"operation": "overwrite",
                                     "maker": {"snapshot.producer": "OPTIMIZE"}}, True),
        ("Amoro's ingestion", {"operation": "overwrite",
                               "maker": {"snapshot.producer": "INGESTION"}}, False),
        ("ours, made or handed over", {"task_id": "abc"}, False),
        ("a writer's", {"operation": "overwrite"}, False),
        ("rewrite_manifests: no file changes", {"partitions": ()}, False),
        ("absolute counters at a replace", {"kind": ChangeKind.ABSOLUTE}, False),
        ("an undo, a rollback", {"kind": ChangeKind.REF_MOVED}, False),
    ],
)  # fmt: skip
def test_who_is_noticed(case: str, of_it: dict[str, Any], expected: bool) -> None:
    assert is_others_maintenance(change(**of_it)) is expected
    assert (notice_rewrite(None, change(**of_it), START) is not None) is expected


def test_a_rewrite_made_once_is_given_minutes() -> None:
    lone = after(START)
    assert not lone.is_repeated
    assert lone.until_ms(HOUR_MS) == START + SINGLE_RUN_YIELD_MS
    assert lone.until_ms(MINUTE_MS) == START + MINUTE_MS


def test_many_commits_of_one_run_are_still_once() -> None:
    """Partial progress: ten commits in an hour and a half, from the last of which it counts."""
    run = after(*(START + number * 10 * MINUTE_MS for number in range(10)))
    assert not run.is_repeated
    assert run.since_ms == START
    assert run.until_ms(HOUR_MS) == START + 90 * MINUTE_MS + SINGLE_RUN_YIELD_MS


@pytest.mark.parametrize(
    ("pause_ms", "repeats"),
    [(HOUR_MS, True), (DAY_MS, True), (3 * DAY_MS, True), (7 * DAY_MS, False)],
)
def test_who_comes_again_within_days_is_yielded_to(pause_ms: int, repeats: bool) -> None:
    again = after(START, START + pause_ms)
    assert again.is_repeated is repeats
    expected = HOUR_MS if repeats else SINGLE_RUN_YIELD_MS
    assert again.until_ms(HOUR_MS) == START + pause_ms + expected


def test_zero_yields_to_nobody() -> None:
    assert after(START, START + DAY_MS).until_ms(0) == START + DAY_MS


def test_what_is_told_late_holds_nothing_up() -> None:
    known = notice_rewrite(None, change(START), START + DAY_MS)
    assert known is not None
    assert known.until_ms(HOUR_MS) < START + DAY_MS


def test_a_clock_that_is_ahead_does_not_hold_for_longer() -> None:
    known = notice_rewrite(None, change(START + DAY_MS), START)
    assert known is not None
    assert known.until_ms(HOUR_MS) == START + SINGLE_RUN_YIELD_MS


def test_chunks_of_one_commit_are_one() -> None:
    first = after(START)
    assert notice_rewrite(first, change(START, chunk=1, chunks=2), START + 9) == first


def test_it_is_said_who_it_was() -> None:
    assert after(START).describe() == (
        f"snapshot {START % 1_000_003} by app-id local-7, engine-name spark, which ran once"
    )
    nobody = OtherMaintainer(5, START, START, START - HOUR_MS, {})
    assert nobody.describe() == "snapshot 5 by an unnamed engine, which runs again and again"
