"""`make simulate-placement`: how even the load of planners is, by where new tables go and by who
takes the buckets of a planner that has died."""

from __future__ import annotations

import argparse
import heapq
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from firnline_domain.base.values import Value
from firnline_domain.identity import bucket_of
from firnline_domain.policy.fleet.placement import (
    REST_MS,
    WINDOW_MS,
    is_hot,
    mean_of,
    plan_moves,
)

from bench.simulate.fleet import Floats, Ints
from bench.simulate.run import RESULTS

STEPS = 200_000.0  # a minute of one planner on average: a third of what it takes
ARRIVALS = 20  # windows in which the fleet grows to its size
SETTLING = 60  # windows after that, at the most
REST = REST_MS // WINDOW_MS  # windows
SLACK = 0.1  # above and below the mean, in which a planner that joins leaves the others as they are

Loads = Mapping[int, float]  # by bucket
Owners = Mapping[str, frozenset[int]]  # buckets by planner
Chooser = Callable[[int, "Heap"], int]  # home -> bucket


class Heap:
    """The expected load of each bucket; the lightest is found at once."""

    def __init__(self, loads: Loads, usual: float) -> None:
        self.loads = dict(loads)
        mean = mean_of(loads)
        self.hot = {one for one, load in loads.items() if is_hot(load, mean)}  # as last reported
        self._usual = usual  # of a table that is new
        self._heap = [(load, bucket) for bucket, load in loads.items()]
        heapq.heapify(self._heap)

    def lightest(self) -> int:
        while self._heap[0][0] < self.loads[self._heap[0][1]]:
            _, bucket = heapq.heappop(self._heap)
            heapq.heappush(self._heap, (self.loads[bucket], bucket))
        return self._heap[0][1]

    def add_table(self, bucket: int) -> None:
        self.loads[bucket] += self._usual


def choose_home(home: int, _: Heap) -> int:
    return home


def choose_lightest(_: int, heap: Heap) -> int:
    return heap.lightest()


def choose_cool(home: int, heap: Heap) -> int:
    return heap.lightest() if home in heap.hot else home


# name -> where a new table goes, and whether hot buckets hand tables over
PLACEMENTS: dict[str, tuple[Chooser, bool]] = {
    "home": (choose_home, False),
    "home, moves": (choose_home, True),  # Firnline's
    "home unless hot, moves": (choose_cool, True),
    "heap": (choose_lightest, False),
    "heap, moves": (choose_lightest, True),
}


class Placed(Value):
    """Where the tables of a grown fleet are."""

    loads: tuple[float, ...]  # by bucket
    away: int  # tables outside their home: each is an entry in every gateway, enricher and planner
    table_moves: int


class Judged(Value):
    """Load of the largest planner by the mean, and buckets that changed their planner."""

    before: float
    after: float  # a death, on average of all
    worst: float  # after the death that is the worst
    moves: float  # of buckets by one death
    returned: float  # when the planner is back
    return_moves: float


def zipf_loads(tables: int, skew: float, total: float, seed: int) -> Floats:
    """Steps a minute of each table, in the order in which they arrive."""
    weights = 1 / np.arange(1, tables + 1) ** skew
    np.random.default_rng(seed).shuffle(weights)
    return np.asarray(weights * (total / weights.sum()))


def place_tables(load: Floats, buckets: int, placement: str, seed: int) -> Placed:
    """Let a fleet grow, a part of its tables in each window, until nothing moves."""
    choose, does_move = PLACEMENTS[placement]
    home = np.array([bucket_of(f"{seed}/{n}", buckets) for n in range(len(load))])
    place, moved = home.copy(), np.full(len(load), -REST)
    table_moves = 0
    there, quiet = 0, 0
    for window in range(ARRIVALS + SETTLING):
        known, there = there, len(load) * min(window + 1, ARRIVALS) // ARRIVALS
        expected = sum_loads(place[:known], load[:known], buckets)
        heap = Heap(expected, max(float(load[:known].mean()) if known else 0.0, 1.0))
        for table in range(known, there):
            place[table] = choose(int(home[table]), heap)
            heap.add_table(int(place[table]))
        found = list(plan_window(place[:there], load[:there], moved, window, buckets, does_move))
        for table, bucket in found:
            place[table], moved[table] = bucket, window
        table_moves += len(found)
        quiet = 0 if found else quiet + 1
        if window >= ARRIVALS and quiet > REST:
            break
    loads = sum_loads(place, load, buckets)
    return Placed(tuple(loads.values()), int((place != home).sum()), table_moves)


def sum_loads(place: Ints, load: Floats, buckets: int) -> Loads:
    """Return the load of each bucket."""
    return dict(enumerate(np.bincount(place, weights=load, minlength=buckets).tolist()))


def plan_window(
    place: Ints, load: Floats, moved: Ints, window: int, buckets: int, does_move: bool
) -> Iterator[tuple[int, int]]:
    """Yield what hot buckets hand over at the end of a window: table and bucket."""
    loads = sum_loads(place, load, buckets)
    mean = mean_of(loads)
    for bucket in [one for one in loads if does_move and is_hot(loads[one], mean)]:
        own = np.nonzero(place == bucket)[0].tolist()
        resting = {str(one) for one in own if window - moved[one] < REST}
        for move in plan_moves(bucket, loads, {str(one): load[one] for one in own}, resting):
            yield int(move.table_key), move.bucket


