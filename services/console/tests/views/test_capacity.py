"""Workers for the orders that wait: by predicted work, more where they are late."""

from __future__ import annotations

from firnline_console.views.capacity import (
    BOTH,
    WaitingOrder,
    WorkerCapacity,
    WorkerDemand,
    demand_by_lane,
)
from firnline_domain.policy.fleet.lanes import Lane
from hypothesis import given, settings
from hypothesis import strategies as st

NOW = 10_000_000
CAPACITY = WorkerCapacity(cores=2.0, drain_s=60.0, max_workers=10)


def orders(count: int, cpu_s: float, waited_s: float = 0.0, lane: Lane = Lane.ORDINARY):
    return [WaitingOrder(lane, cpu_s, NOW - int(waited_s * 1000))] * count


def wanted(found: list[WaitingOrder], lane: str = Lane.ORDINARY) -> int:
    return demand_by_lane(found, CAPACITY, NOW)[lane].wanted


def test_nothing_waits_and_nobody_is_wanted() -> None:
    none = WorkerDemand(0, 0, 0.0, 0.0)
    assert demand_by_lane([], CAPACITY, NOW) == dict.fromkeys((*Lane, BOTH), none)


def test_one_small_order_wants_one_worker() -> None:
    assert demand_by_lane(orders(1, 0.1, 3), CAPACITY, NOW)[Lane.ORDINARY] == WorkerDemand(
        1, 1, 0.1, 3.0
    )


def test_work_is_done_within_the_time_that_orders_may_wait() -> None:
    assert wanted(orders(120, 4.0)) == 4  # 480 CPU s in 60 s on 2 cores each
    assert wanted(orders(120, 4.1)) == 5


def test_who_waits_longer_than_was_foretold_gets_more() -> None:
    assert wanted(orders(120, 4.0, 59)) == 4
    assert wanted(orders(120, 4.0, 120)) == 8
    assert wanted(orders(100, 0.001, 600)) == 4  # predictions that are nothing at all


def test_an_order_that_a_worker_is_at_wants_nobody_else() -> None:
    begun = [WaitingOrder(Lane.ORDINARY, 4.0, NOW - 2_000_000, begun=True)] * 120
    assert wanted(begun) == 4
    assert wanted([*begun, *orders(1, 4.0, 120)]) == 9


def test_never_more_than_orders_nor_than_there_may_be() -> None:
    assert wanted(orders(2, 4_000)) == 2
    assert wanted(orders(50, 4_000)) == 10


def test_each_lane_has_its_own() -> None:
    found = orders(120, 4.0) + orders(1, 500, lane=Lane.HEAVY)
    assert (wanted(found), wanted(found, Lane.HEAVY), wanted(found, BOTH)) == (4, 1, 5)


def test_one_worker_is_enough_for_a_small_order_in_each_lane() -> None:
    assert wanted(orders(1, 4.0) + orders(1, 4.0, lane=Lane.HEAVY), BOTH) == 1


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1e4), st.floats(-100, 1e5)), max_size=30))
def test_more_work_never_wants_fewer(pairs: list[tuple[float, float]]) -> None:
    found = [WaitingOrder(Lane.ORDINARY, cpu_s, NOW - int(s * 1000)) for cpu_s, s in pairs]
    before = wanted(found)
    assert 0 <= before <= min(len(found), CAPACITY.max_workers)
    assert wanted([*found, WaitingOrder(Lane.ORDINARY, 1.0, NOW)]) >= before
