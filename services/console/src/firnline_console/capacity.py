"""How many workers the orders that wait deserve: none where none does. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from firnline_domain.policy.lanes import Lane
from firnline_domain.values import Value

MOST_PUSH = 4.0  # times as many, where orders wait longer than was foretold


class Waiting(Value):
    """An order without an outcome, and the CPU seconds that it was predicted to take."""

    lane: Lane
    cpu_s: float
    ordered_at_ms: int


class Hands(Value):
    """One worker's cores, how soon orders are to be done, and the most workers of a lane."""

    cores: float = 2.0
    drain_s: float = 60.0
    most: int = 100


class Crew(Value):
    """What a lane asks for, and the numbers that it was worked out from."""

    wanted: int
    orders: int
    cpu_s: float
    oldest_s: float


def crews(orders: Iterable[Waiting], hands: Hands, now_ms: int) -> dict[Lane, Crew]:
    """Of every lane."""
    found = list(orders)
    return {lane: _crew([one for one in found if one.lane is lane], hands, now_ms) for lane in Lane}


def _crew(orders: Collection[Waiting], hands: Hands, now_ms: int) -> Crew:
    """As many as do all the work within `drain_s`. Where the oldest order has waited for longer,
    predictions are too low or workers are stuck: more, by as much. Never more than orders."""
    if not orders:
        return Crew(0, 0, 0.0, 0.0)
    cpu_s = sum(one.cpu_s for one in orders)
    oldest_s = max(0, now_ms - min(one.ordered_at_ms for one in orders)) / 1000
    push = min(max(oldest_s / hands.drain_s, 1.0), MOST_PUSH)
    enough = max(math.ceil(push), math.ceil(push * cpu_s / (hands.cores * hands.drain_s)))
    return Crew(min(enough, len(orders), hands.most), len(orders), cpu_s, oldest_s)
