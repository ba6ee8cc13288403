"""A seed is a plan."""

from __future__ import annotations

import pytest
from firnline_chaos.faults import FAULTS
from firnline_chaos.plan import (
    INPUT_SORTS,
    LAKE_SORTS,
    NESSIE_SORTS,
    SORTS,
    STORM_S,
    Blow,
    Sort,
    draw,
)
from firnline_chaos.storm import steps
from firnline_chaos.tables import BUSY, KINDS, OF_HISTORY, STEADY, of_nessie
from firnline_chaos.writes import WRITES


def test_the_same_seed_is_the_same_plan() -> None:
    assert draw(7, 3) == draw(7, 3)
    assert draw(7, 3) != draw(7, 4)
    assert draw(7, 3) != draw(8, 3)


@pytest.mark.parametrize("seed", range(20))
def test_no_part_is_struck_twice_at_once(seed: int) -> None:
    blows = draw(seed, 1).blows
    for one in blows:
        others = [other for other in blows if other.target == one.target and other is not one]
        assert not [other for other in others if one.at_s <= other.at_s <= one.until_s]


def test_a_round_is_worth_its_time() -> None:
    """100 faults and 500 commits in 20 minutes, where a round takes three."""
    plans = [draw(seed, number) for seed in range(5) for number in range(10)]
    assert sum(len(plan.blows) for plan in plans) / len(plans) >= 15
    assert all(len(plan.writes) >= 80 for plan in plans)
    assert all(write.at_s <= STORM_S for plan in plans for write in plan.writes)


def test_one_table_gets_five_commits_a_second() -> None:
    stream = draw(1, 1).stream
    assert {write.table for write in stream} == {BUSY.name}
    assert len(stream) / STORM_S == 5


def test_every_kind_of_write_and_fault_is_drawn() -> None:
    plans = [draw(1, number, (*LAKE_SORTS, *INPUT_SORTS)) for number in range(60)]
    assert {write.kind for plan in plans for write in plan.writes} == set(WRITES)
    assert {blow.fault for plan in plans for blow in plan.blows} == set(FAULTS)


@pytest.mark.parametrize("sorts", [SORTS, LAKE_SORTS, NESSIE_SORTS, INPUT_SORTS])
def test_every_sort_of_fault_strikes_in_every_round(sorts: tuple[Sort, ...]) -> None:
    for seed in range(300):
        blows = draw(seed, 1, sorts).blows
        for sort in sorts:
            assert [one for one in blows if one.fault == sort.fault and one.target in sort.targets]


def test_on_nessie_nothing_needs_v3_or_a_history() -> None:
    kinds = tuple(map(of_nessie, STEADY))
    drawn = {write.kind for n in range(40) for write in draw(1, n, NESSIE_SORTS, kinds).writes}
    assert drawn == {*WRITES} - {"vector", *OF_HISTORY}
    assert {kind.properties["format-version"] for kind in kinds} == {"2"}


def test_the_sorts_come_in_another_order_by_the_seed() -> None:
    orders = {tuple(blow.fault for blow in draw(seed, 1).blows[:5]) for seed in range(20)}
    assert len(orders) > 15


def test_whatever_is_planned_can_be_done() -> None:
    assert {sort.fault for sort in LAKE_SORTS} <= set(FAULTS)
    assert {*SORTS} < {*LAKE_SORTS}
    assert {write for kind in KINDS for write in kind.writes} <= set(WRITES)


def test_steps_begin_before_they_end() -> None:
    first, second = Blow(1.0, "kill", "a", 0.0, 0), Blow(0.5, "pause", "b", 3.0, 0)
    assert steps((first, second)) == [
        (0.5, True, second), (1.0, True, first), (1.0, False, first), (3.5, False, second),
    ]  # fmt: skip
