"""Where an order goes, and whose turn it is."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters
from firnline_domain.counters.state.debt import NO_DEBT
from firnline_domain.counters.state.work import Partition, PartitionWork, RunningTask
from firnline_domain.identity import Scope
from firnline_domain.policy.cost.cost_benefit import weigh_compaction
from firnline_domain.policy.fleet.lanes import (
    LANES,
    TOPICS,
    Lane,
    LaneRotation,
    lane_of,
    lane_of_order,
    set_bytes,
)
from firnline_domain.policy.partition.decide import price_numbers
from firnline_domain.policy.partition.outcomes import (
    LEAVE_HEAVY_AFTER,
    after_failure,
    after_success,
)
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.partitions import policy_input, table

TASK = RunningTask("t", Scope(1, "[]"), "compact", "fragments", 1, 1, 0, 0)
LIMITS = Thresholds(heavy_bytes=1_000_000)


def holding(records: int, stored: int = 0, work: PartitionWork | None = None) -> Partition:
    deletes = FileTally(equality_deletes=Tally(2, records, stored))
    counters = replace(PartitionCounters(Scope(0, '["a"]')), holds=deletes)
    return Partition(counters, work or PartitionWork())


def out_of_memory(work: PartitionWork) -> PartitionWork:
    return after_failure(work, "out_of_memory", True, 0)


def succeeding(work: PartitionWork) -> PartitionWork:
    return after_success(work, NO_DEBT, TASK, LIMITS, 0)


def test_short_keys_count_as_texts_and_long_ones_as_they_are_stored() -> None:
    assert set_bytes(holding(1_000, 8_000)) == 99_000
    assert set_bytes(holding(1_000, 200_000)) == 318_000


def test_a_big_set_goes_to_the_heavy_lane_before_it_fails() -> None:
    assert lane_of(holding(10_000), LIMITS) is Lane.ORDINARY
    assert lane_of(holding(11_000), LIMITS) is Lane.HEAVY
    assert lane_of(holding(40_000_000), Thresholds()) is Lane.ORDINARY
    assert lane_of(holding(50_000_000), Thresholds()) is Lane.HEAVY


def test_who_ran_out_of_memory_comes_back_after_some_successes_in_a_row() -> None:
    work = out_of_memory(PartitionWork())
    for _ in range(LEAVE_HEAVY_AFTER - 1):
        assert lane_of(holding(1, work=work), LIMITS) is Lane.HEAVY
        work = succeeding(work)
    again = succeeding(out_of_memory(work))
    assert (again.out_of_memory, again.success_streak) == (2, 1)
    assert lane_of(holding(1, work=again), LIMITS) is Lane.HEAVY
    assert succeeding(work) == succeeding(PartitionWork())
    assert lane_of(holding(1, work=succeeding(work)), LIMITS) is Lane.ORDINARY


@pytest.mark.parametrize("records", [0, 10_000, 11_000])
@pytest.mark.parametrize("times", [0, 1])
def test_an_order_tells_its_lane_by_its_numbers(records: int, times: int) -> None:
    partition = holding(records, work=PartitionWork(out_of_memory=times))
    given = policy_input(table(), partition, LIMITS)
    numbers = price_numbers(given, weigh_compaction(given))
    assert lane_of_order(numbers) is lane_of(partition, LIMITS)


def test_other_failures_change_no_lane() -> None:
    assert lane_of(
        holding(1, work=after_failure(PartitionWork(), "deadline", True, 0)), LIMITS
    ) is (Lane.ORDINARY)


def test_every_lane_has_a_topic_of_its_own() -> None:
    assert [LANES[TOPICS[lane]] for lane in Lane] == list(Lane)


@settings(deadline=None)
@given(heavy=st.integers(0, 10))
def test_where_both_wait_each_has_its_share_evenly_spread(heavy: int) -> None:
    turns = LaneRotation(heavy)
    for _ in range(3):
        taken = [turns.next_lane(set(Lane)) for _ in range(10)]
        assert taken.count(Lane.HEAVY) == heavy
    if heavy == 2:
        assert [place for place, lane in enumerate(taken) if lane is Lane.HEAVY] == [4, 9]


@pytest.mark.parametrize("lane", list(Lane))
def test_a_lane_alone_is_served_at_once_and_owes_nothing(lane: Lane) -> None:
    turns = LaneRotation()
    assert {turns.next_lane({lane}) for _ in range(50)} == {lane}
    taken = [turns.next_lane(set(Lane)) for _ in range(10)]
    assert taken.count(Lane.HEAVY) == 2
    assert turns.next_lane(()) is None
