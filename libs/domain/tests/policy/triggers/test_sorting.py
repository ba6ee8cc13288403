"""When a partition is looked through for files whose keys overlap."""

from __future__ import annotations

import pytest
from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters
from firnline_domain.counters.state.debt import NO_DEBT, Debt
from firnline_domain.counters.state.work import Partition, PartitionWork, RunningTask, Table
from firnline_domain.identity import Scope, TableName
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.partition.decide import order_for, with_numbers
from firnline_domain.policy.partition.outcomes import after_success
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.triggers.table import TriggerReason
from firnline_domain.records.parts.slices import Slice
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.partitions import decide, policy_input

MB = 1 << 20
NOW = 1_795_000_000_000
SCOPE = Scope(1, '["a"]')
LIMITS = Thresholds(sort="k", target_bytes=128 * MB, reads_per_hour=0.0)
TABLE = Table(TableCounters(TableName("u", ("db",), "t"), "main", known=True, head_snapshot_id=7))


def partition(
    files: int = 10, changed_ms: int = 5, fragments: int = 0, **work: int | None
) -> Partition:
    holds = FileTally(
        on_target=Tally(files, 1_000 * files, 128 * MB * files),
        fragments=Tally(fragments, fragments, fragments * MB),
    )
    counters = PartitionCounters(SCOPE, 1, 1, holds, changed_ms=changed_ms)
    return Partition(counters, PartitionWork(**work))  # type: ignore[arg-type]


def test_it_is_looked_at_once_and_then_when_it_has_changed_and_the_interval_is_over() -> None:
    decision = decide(TABLE, partition(), LIMITS, NOW)
    assert (decision.reason, decision.action, decision.order) == (
        TriggerReason.UNSORTED, Action.SORT, True,
    )  # fmt: skip
    decision = with_numbers(policy_input(TABLE, partition(), LIMITS, NOW), decision)
    order, task = order_for(policy_input(TABLE, partition(), LIMITS, NOW), decision)
    assert (order.action, order.min_dead_ratio, order.numbers["sort_depth"]) == ("sort", 1.0, 5)
    rested = partition(sorted_ms=NOW - HOUR_MS, sorted_seen_ms=5)
    assert decide(TABLE, rested, LIMITS, NOW).reason is Reason.HEALTHY
    early = partition(sorted_ms=NOW - HOUR_MS + 7, sorted_seen_ms=4)
    assert decide(TABLE, early, LIMITS, NOW).until_ms == NOW + 7
    assert decide(TABLE, early, LIMITS, NOW + 7).action is Action.SORT
    assert task.action == "sort"


@pytest.mark.parametrize(
    ("files", "limits"), [(5, LIMITS), (10, replace(LIMITS, sort="")), (10, Thresholds())]
)
def test_without_the_property_or_with_no_more_files_than_may_hold_a_key_it_is_not(
    files: int, limits: Thresholds
) -> None:
    assert decide(TABLE, partition(files), limits, NOW).action is not Action.SORT


def test_debt_goes_before_and_a_writer_at_work_is_waited_for() -> None:
    assert decide(TABLE, partition(fragments=9), LIMITS, NOW).reason is TriggerReason.FRAGMENTS
    busy = partition(changed_ms=NOW, sorted_ms=NOW - HOUR_MS, sorted_seen_ms=4)
    quiet = replace(LIMITS, quiet_ms=60_000)
    decision = decide(TABLE, busy, quiet, NOW)
    assert (decision.order, decision.until_ms) == (False, NOW + 60_000)


def task(**more: object) -> RunningTask:
    return RunningTask("t", SCOPE, "sort", "unsorted", 7, 1, NOW, NOW + 1, **more)  # type: ignore[arg-type]


def test_what_a_sort_has_left_is_no_floor_for_other_rewrites() -> None:
    """It takes some files, and not for their debt: three fragments still count beside new ones."""
    work = PartitionWork(floor=Debt(fragments=1))
    done = after_success(work, Debt(fragments=3), task(), LIMITS, NOW, changed_ms=8)
    assert done.floor == Debt(fragments=1)
    assert (done.sorted_ms, done.sorted_seen_ms) == (NOW, 8)
    fewer = after_success(PartitionWork(floor=Debt(fragments=4)), NO_DEBT, task(), LIMITS, NOW)
    assert fewer.floor == NO_DEBT


def test_what_came_while_it_was_sorted_is_looked_at_again() -> None:
    work = PartitionWork(arrived=Debt(fragments=1))
    assert after_success(work, Debt(1), task(), LIMITS, NOW, changed_ms=8).sorted_seen_ms == 0


def test_another_rewrite_keeps_what_is_known_and_slices_go_on_until_the_last() -> None:
    work = PartitionWork(sorted_ms=3, sorted_seen_ms=4)
    merge = replace(task(), action="merge")
    assert after_success(work, NO_DEBT, merge, LIMITS, NOW, changed_ms=8).sorted_ms == 3
    part = Slice("sort", "unsorted", 7, 1.0, left_files=3, left_bytes=9)
    on_the_way = after_success(work, NO_DEBT, task(slice=part), LIMITS, NOW, changed_ms=8)
    unfinished = replace(partition(), work=on_the_way)
    assert decide(TABLE, unfinished, LIMITS, NOW).action is Action.SORT
    assert decide(TABLE, unfinished, Thresholds(), NOW).action is not Action.SORT
