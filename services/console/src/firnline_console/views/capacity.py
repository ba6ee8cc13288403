"""Number of workers that the waiting tasks need; 0 if no task waits. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection

from firnline_domain.base.values import Value, replace
from firnline_domain.policy.fleet.lanes import Lane

BOTH = "both"  # the demand for workers that take every lane
MAX_FACTOR = 4.0  # times as many, where orders wait longer than was predicted


class WaitingOrder(Value):
    """A task without an outcome, and the CPU seconds that were predicted for it. `begun`: a worker
    has run it for more than a minute, so its age requires no further worker."""

    lane: Lane
    cpu_s: float
    ordered_at_ms: int
    begun: bool = False


class WorkerCapacity(Value):
    """The cores of one worker, the time in which tasks must be done, and the maximum number of
    workers of a lane."""

    cores: float = 2.0
    drain_s: float = 60.0
    max_workers: int = 100


class WorkerDemand(Value):
    """The number of workers that a lane needs, and the numbers from which it was computed.
    `oldest_s`: age of the oldest task that no worker has run for a minute."""

    wanted: int
    orders: int
    cpu_s: float
    oldest_s: float


def demand_by_lane(
    orders: Collection[WaitingOrder], capacity: WorkerCapacity, now_ms: int
) -> dict[str, WorkerDemand]:
    """Return the demand of each lane, and of BOTH: one worker for a small order in each lane, but
    no more than the lanes need that have workers of their own."""
    found = {
        lane.value: _lane_demand([one for one in orders if one.lane is lane], capacity, now_ms)
        for lane in Lane
    }
    apart = sum(demand.wanted for demand in found.values())
    both = _lane_demand(orders, capacity, now_ms)
    return {**found, BOTH: replace(both, wanted=min(both.wanted, apart))}


def _lane_demand(
    orders: Collection[WaitingOrder], capacity: WorkerCapacity, now_ms: int
) -> WorkerDemand:
    """Return as many workers as do all the work within `drain_s`. If the oldest waiting task has
    waited longer, predictions are too low or workers are stuck: return more, by the same factor.
    Never more workers than tasks."""
    if not orders:
        return WorkerDemand(0, 0, 0.0, 0.0)
    cpu_s = sum(order.cpu_s for order in orders)
    waits = [now_ms - order.ordered_at_ms for order in orders if not order.begun]
    oldest_s = max([0, *waits]) / 1000
    factor = min(max(oldest_s / capacity.drain_s, 1.0), MAX_FACTOR)
    enough = max(math.ceil(factor), math.ceil(factor * cpu_s / (capacity.cores * capacity.drain_s)))
    return WorkerDemand(
        min(enough, len(orders), capacity.max_workers), len(orders), cpu_s, oldest_s
    )
