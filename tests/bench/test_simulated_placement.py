"""The planners' load: a small fleet, and the assignor by count beside Kafka's own."""

from __future__ import annotations

import numpy as np
import pytest
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.structs import TopicPartition

from bench.simulate.placement import (
    PLACEMENTS,
    Heap,
    Owners,
    assign_buckets,
    count_moved,
    judge_failures,
    place_tables,
    rows_of,
    zipf_loads,
)

BUCKETS, MEMBERS = 32, ["a", "b", "c", "d"]


class OneTopic:
    """What the sticky assignor asks of a cluster."""

    def topics(self) -> set[str]:
        return {"t"}

    def partitions_for_topic(self, _: str) -> set[int]:
        return set(range(BUCKETS))


def assign_sticky(members: list[str], owned: Owners) -> Owners:
    given = {
        one: StickyPartitionAssignor._metadata(
            ["t"], [TopicPartition("t", bucket) for bucket in owned.get(one, ())], 1
        )
        for one in members
    }
    found = StickyPartitionAssignor.assign(OneTopic(), given)
    return {
        member: frozenset(bucket for _, buckets in one.assignment for bucket in buckets)
        for member, one in found.items()
    }


def test_equal_weights_move_as_many_buckets_as_the_sticky_assignor() -> None:
    ours: Owners = {}
    kafkas: Owners = {}
    for members in (MEMBERS[:1], MEMBERS[:2], MEMBERS[:3], MEMBERS, ["a", "c", "d"], MEMBERS):
        living = [{one: of[one] for one in members if one in of} for of in (ours, kafkas)]
        new = assign_buckets([1.0] * BUCKETS, members, living[0])
        sticky = assign_sticky(members, living[1])
        assert sorted(map(len, new.values())) == sorted(map(len, sticky.values()))
        assert count_moved(living[0], new) == count_moved(living[1], sticky)
        ours, kafkas = new, sticky
    assert [len(ours[one]) for one in MEMBERS] == [8] * 4


@pytest.mark.parametrize("by_load", [False, True])
def test_a_death_moves_only_the_buckets_of_the_dead(by_load: bool) -> None:
    loads = zipf_loads(BUCKETS, 1.0, 100.0, 1).tolist()
    weights = loads if by_load else [1.0] * BUCKETS
    owned = assign_buckets(weights, MEMBERS, {})
    left = assign_buckets(weights, MEMBERS[1:], {one: owned[one] for one in MEMBERS[1:]})
    assert count_moved(owned, left) == len(owned["a"])
    assert frozenset().union(*left.values()) == frozenset(range(BUCKETS))
    assert all(owned[one] <= left[one] for one in MEMBERS[1:])


def test_by_load_the_planner_of_a_large_bucket_gets_few_others() -> None:
    loads = [30.0] + [1.0] * 30
    assert judge_failures(loads, 3, by_load=False).before > 1.9
    found = judge_failures(loads, 3, by_load=True)
    assert found.before < 1.6
    assert found.after < 1.4


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_every_table_counts_in_one_bucket(placement: str) -> None:
    load = zipf_loads(500, 1.0, 400_000.0, 1)
    found = place_tables(load, 8, placement, 1)
    assert sum(found.loads) == pytest.approx(400_000.0)
    assert (found.table_moves > 0) == PLACEMENTS[placement][1]
    assert (found.away > 0) == (placement != "home")


def test_a_heap_fills_the_lightest_bucket() -> None:
    heap = Heap({0: 2.0, 1: 5.0, 2: 3.5}, 1.0)
    filled = []
    for _ in range(4):
        filled.append(heap.lightest())
        heap.add_table(filled[-1])
    assert filled == [0, 0, 2, 0]


def test_the_same_seed_gives_the_same_rows() -> None:
    [first, *others] = rows_of(300, 8, [2], [1.0], 1)
    assert len(others) == 2 * len(PLACEMENTS) - 1
    assert [first, *others] == list(rows_of(300, 8, [2], [1.0], 1))
    assert np.isfinite([first[key] for key in ("before", "after", "worst")]).all()
