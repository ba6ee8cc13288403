"""How many workers the orders that wait deserve: none where none does. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from firnline_domain.base.values import Value
from firnline_domain.policy.fleet.lanes import Lane

MAX_FACTOR = 4.0  # times as many, where orders wait longer than was predicted


class Waiting(Value):
    """An order without an outcome, and the CPU seconds that it was predicted to take. `begun`: a
    worker has been at it for more than a minute, so nobody else is wanted for its age."""

    lane: Lane
    cpu_s: float
    ordered_at_ms: int
    begun: bool = False


class WorkerCapacity(Value):
    """One worker's cores, how soon orders are to be done, and the most workers of a lane."""

    cores: float = 2.0
    drain_s: float = 60.0
    max_workers: int = 100


class WorkerDemand(Value):
    """What a lane asks for, and the numbers that it was worked out from. `oldest_s`: of those that
    no worker has been at for a minute."""

    wanted: int
    orders: int
    cpu_s: float
    oldest_s: float


def demand_by_lane(
    orders: Iterable[Waiting], capacity: WorkerCapacity, now_ms: int
) -> dict[Lane, WorkerDemand]:
    waiting = {lane: list[Waiting]() for lane in Lane}
    for order in orders:
        waiting[order.lane].append(order)
    return {lane: _demand(waiting[lane], capacity, now_ms) for lane in Lane}


def _demand(orders: Collection[Waiting], capacity: WorkerCapacity, now_ms: int) -> WorkerDemand:
    """As many as do all the work within `drain_s`. Where the oldest that waits has done so for
    longer, predictions are too low or workers are stuck: more, by as much. Never more than
    orders."""
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