def assign_buckets(
    weights: Sequence[float], members: Collection[str], owned: Owners, slack: float = 0.0
) -> dict[str, frozenset[int]]:
    """Assign every bucket; each stays where it is if its planner lives. The others go to the
    lightest planners, the heaviest first. A planner that joins takes from the heaviest ones, until
    no move helps or all are within the slack.

    With equal weights this is cooperative-sticky: it balances by count."""
    new = {one: set(owned.get(one, ())) for one in members}
    totals = {one: sum(weights[bucket] for bucket in new[one]) for one in members}
    heap = [(total, one) for one, total in totals.items()]
    heapq.heapify(heap)
    left = set(range(len(weights))).difference(*new.values())
    for bucket in sorted(left, key=lambda one: (-weights[one], one)):
        total, one = heap[0]
        new[one].add(bucket)
        totals[one] = total + weights[bucket]
        heapq.heapreplace(heap, (totals[one], one))
    mean = sum(weights) / len(members)
    while not all(owned.get(one) for one in members):
        giver, taker = max(members, key=totals.__getitem__), min(members, key=totals.__getitem__)
        if totals[giver] <= (1 + slack) * mean and totals[taker] >= (1 - slack) * mean:
            break
        gap = (totals[giver] - totals[taker]) / 2
        fitting = [one for one in new[giver] if 0 < weights[one] <= gap]
        if not fitting:
            break
        bucket = max(fitting, key=lambda one: (weights[one], -one))
        new[giver].remove(bucket)
        new[taker].add(bucket)
        totals[giver] -= weights[bucket]
        totals[taker] += weights[bucket]
    return {one: frozenset(buckets) for one, buckets in new.items()}


def judge_failures(loads: Sequence[float], planners: int, by_load: bool) -> Judged:
    """The planners join one by one; then each dies once, and returns."""
    weights, slack = (loads, SLACK) if by_load else ([1.0] * len(loads), 0.0)
    members = [f"planner {number:02}" for number in range(planners)]
    owned: Owners = {}
    for count in range(1, planners + 1):
        owned = assign_buckets(weights, members[:count], owned, slack)
    after, moves, returned, return_moves = [], [], [], []
    for dead in members:
        living = {one: owned[one] for one in members if one != dead}
        left = assign_buckets(weights, list(living), living, slack)
        back = assign_buckets(weights, members, left, slack)
        after.append(largest_by_mean(loads, left))
        returned.append(largest_by_mean(loads, back))
        moves.append(count_moved(owned, left))
        return_moves.append(count_moved(left, back))
    return Judged(
        largest_by_mean(loads, owned),
        float(np.mean(after)),
        max(after),
        float(np.mean(moves)),
        float(np.mean(returned)),
        float(np.mean(return_moves)),
    )


def largest_by_mean(loads: Sequence[float], owned: Owners) -> float:
    """Return the load of the largest planner divided by the mean."""
    totals = [sum(loads[bucket] for bucket in buckets) for buckets in owned.values()]
    return max(totals) / (sum(totals) / len(totals))


def count_moved(old: Owners, new: Owners) -> int:
    """Return how many buckets have another planner."""
    return sum(len(buckets - old.get(one, frozenset())) for one, buckets in new.items())


Row = dict[str, Any]


def rows_of(
    tables: int, buckets: int, planners: Iterable[int], skews: Iterable[float], seeds: int
) -> Iterator[Row]:
    """Yield a row for each fleet, placement and assignor: means of all seeds."""
    for skew, count, placement in product(skews, planners, PLACEMENTS):
        fleets = [zipf_loads(tables, skew, count * STEPS, seed) for seed in range(seeds)]
        placed = [place_tables(load, buckets, placement, seed) for seed, load in enumerate(fleets)]
        for by_load in (False, True):
            judged = [judge_failures(one.loads, count, by_load) for one in placed]
            yield {
                "skew": skew,
                "planners": count,
                "largest_table": float(np.mean([load.max() for load in fleets])) / STEPS,
                "placement": placement,
                "assignor": "load" if by_load else "count",
                "away": float(np.mean([one.away for one in placed])),
                "table_moves": float(np.mean([one.table_moves for one in placed])),
                **{
                    name: float(np.mean([getattr(one, name) for one in judged]))
                    for name in Judged.__struct_fields__
                },
            }


HEADER = """\
| Zipf | planners | largest table | new tables | assignor | before | after a failure, mean / worst \
| moves | returned | moves | tables away | table moves |
| ---: | ---: | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"""


def line_of(row: Row) -> str:
    """Of the table that is printed."""
    return (
        f"| {row['skew']} | {row['planners']} | {row['largest_table']:.2f} | {row['placement']} "
        f"| {row['assignor']} | {row['before']:.2f} | {row['after']:.2f} / {row['worst']:.2f} "
        f"| {row['moves']:.1f} | {row['returned']:.2f} | {row['return_moves']:.1f} "
        f"| {row['away']:,.0f} | {row['table_moves']:,.0f} |"
    )


def main() -> None:
    """Print a line per row as it comes; write them to bench/results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100_000)
    parser.add_argument("--buckets", type=int, default=256)
    parser.add_argument("--planners", default="4,8,16")
    parser.add_argument("--skews", default="1.0,1.2", help="exponents of the loads of tables")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--file", type=Path, help="default: in bench/results, by buckets")
    given = parser.parse_args()
    planners = [int(one) for one in given.planners.split(",")]
    skews = [float(one) for one in given.skews.split(",")]
    rows: list[Row] = []
    print(HEADER)
    for row in rows_of(given.tables, given.buckets, planners, skews, given.seeds):
        print(line_of(row), flush=True)
        rows.append(row)
    body = {"tables": given.tables, "buckets": given.buckets, "seeds": given.seeds, "rows": rows}
    path = given.file or RESULTS / f"simulate_placement_{given.buckets}.json"
    path.write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    main()
