"""Writers' commits and our own results, hour by hour."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.base.times import HOUR_MS
from firnline_domain.counters.activity.writers import (
    SLOW_LEAST_MS,
    SLOW_TIMES,
    WriterActivity,
    after_commit,
    after_result,
)
from firnline_domain.identity import Scope
from firnline_domain.records.events import (
    ChangeKind,
    FilesChanged,
    PartitionChange,
    RewriteCommitted,
    RewriteConflicted,
)
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.parts.tallies import FileTally, Tally

from tests.examples import make
from tests.kit.names import TABLE

NOW_MS = 1_795_000_000_000
SCOPE = Scope(0, "[]")


def change(added: int = 100, removed: int = 0, **more: Any) -> FilesChanged:
    """A commit of so many records, of ten bytes each."""
    part = PartitionChange(
        SCOPE,
        FileTally(fragments=Tally(1, added, added * 10)),
        FileTally(fragments=Tally(1, removed, removed * 10) if removed else Tally()),
    )
    values: dict[str, Any] = {
        "event_id": "e",
        "table": TABLE,
        "ref": "main",
        "kind": ChangeKind.DELTA,
        "snapshot_id": 1,
        "parent_snapshot_id": None,
        "sequence_number": 1,
        "timestamp_ms": 0,
        "operation": "append",
        "partitions": (part,),
        "format_version": 2,
    }
    return FilesChanged(**values | more)


def test_a_commit_counts_with_its_bytes() -> None:
    activity = after_commit(after_commit(WriterActivity(), change(), NOW_MS), change(), NOW_MS + 1)
    hour = activity.current
    assert (hour.start_ms, hour.commits, hour.added_bytes) == (NOW_MS, 2, 2_000)
    assert hour.overwrites == 0


@pytest.mark.parametrize(
    "other",
    [
        {"task_id": "ours"},
        {"operation": "replace"},
        {"kind": ChangeKind.REF_MOVED},
        {"kind": ChangeKind.ABSOLUTE},
        {"snapshot_id": None},
    ],
)
def test_what_is_no_commit_of_a_writer_counts_for_nothing(other: dict[str, Any]) -> None:
    assert after_commit(WriterActivity(), change(**other), NOW_MS) == WriterActivity()


def test_a_commit_in_chunks_is_one() -> None:
    activity = WriterActivity()
    for chunk in range(3):
        part = change(100, 100, chunk=chunk, chunks=3, operation="overwrite")
        activity = after_commit(activity, part, NOW_MS)
    hour = activity.current
    assert (hour.commits, hour.overwrites, hour.replaced_records) == (1, 1, 300)


def test_an_overwrite_that_removes_nothing_is_an_append() -> None:
    assert (
        after_commit(WriterActivity(), change(operation="overwrite"), NOW_MS).current.overwrites
        == 0
    )


def test_two_hours_are_kept() -> None:
    first = after_commit(WriterActivity(), change(), NOW_MS)
    second = after_commit(first, change(), NOW_MS + HOUR_MS)
    third = after_commit(second, change(), NOW_MS + 2 * HOUR_MS)
    assert (second.last, third.last) == (first.current, second.current)
    assert [*third.recent_hours(NOW_MS + 3 * HOUR_MS - 1)] == [third.current, third.last]
    assert [*third.recent_hours(NOW_MS + 3 * HOUR_MS)] == [third.current]
    assert third.stale_ms(NOW_MS + 2 * HOUR_MS) == NOW_MS + 3 * HOUR_MS
    assert [*third.recent_hours(NOW_MS + 4 * HOUR_MS)] == []
    assert third.stale_ms(NOW_MS + 4 * HOUR_MS) is None


def test_a_clock_that_was_set_back_begins_another_hour() -> None:
    activity = after_commit(after_commit(WriterActivity(), change(), NOW_MS), change(), NOW_MS - 10)
    assert activity.current.commits == 1
    assert [*activity.recent_hours(NOW_MS - 10)] == [activity.current]


def conflicted(reason: ConflictReason) -> RewriteConflicted:
    return RewriteConflicted("t", TABLE, "main", SCOPE, reason, "", 1, 2, 0)


def committed(groups_lost: int = 0) -> RewriteCommitted:
    return RewriteCommitted(
        "t", TABLE, "main", SCOPE, (1,), 1, 1, 1, 0, 0, 1, 1, 1, 0, 1, "native", False, 0,
        groups_lost=groups_lost,
    )  # fmt: skip


def test_results_and_those_that_writers_spoilt() -> None:
    events = (
        committed(),
        committed(groups_lost=1),
        conflicted(ConflictReason.PIN_LOST),
        conflicted(ConflictReason.NEW_POSITION_DELETES),
        conflicted(ConflictReason.SCHEMA_CHANGED),
    )
    activity = WriterActivity()
    for event in events:
        activity = after_result(activity, event, NOW_MS)
    assert (activity.current.results, activity.current.conflicts) == (4, 3)


@pytest.mark.parametrize(
    ("worked_ms", "expected_ms", "slow"),
    [
        (SLOW_LEAST_MS, SLOW_LEAST_MS // SLOW_TIMES, 1),
        (SLOW_LEAST_MS, SLOW_LEAST_MS // SLOW_TIMES + 1, 0),
        (SLOW_LEAST_MS - 1, 1, 0),  # nobody minds
    ],
)
def test_a_rewrite_is_slow_by_what_was_foretold(
    worked_ms: int, expected_ms: int, slow: int
) -> None:
    event = make("rewrite_committed/native", worked_ms=worked_ms)
    hour = after_result(WriterActivity(), event, NOW_MS, expected_ms).current
    assert (hour.timed, hour.slow) == (1, slow)
    assert (hour.slow_ms, hour.slow_expected_ms) == (worked_ms * slow, expected_ms * slow)
    untold = after_result(WriterActivity(), event, NOW_MS, None).current
    assert (untold.results, untold.timed) == (1, 0)
