"""Which commits make a partition hot, and how long its debt waits."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.counters.state.debt import NO_DEBT, Debt
from firnline_domain.counters.state.work import PartitionWork, RunningTask
from firnline_domain.identity import Scope, TableName
from firnline_domain.policy.partition.outcomes import after_success, with_debt_ages
from firnline_domain.policy.triggers.hot_partitions import (
    after_writer_change,
    hot_until_ms,
    names_files,
    note_waiting,
)
from firnline_domain.records.events import ChangeKind, FilesChanged, PartitionChange
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.partitions import partition, policy_input, table

NOW = 1_795_000_000_000
TASK = RunningTask("t", Scope(1, "[]"), "compact", "fragments", 1, 1, 0, 0)
LIMITS = Thresholds(hot_ms=10_000, hot_max_ms=60_000)


def until_ms_of(work: PartitionWork, settings: Thresholds, now_ms: int) -> int | None:
    return hot_until_ms(policy_input(table(), partition(work=work), settings, now_ms))


def tally(**kinds: int) -> FileTally:
    return FileTally(**{kind: Tally(count, count, count) for kind, count in kinds.items()})


def part(added: FileTally, removed: FileTally | None = None) -> PartitionChange:
    return PartitionChange(Scope(0, '["a"]'), added, removed or FileTally())


def change(of_it: PartitionChange, operation: str, **more: Any) -> FilesChanged:
    values: dict[str, Any] = {
        "event_id": "e",
        "table": TableName("u", ("db",), "t"),
        "ref": "main",
        "kind": ChangeKind.DELTA,
        "snapshot_id": 2,
        "parent_snapshot_id": 1,
        "sequence_number": 2,
        "timestamp_ms": NOW,
        "operation": operation,
        "partitions": (of_it,),
        "format_version": 2,
        **more,
    }
    return FilesChanged(**values)


MERGED = part(tally(position_deletes=1, fragments=1))
CASES: list[tuple[str, PartitionChange, str, dict[str, Any], bool]] = [
    ("MoR MERGE", MERGED, "overwrite", {}, True),
    ("MoR DELETE", part(tally(position_deletes=1)), "delete", {}, True),
    ("MoR DELETE in v3", part(tally(deletion_vectors=1), tally(deletion_vectors=1)), "delete", {},
     True),
    ("CoW UPDATE", part(tally(fragments=1), tally(fragments=1)), "overwrite", {}, True),
    ("CoW DELETE of a file's last rows", part(tally(), tally(on_target=1)), "overwrite", {}, True),
    ("append", part(tally(fragments=3)), "append", {}, False),
    ("streaming upsert", part(tally(fragments=1, equality_deletes=1)), "overwrite", {}, False),
    ("upsert of a key twice in a commit",
     part(tally(fragments=1, equality_deletes=1, position_deletes=1)), "overwrite", {}, False),
    ("the same in v3", part(tally(fragments=1, equality_deletes=1, deletion_vectors=1)),
     "overwrite", {}, False),
    ("a partition dropped whole", part(tally(), tally(on_target=9)), "delete", {}, False),
    ("an overwrite of another partition", part(tally(fragments=1)), "overwrite", {}, False),
    ("our own conversion", MERGED, "overwrite", {"task_id": "abc"}, False),
    ("our own rewrite with a repair", MERGED, "replace", {"task_id": "abc"}, False),
    ("somebody else's maintenance", MERGED, "replace", {}, False),
    ("absolute counters", MERGED, "overwrite", {"kind": ChangeKind.ABSOLUTE}, False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "of_it", "operation", "more", "hot"), CASES, ids=[one[0] for one in CASES]
)
def test_who_makes_a_partition_hot(
    case: str, of_it: PartitionChange, operation: str, more: dict[str, Any], hot: bool
) -> None:
    told = change(of_it, operation, **more)
    assert names_files(told, of_it) is hot
    work = after_writer_change(PartitionWork(), told, of_it, NOW)
    assert until_ms_of(work, LIMITS, NOW) == (NOW + 10_000 if hot else None)


HOT = PartitionWork(touched_ms=NOW)


@pytest.mark.parametrize(
    ("case", "work", "now_ms", "until_ms"),
    [
        ("just touched", HOT, NOW, NOW + 10_000),
        ("cooled", HOT, NOW + 10_000, None),
        ("has waited a while", PartitionWork(touched_ms=NOW, hot_since_ms=NOW - 55_000), NOW,
         NOW + 5_000),
        ("has waited long enough", PartitionWork(touched_ms=NOW, hot_since_ms=NOW - 60_000), NOW,
         None),
        ("never touched", PartitionWork(), NOW, None),
    ],
)  # fmt: skip
def test_debt_waits_but_not_for_ever(
    case: str, work: PartitionWork, now_ms: int, until_ms: int | None
) -> None:
    assert until_ms_of(work, LIMITS, now_ms) == until_ms


def test_the_wait_counts_from_its_beginning() -> None:
    assert note_waiting(note_waiting(HOT, NOW), NOW + 9_000).hot_since_ms == NOW


def test_debt_that_has_gone_waits_anew_when_it_comes_back() -> None:
    work = PartitionWork(touched_ms=NOW, hot_since_ms=NOW - 55_000, debt_since_ms=1)
    assert with_debt_ages(work, Debt(fragments=1), NOW).hot_since_ms == NOW - 55_000
    assert with_debt_ages(work, NO_DEBT, NOW).hot_since_ms is None


def test_a_rewrite_does_not_cool_a_partition() -> None:
    """Its writer is still at work: the next rewrite waits for it as well."""
    done = after_success(
        PartitionWork(touched_ms=NOW, hot_since_ms=1), NO_DEBT, TASK, LIMITS, NOW + 5
    )
    assert until_ms_of(done, LIMITS, NOW + 5) == NOW + 10_000
    assert done.hot_since_ms is None


def test_zero_leaves_nothing_alone() -> None:
    assert until_ms_of(HOT, Thresholds(hot_ms=0), NOW) is None


def test_what_is_told_late_is_not_hot_and_a_fast_clock_heats_no_longer() -> None:
    late = after_writer_change(PartitionWork(), change(MERGED, "overwrite"), MERGED, NOW + 60_000)
    assert until_ms_of(late, LIMITS, NOW + 60_000) is None
    ahead = after_writer_change(
        PartitionWork(), change(MERGED, "overwrite"), MERGED, NOW - 3_600_000
    )
    assert until_ms_of(ahead, LIMITS, NOW - 3_600_000) == NOW - 3_600_000 + 10_000
