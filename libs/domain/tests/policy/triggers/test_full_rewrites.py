"""All files of a partition, once in an interval: when, and when not."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters
from firnline_domain.counters.state.debt import NO_DEBT, Debt
from firnline_domain.counters.state.work import Partition, PartitionWork, RunningTask, Table
from firnline_domain.identity import Scope, TableName
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.partition.decide import order_for, with_numbers
from firnline_domain.policy.partition.outcomes import after_success
from firnline_domain.policy.triggers.full_rewrites import with_full_interval
from firnline_domain.policy.triggers.table import TriggerReason
from firnline_domain.records.parts.slices import Slice
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.partitions import decide, policy_input

MB = 1 << 20
NOW = 1_795_000_000_000
SCOPE = Scope(1, '["a"]')
LIMITS = Thresholds(full_interval_ms=7 * DAY_MS, target_bytes=128 * MB, reads_per_hour=0.0)
TABLE = Table(TableCounters(TableName("u", ("db",), "t"), "main", known=True, head_snapshot_id=7))
LARGE = Tally(10, 10_000_000, 1_280 * MB)
VECTOR = Tally(1, 10, 100)


def partition(
    full_ms: int | None = NOW - 7 * DAY_MS,
    seen_ms: int = 0,
    changed_ms: int = 5,
    **tallies: Tally,
) -> Partition:
    holds = FileTally(on_target=LARGE, **(tallies or {"deletion_vectors": VECTOR}))
    counters = PartitionCounters(SCOPE, 1, 1, holds, changed_ms=changed_ms)
    return Partition(counters, PartitionWork(full_ms=full_ms, full_seen_ms=seen_ms))


def test_it_is_due_when_the_interval_is_over_whatever_it_costs() -> None:
    decision = decide(TABLE, partition(), LIMITS, NOW)
    assert (decision.reason, decision.action, decision.order) == (
        TriggerReason.FULL_INTERVAL, Action.FULL, True,
    )  # fmt: skip
    decision = with_numbers(policy_input(TABLE, partition(), LIMITS, NOW), decision)
    assert decision.numbers["rewrite_bytes"] == LARGE.bytes
    assert decision.numbers["full_interval_h"] == 168
    order, task = order_for(policy_input(TABLE, partition(), LIMITS, NOW), decision)
    assert (order.action, order.min_dead_ratio, task.action) == ("full", 0.0, "full")
    assert order.max_bytes > 0


def test_before_it_is_due_the_moment_is_known() -> None:
    decision = decide(TABLE, partition(NOW - 7 * DAY_MS + 1), LIMITS, NOW)
    assert (decision.order, decision.until_ms) == (False, NOW + 1)


@pytest.mark.parametrize(
    "spared",
    [
        {"full_ms": None},  # nobody has looked at it since the interval was set
        {"seen_ms": 5},  # it is as the last one has left it
        {"undersized": Tally(1, 1_000, 50 * MB)},  # nothing to be gained
        {"fragments": Tally(1, 1_000, MB)},
    ],
)
def test_what_nothing_is_to_be_gained_of_is_left_alone(spared: dict[str, Any]) -> None:
    assert decide(TABLE, partition(**spared), LIMITS, NOW).action is not Action.FULL


@pytest.mark.parametrize(
    "gained",
    [
        {"undersized": Tally(2, 1_000, 180 * MB)},
        {"undersized": Tally(1, 1_000, 90 * MB), "fragments": Tally(1, 1_000, MB)},
        {"position_deletes": VECTOR},
    ],
)
def test_two_small_files_or_a_delete_are_enough(gained: dict[str, Any]) -> None:
    assert decide(TABLE, partition(**gained), LIMITS, NOW).action is Action.FULL


def test_without_the_property_there_is_none() -> None:
    never = replace(LIMITS, full_interval_ms=0)
    assert decide(TABLE, partition(), never, NOW).reason is not TriggerReason.FULL_INTERVAL
    assert with_full_interval(PartitionWork(full_ms=5), never, "a", NOW).full_ms is None


def test_a_writer_is_waited_for_and_not_for_ever() -> None:
    busy = partition(changed_ms=NOW)
    quiet = replace(LIMITS, quiet_ms=60_000)
    decision = decide(TABLE, busy, quiet, NOW)
    assert (decision.order, decision.until_ms) == (False, NOW + 60_000)
    late = partition(NOW - 7 * DAY_MS - quiet.max_wait_ms, changed_ms=NOW)
    assert decide(TABLE, late, quiet, NOW).action is Action.FULL


def test_partitions_that_get_an_interval_together_fall_due_all_over_it() -> None:
    due = [
        with_full_interval(PartitionWork(), LIMITS, f"u 0 [{number}]", NOW).full_ms
        for number in range(1_000)
    ]
    first = [one for one in due if one is not None and one <= NOW]
    hours = [(one + LIMITS.full_interval_ms - NOW) // HOUR_MS for one in first]
    assert len(hours) == 1_000
    assert max(hours.count(hour) for hour in range(168)) < 20  # 6 on average
    assert (min(hours), max(hours)) == (0, 167)
    again = with_full_interval(PartitionWork(full_ms=9), LIMITS, "u 0 [1]", NOW)
    assert again.full_ms == 9


def task(action: str = "full", **more: Any) -> RunningTask:
    return RunningTask("t", SCOPE, action, "full_interval", 7, 1, NOW, NOW + 1, **more)


def test_the_interval_begins_anew_when_the_last_slice_is_done() -> None:
    work = partition().work
    part = Slice("full", "full_interval", 7, left_files=3, left_bytes=9)
    on_the_way = after_success(work, NO_DEBT, task(slice=part), LIMITS, NOW, changed_ms=8)
    assert on_the_way.full_ms == work.full_ms
    unfinished = replace(partition(), work=on_the_way)
    assert decide(TABLE, unfinished, LIMITS, NOW).action is Action.FULL
    switched_off = replace(LIMITS, full_interval_ms=0)
    assert decide(TABLE, unfinished, switched_off, NOW).action is not Action.FULL
    another = replace(on_the_way, unfinished=replace(part, reason="undersized"))
    continued = decide(TABLE, replace(partition(), work=another), switched_off, NOW)
    assert continued.action is Action.FULL
    last = replace(part, left_files=0)
    done = after_success(on_the_way, NO_DEBT, task(slice=last), LIMITS, NOW + 9, changed_ms=8)
    assert (done.full_ms, done.full_seen_ms, done.unfinished) == (NOW + 9, 8, None)


def test_what_came_meanwhile_is_for_the_next_one() -> None:
    work = replace(partition().work, arrived=Debt(fragments=1))
    done = after_success(work, Debt(fragments=1), task(), LIMITS, NOW, changed_ms=8)
    assert done.full_seen_ms == 0


def test_other_rewrites_leave_the_interval_as_it_is() -> None:
    work = replace(partition(seen_ms=3).work, arrived=NO_DEBT)
    done = after_success(work, NO_DEBT, task("compact"), LIMITS, NOW, changed_ms=8)
    assert (done.full_ms, done.full_seen_ms) == (work.full_ms, 3)
