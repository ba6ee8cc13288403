"""No equality delete is older than promised: ordered early enough, before all brakes but pauses."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters, Totals
from firnline_domain.counters.state.debt import NO_DEBT, Debt
from firnline_domain.counters.state.work import (
    Partition,
    PartitionWork,
    RunningTask,
    ServiceLevel,
    Table,
    TableWork,
)
from firnline_domain.identity import Scope, TableName
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.partition.outcomes import after_change, after_order, after_success
from firnline_domain.policy.reasons import Decision, Reason
from firnline_domain.policy.triggers.objectives import (
    MARGIN_MS,
    lead_ms,
    orders_of,
    turnaround_after,
)
from firnline_domain.policy.triggers.table import TriggerReason
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.pauses import Pause
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.partitions import decide, explained, policy_input, table_input

NOW = 1_800_000_000_000
GB = 1 << 30
# One delete file of 10,000 keys beside 10 GB: below every threshold, and dear.
HOLDS = FileTally(
    on_target=Tally(80, 10**8, 10 * GB),
    equality_deletes=Tally(1, 10_000, 100_000),
)
LEAD_MS = MARGIN_MS + 1
NAME = TableName("u", ("a",), "t")
PART = Scope(0, '["x"]')
PROMISE = Thresholds(max_equality_delete_age_ms=HOUR_MS, max_age_ms=10**12, reads_per_hour=0.0)


def table(holds: FileTally = HOLDS, turnaround_ms: int = 1, **work: Any) -> Table:
    """Whose orders take no time."""
    service = ServiceLevel(turnaround_ms)
    counters = TableCounters(NAME, "main", known=True, head_snapshot_id=1, format_version=2)
    totals = Totals(holds, partitions=1, partitioned=1)
    return Table(replace(counters, totals=totals), TableWork(service=service, **work))


def partition(age_ms: int, holds: FileTally = HOLDS, **work: Any) -> Partition:
    known = {"debt_since_ms": NOW - age_ms, "equality_since_ms": NOW - age_ms} | work
    return Partition(PartitionCounters(PART, holds=holds), PartitionWork(**known))


def decided(
    age_ms: int, limits: Thresholds = PROMISE, of: Table | None = None, **work: Any
) -> Decision:
    return decide(of or table(), partition(age_ms, **work), limits, NOW)


def test_an_order_goes_out_early_enough_and_not_before() -> None:
    early = decided(HOUR_MS - LEAD_MS - 1)
    assert not early.order
    assert early.until_ms == NOW + 1
    due = decided(HOUR_MS - LEAD_MS)
    assert (due.order, due.reason) == (True, TriggerReason.EQUALITY_DELETE_AGE)
    assert due.action is Action.CONVERT
    assert not decided(100 * HOUR_MS, replace(PROMISE, max_equality_delete_age_ms=0)).order


def test_what_orders_took_lately_is_taken_off() -> None:
    slow = table(turnaround_ms=600_000)
    assert lead_ms(table_input(slow, PROMISE)) == 900_000 + MARGIN_MS
    assert not decided(HOUR_MS - 900_000 - MARGIN_MS - 1, of=slow).order
    assert decided(HOUR_MS - 900_000 - MARGIN_MS, of=slow).order
    assert decided(0, of=table(turnaround_ms=2 * HOUR_MS)).order  # it cannot be held: at once


def test_before_the_first_order_more_is_taken_off() -> None:
    """What an order is planned for, five minutes; of a short promise half."""
    unknown = table(turnaround_ms=0)
    assert decided(HOUR_MS - 300_000, of=unknown).order
    assert not decided(HOUR_MS - 300_001, of=unknown).order
    short = replace(PROMISE, max_equality_delete_age_ms=60_000)
    assert decided(30_000, short, unknown).order
    assert not decided(29_999, short, unknown).order


def test_a_partition_that_takes_several_orders_begins_as_much_earlier() -> None:
    """Each takes five minutes of 4 terabytes' keys."""
    slow, large = (
        table(turnaround_ms=100_000),
        FileTally(
            on_target=Tally(8_000, 10**10, 4_000 * GB), equality_deletes=Tally(1, 10_000, 100_000)
        ),
    )
    orders = orders_of(policy_input(table(), partition(0, large), PROMISE))
    assert orders > 10
    lead = 150_000 * orders + MARGIN_MS
    wide = replace(PROMISE, max_equality_delete_age_ms=lead + HOUR_MS)
    assert decide(slow, partition(HOUR_MS, large), wide, NOW).order
    assert not decide(slow, partition(HOUR_MS - 1, large), wide, NOW).order
    assert orders_of(policy_input(table(), partition(0, large), replace(PROMISE, slice_ms=0))) == 1


def test_the_longest_of_the_last_orders_counts_and_fades() -> None:
    known = 0
    for took_ms in (100_000, 600_000, 100_000):
        known = turnaround_after(known, took_ms)
    assert known == 540_000
    for _ in range(50):
        known = turnaround_after(known, 100_000)
    assert known == 100_000


