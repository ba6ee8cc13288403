"""In a table that was moved to v3 deletion vectors take the place of what was there before."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters, Totals
from firnline_domain.counters.state.work import (
    ActionWork,
    Partition,
    PartitionWork,
    RunningTask,
    Table,
    TableWork,
)
from firnline_domain.identity import Scope, TableName
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.partition.decide import with_numbers
from firnline_domain.policy.reasons import Decision
from firnline_domain.policy.triggers.table import TriggerReason
from firnline_domain.policy.triggers.v2_deletes import UPGRADE, after_rewrite, v2_files
from firnline_domain.records.parts.slices import Slice
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import resolve_thresholds

from tests.kit.partitions import decide, policy_input

NOW = 1_795_000_000_000
NAME, SCOPE = TableName("u", ("db",), "t"), Scope(0, '["a"]')
LIMITS = resolve_thresholds({"firnline.format-version": "3"})
DONE = NOW - 3_600_000
BIG = Tally(4, 4_000, 4 << 29)
COUNTERS = TableCounters(NAME, "main", known=True, head_snapshot_id=7, format_version=3)
TABLE = Table(COUNTERS, TableWork(actions={UPGRADE: ActionWork(done_ms=DONE)}))


def partition(positions: int = 0, equality: int = 0, since_ms: int | None = None) -> Partition:
    holds = FileTally(
        on_target=BIG,
        position_deletes=Tally(positions, positions, positions),
        equality_deletes=Tally(equality, equality, equality),
        deletion_vectors=Tally(2, 2, 2),
    )
    counters = PartitionCounters(SCOPE, holds=holds, changed_ms=NOW - 60_000)
    return Partition(counters, PartitionWork(equality_since_ms=since_ms))


def decided(one: Partition, table: Table = TABLE, limits: object = LIMITS) -> Decision:
    return decide(table, one, limits, NOW)  # type: ignore[arg-type]


def test_one_position_delete_file_is_enough_and_vectors_are_none() -> None:
    assert decided(partition()).reason is not TriggerReason.V2_DELETES
    found = decided(partition(positions=1))
    assert (found.reason, found.order, found.action) == (
        TriggerReason.V2_DELETES,
        True,
        Action.CONVERT,
    )
    assert found.min_dead_ratio == 1  # no larger file is rewritten
    told = with_numbers(policy_input(TABLE, partition(positions=1), LIMITS, NOW), found)
    assert told.numbers["v2_delete_files"] == 1


def test_a_sort_of_several_tasks_is_not_interrupted() -> None:
    begun = Slice("sort", "unsorted", 3, min_dead_ratio=1.0, left_files=5, left_bytes=1 << 30)
    one = replace(partition(positions=1), work=PartitionWork(unfinished=begun))
    found = decided(one, limits=replace(LIMITS, sort="a"))
    assert (found.order, found.action) == (True, Action.SORT)


def test_nobody_who_has_not_asked_for_v3_gets_it() -> None:
    assert (
        decided(partition(1), limits=resolve_thresholds({})).reason is not TriggerReason.V2_DELETES
    )
    v2 = replace(TABLE, counters=replace(COUNTERS, format_version=2))
    assert decided(partition(1), v2).reason is not TriggerReason.V2_DELETES


@pytest.mark.parametrize(("since_ms", "old"), [(DONE - 1, 2), (DONE, 0), (DONE + 1, 0), (None, 0)])
def test_equality_deletes_that_came_afterwards_are_served_as_in_any_table(
    since_ms: int | None, old: int
) -> None:
    one = partition(equality=2, since_ms=since_ms)
    assert v2_files(policy_input(TABLE, one, LIMITS)) == old
    assert (decided(one).reason is TriggerReason.V2_DELETES) == bool(old)


def test_global_deletes_are_left_to_the_policy() -> None:
    totals = Totals(partitions=2, partitioned=1, unpartitioned_equality_deletes=2)
    table = replace(TABLE, counters=replace(COUNTERS, totals=totals))
    one = partition(equality=2, since_ms=DONE - 1)
    one = replace(one, counters=replace(one.counters, scope=Scope(1, "[]")))
    assert v2_files(policy_input(table, one, LIMITS)) == 0


def test_a_writer_at_work_goes_first() -> None:
    one = partition(1)
    busy = replace(one, counters=replace(one.counters, changed_ms=NOW - 100))
    found = decided(busy)
    assert not found.order
    assert found.until_ms == NOW + 900


def test_what_a_conversion_could_not_take_is_not_tried_again() -> None:
    one = partition(3)
    task = RunningTask("t", SCOPE, Action.CONVERT, "r", 7, 1, NOW, NOW)
    left = after_rewrite(policy_input(TABLE, one, LIMITS), task)
    assert left == 3
    progress = replace(task, numbers={"v2_delete_files": 4.0})
    assert after_rewrite(policy_input(TABLE, one, LIMITS), progress) == 0
    rested = replace(one, work=replace(one.work, v2_left=left))
    assert decided(rested).reason is not TriggerReason.V2_DELETES
    for action in (Action.MERGE, Action.SORT):
        assert after_rewrite(policy_input(TABLE, one, LIMITS), replace(task, action=action)) == 0
    going = replace(one, work=replace(one.work, unfinished=Slice("convert", "r", 1, 1.0, 2, 9)))
    assert after_rewrite(policy_input(TABLE, going, LIMITS), task) == 0


def test_where_vectors_are_unwanted_the_files_are_rewritten() -> None:
    never = replace(LIMITS, convert="never")
    limits = resolve_thresholds(
        {"firnline.format-version": "3", "firnline.rewrite.convert": "never"}
    )
    assert never.convert == limits.convert
    found = decided(partition(1), limits=limits)
    assert (found.action, found.min_dead_ratio) == (Action.COMPACT, 0)
