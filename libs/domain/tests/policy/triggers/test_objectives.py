"""Where an objective is in danger a rewrite is due although readers have not paid; where it is
held, their payment decides."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters
from firnline_domain.counters.state.debt import Debt
from firnline_domain.counters.state.work import Partition, PartitionWork, Table
from firnline_domain.identity import Scope, TableName
from firnline_domain.policy.cost.cost_benefit import burden_of
from firnline_domain.policy.reasons import Decision, Reason
from firnline_domain.policy.triggers.objectives import DANGER, is_missed
from firnline_domain.policy.triggers.table import TriggerReason
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.partitions import decide, explained, policy_input

NOW = 1_800_000_000_000
GB = 1 << 30
MB = 1 << 20
# Nobody reads it, and nothing waits for a day.
UNREAD = Thresholds(
    reads_per_hour=0.0, max_wait_ms=10**12, max_age_ms=10**12, max_size_error=0.0, quiet_ms=0
)
TABLE = Table(TableCounters(TableName("u", ("a",), "t"), "main", known=True, head_snapshot_id=1))


def holds(delete_files: int) -> FileTally:
    """Ten gigabytes, and deletes by a thousand keys each."""
    deletes = Tally(delete_files, delete_files * 1_000, delete_files * 10_000)
    return FileTally(on_target=Tally(20, 10**8, 10 * GB), equality_deletes=deletes)


def partition(delete_files: int = 1, age_ms: int = 0, **work: Any) -> Partition:
    counters = PartitionCounters(Scope(0, '["x"]'), holds=holds(delete_files))
    return Partition(counters, PartitionWork(debt_since_ms=NOW - age_ms, **work))


def decided(limits: Thresholds, *args: Any, **work: Any) -> Decision:
    return decide(TABLE, partition(*args, **work), limits, NOW)


def amplification(delete_files: int) -> float:
    return burden_of(holds(delete_files), UNREAD.target_bytes).amplification


def test_what_nobody_reads_waits_without_an_objective() -> None:
    assert not decided(UNREAD, 100, HOUR_MS).order


@pytest.mark.parametrize("files", [3, 50])
def test_reads_never_cost_more_than_allowed(files: int) -> None:
    """Below every count or above one: price and payment would hold it back."""
    limit = (amplification(files) - 1) / DANGER
    held = replace(UNREAD, max_read_amplification=1 + limit * 1.01)
    assert not decided(held, files).order
    endangered = replace(UNREAD, max_read_amplification=1 + limit * 0.99)
    found = decided(endangered, files)
    assert (found.order, found.reason) == (True, TriggerReason.OBJECTIVE)
    assert not is_missed(
        policy_input(TABLE, partition(files), endangered, NOW), amplification(files)
    )  # in time


def test_no_debt_is_older_than_allowed() -> None:
    limits = replace(UNREAD, max_oldest_debt_ms=HOUR_MS)
    early = decided(limits, 1, int(HOUR_MS * DANGER) - 1)
    assert not early.order
    assert early.until_ms == NOW + 1
    due = decided(limits, 1, int(HOUR_MS * DANGER))
    assert (due.order, due.reason) == (True, TriggerReason.OBJECTIVE)
    many = decided(limits, 50, int(HOUR_MS * DANGER) - 1)
    assert (many.reason, many.until_ms) == (Reason.MINIMUM_GAIN, NOW + 1)


def test_a_lone_fragment_that_is_too_old_is_not_looked_at_before_a_commit() -> None:
    """It has nothing to be merged with: a moment in the past would have the table reconciled with
    every tick."""
    lone = PartitionCounters(Scope(0, '["x"]'), holds=FileTally(fragments=Tally(1, 10, 10)))
    part = replace(partition(age_ms=2 * HOUR_MS), counters=lone)
    limits = replace(UNREAD, max_oldest_debt_ms=HOUR_MS)
    found = decide(TABLE, part, limits, NOW)
    assert (found.reason, found.until_ms) == (Reason.ACCUMULATING, None)


def test_where_it_is_held_readers_payment_decides() -> None:
    limits = replace(UNREAD, reads_per_hour=10_000.0, max_read_amplification=100.0)
    found = decided(limits, 3, HOUR_MS)
    assert (found.order, found.reason) == (True, TriggerReason.READ_DEBT)


def test_what_a_rewrite_has_left_is_in_no_danger() -> None:
    limits = replace(UNREAD, max_read_amplification=1.001, max_oldest_debt_ms=1)
    left = Debt(equality_deletes=50)
    assert not decided(limits, 50, HOUR_MS, floor=left).order


def test_other_brakes_hold() -> None:
    limits = replace(UNREAD, max_read_amplification=1.0001, quiet_ms=10**9)
    part = partition(3)
    written = replace(part, counters=replace(part.counters, changed_ms=NOW))
    assert decide(TABLE, part, limits, NOW).order
    assert decide(TABLE, written, limits, NOW).reason is Reason.QUIET_PERIOD
    shadow = replace(UNREAD, max_read_amplification=1.001, shadow=True)
    assert decided(shadow, 50).reason is Reason.SHADOW


def test_the_numbers_are_told_and_a_missed_one_is_counted() -> None:
    limits = replace(UNREAD, max_read_amplification=1.25, max_oldest_debt_ms=HOUR_MS)
    part = partition(1, 2 * HOUR_MS)
    numbers = explained(TABLE, part, limits, NOW).numbers
    assert numbers["objective_read_amplification"] == 1.25
    assert (numbers["oldest_debt_s"], numbers["objective_oldest_debt_s"]) == (7_200, 3_600)
    assert is_missed(policy_input(TABLE, part, limits, NOW), 1.0)
    fresh = partition(1, HOUR_MS)
    assert not is_missed(policy_input(TABLE, fresh, limits, NOW), 1.25)
    assert is_missed(policy_input(TABLE, fresh, limits, NOW), 1.26)
    assert not is_missed(policy_input(TABLE, part, UNREAD, NOW), 99.0)


def test_what_a_conversion_left_does_not_hide_new_deletes() -> None:
    """Two hundred vectors are there since the last one; the new delete weighs as much as alone."""
    limit = replace(UNREAD, max_read_amplification=1 + (amplification(10) - 1) * 0.9)
    assert decided(limit, 10).reason is TriggerReason.OBJECTIVE
    vectors = Tally(20, 1_000, 20 * 1_000)
    there = partition(10, floor=Debt(position_deletes=20))
    counters = replace(there.counters, holds=replace(holds(10), deletion_vectors=vectors))
    decision = decide(TABLE, replace(there, counters=counters), limit, NOW)
    assert decision.reason is TriggerReason.OBJECTIVE