@pytest.mark.parametrize(
    "brakes",
    [
        {"payback": 1e6, "max_wait_ms": 10**12},
        {"quiet_ms": 10**9},
        {"hot_ms": 10**9, "hot_max_ms": 10**9},
        {"window": "03:00-03:01"},
        {"blackout": "00:00-24:00"},
        {"max_in_flight": 0},
        {"max_commits": 1},
        {"convert": "never"},
        {"min_equality_deletes": 100},
    ],
)
def test_no_brake_breaks_a_promise(brakes: dict[str, Any]) -> None:
    other = RunningTask("t", Scope(0, '["y"]'), "compact", "", 1, 1, NOW - 5, NOW + HOUR_MS)
    busy = table(running=(other,))
    found = decided(HOUR_MS, replace(PROMISE, **brakes), busy, touched_ms=NOW, pause="cooling",
                    until_ms=NOW + HOUR_MS)  # fmt: skip
    assert (found.order, found.reason) == (True, TriggerReason.EQUALITY_DELETE_AGE)


def test_pauses_do() -> None:
    paused = replace(table(), pause=Pause(NOW, "a", "b"))
    assert decided(HOUR_MS, of=paused).reason is Reason.PAUSED
    for pause in ("backing_off", "parked", "undone"):
        found = decided(HOUR_MS, pause=pause, until_ms=NOW + 1)
        assert found.reason == Reason(pause)
    assert decided(HOUR_MS, replace(PROMISE, shadow=True)).reason is Reason.SHADOW
    assert decided(HOUR_MS, replace(PROMISE, enabled=False)).reason is Reason.DISABLED
    out = RunningTask("t", PART, "merge", "", 1, 1, NOW - 5, NOW + HOUR_MS)
    assert decided(HOUR_MS, of=table(running=(out,))).reason is Reason.IN_FLIGHT


def test_what_a_rewrite_has_left_is_not_tried_again() -> None:
    assert not decided(10 * HOUR_MS, floor=Debt(equality_deletes=1)).order


def test_a_brake_is_looked_behind_when_the_promise_is_due() -> None:
    """Else the next look would be when the window opens."""
    limits = replace(PROMISE, min_equality_deletes=1, window="03:00-03:01", cheap_bytes=1 << 50)
    found = decided(HOUR_MS // 2, limits)
    assert found.reason is Reason.OUTSIDE_WINDOW
    assert found.until_ms == NOW + HOUR_MS // 2 - LEAD_MS
    cooling = decided(HOUR_MS // 2, pause="cooling", until_ms=NOW + HOUR_MS)
    assert cooling.until_ms == NOW + HOUR_MS // 2 - LEAD_MS


def test_the_numbers_are_told() -> None:
    part = partition(HOUR_MS)
    found = explained(table(), part, PROMISE, NOW)
    assert found.numbers["equality_delete_age_s"] == 3_600
    assert found.numbers["max_equality_delete_age_s"] == 3_600
    other = explained(table(), part, Thresholds(), NOW)
    assert other.numbers["max_equality_delete_age_s"] == 0


DELETE = Debt(equality_deletes=1)
TASK = RunningTask("t", PART, "convert", "", 1, 1, NOW, NOW + HOUR_MS)


def test_the_oldest_that_is_there_counts_by_its_commits_time() -> None:
    work = after_change(PartitionWork(), DELETE, DELETE, NOW, NOW - 5_000)
    assert work.equality_since_ms == NOW - 5_000
    work = after_change(work, DELETE + DELETE, DELETE, NOW + 1_000, NOW)
    assert work.equality_since_ms == NOW - 5_000
    ahead = after_change(PartitionWork(), DELETE, DELETE, NOW, NOW + 9_000)
    assert ahead.equality_since_ms == NOW  # a writer's clock is ahead
    assert after_change(work, NO_DEBT, NO_DEBT, NOW).equality_since_ms is None


def test_after_a_rewrite_those_count_that_came_meanwhile() -> None:
    work = after_order(after_change(PartitionWork(), DELETE, DELETE, NOW))
    late = after_change(work, DELETE + DELETE, DELETE, NOW + 7_000)
    late = after_change(late, DELETE + DELETE, DELETE, NOW + 8_000)
    done = after_success(late, DELETE, TASK, PROMISE, NOW + 9_000)
    assert done.equality_since_ms == NOW + 7_000
    left = after_success(work, DELETE, TASK, PROMISE, NOW + 9_000)
    assert left.equality_since_ms == NOW  # it could not be removed
    assert after_success(work, NO_DEBT, TASK, PROMISE, NOW + 9_000).equality_since_ms is None


def test_deletes_of_every_partition_are_promised_by_none() -> None:
    counters = replace(
        table().counters, totals=Totals(HOLDS, 2, 1, unpartitioned_equality_deletes=1)
    )
    reaching = replace(table(), counters=counters)
    part = replace(partition(HOUR_MS), counters=PartitionCounters(Scope(0, "[]"), holds=HOLDS))
    assert decide(reaching, part, PROMISE, NOW).reason is not TriggerReason.EQUALITY_DELETE_AGE
