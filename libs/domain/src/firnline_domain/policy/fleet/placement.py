"""Choose the tables that a hot bucket hands over. Pure (0022).

A new table is at home. To place new ones by load makes planners no more even, and a table elsewhere
is an entry in the memory of every gateway, enricher and planner (0046).

Load is counted in steps a minute: a record handled with each of its partitions, a table reconciled,
a state published. One planner takes about 600,000 steps a minute: 5,000 events a second, of one
partition each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import Value

WINDOW_MS = 180_000  # of which load is the mean; all buckets decide at its end
HOT = 1.5  # times the mean of all buckets, and MIN_EXCESS above it
COOL = 1.1  # times the mean, down to which a hot bucket hands over
MIN_EXCESS = (
    6_000  # 100 steps a second, a hundredth of what a planner takes: no less is worth a move
)
MAX_MOVES = 100  # of one bucket at the end of one window
REST_MS = HOUR_MS  # that a table which has moved stays where it is


class TableMove(Value):
    """A table to hand over, with the reason to show."""

    table_key: str
    bucket: int
    reason: str


def is_hot(load: float, mean: float) -> bool:
    """Return whether a bucket with this load hands tables over. `mean`: of all buckets."""
    return load > HOT * mean and load - mean > MIN_EXCESS


def mean_of(loads: Mapping[int, float]) -> float:
    return sum(loads.values()) / len(loads)


def plan_moves(
    bucket: int, loads: Mapping[int, float], tables: Mapping[str, float], resting: Collection[str]
) -> list[TableMove]:
    """Choose what a bucket hands over, the heaviest first; nothing unless it is hot. `tables`: its
    own, by key, with their load; `resting` ones stay.

    The hottest bucket gives to the lightest, the second to the second, so that no two fill one up.
    A table goes only where the bucket that gets it is no heavier then than the one that gives it:
    so no table goes back and forth, and one that is hotter than all others together stays,
    alone."""
    if bucket not in loads or not is_hot(loads[bucket], mean := mean_of(loads)):
        return []
    target = _choose_target(bucket, loads, mean)
    giver, taker = loads[bucket], loads[target]
    reason = f"bucket {bucket}: {giver:.0f} steps a minute, {mean:.0f} is the mean"
    found: list[TableMove] = []
    for key, load in _heaviest_first(tables, resting):
        if giver <= COOL * mean or len(found) == MAX_MOVES:
            break
        if taker + load <= giver - load:
            found.append(TableMove(key, target, reason))
            giver, taker = giver - load, taker + load
    return found


def _choose_target(bucket: int, loads: Mapping[int, float], mean: float) -> int:
    by_load = sorted(loads, key=lambda one: (loads[one], one))
    hot = [one for one in reversed(by_load) if is_hot(loads[one], mean)]
    light = [one for one in by_load if loads[one] < mean]
    return light[hot.index(bucket) % len(light)]


def _heaviest_first(
    tables: Mapping[str, float], resting: Collection[str]
) -> Iterator[tuple[str, float]]:
    awake = ((key, load) for key, load in tables.items() if load > 0 and key not in resting)
    return iter(sorted(awake, key=lambda one: (-one[1], one[0])))
