"""What a hot bucket hands over."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from firnline_domain.identity import bucket_of
from firnline_domain.policy.fleet.placement import (
    HOT,
    MAX_MOVES,
    MIN_EXCESS,
    REST_MS,
    WINDOW_MS,
    TableMove,
    plan_moves,
)
from hypothesis import given
from hypothesis import strategies as st


@dataclass
class Fleet:
    """Tables with their load, in buckets that all decide at the same moment."""

    tables: dict[str, float]
    homes: int
    buckets: int
    now_ms: int = 0
    moved_ms: dict[str, int] = field(default_factory=dict)
    moves: list[TableMove] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.places = {uuid: bucket_of(uuid, self.homes) for uuid in self.tables}

    def of(self, bucket: int) -> dict[str, float]:
        return {one: self.tables[one] for one, place in self.places.items() if place == bucket}

    def loads(self) -> dict[int, float]:
        return {bucket: sum(self.of(bucket).values()) for bucket in range(self.buckets)}

    def decide(self) -> list[TableMove]:
        """One window passes."""
        self.now_ms += WINDOW_MS
        resting = {one for one, at_ms in self.moved_ms.items() if self.now_ms - at_ms < REST_MS}
        loads = self.loads()
        found = [
            move
            for one in range(self.buckets)
            for move in plan_moves(one, loads, self.of(one), resting)
        ]
        for move in found:
            self.places[move.table_key] = move.bucket
            self.moved_ms[move.table_key] = self.now_ms
        self.moves += found
        return found

    def settle(self, windows: int) -> Iterator[list[TableMove]]:
        for _ in range(windows):
            yield self.decide()

    @property
    def hottest(self) -> float:
        """The hottest bucket's load by the mean."""
        loads = self.loads().values()
        return max(loads) / (sum(loads) / len(loads))


def zipf(count: int, total: float) -> dict[str, float]:
    weights = {f"table {number}": 1 / (number + 1) for number in range(count)}
    return {one: total * weight / sum(weights.values()) for one, weight in weights.items()}


def test_a_skewed_fleet_converges_and_then_rests() -> None:
    fleet = Fleet({f"table {n}": 1_000.0 for n in range(0, 2_000)}, 8, 8)
    fleet.places = {one: 0 if n % 3 else n % 8 for n, one in enumerate(fleet.places)}
    assert fleet.hottest > 5
    counts = [len(found) for found in fleet.settle(60)]
    assert fleet.hottest <= HOT
    assert max(counts) <= MAX_MOVES * fleet.buckets
    assert counts[-20:] == [0] * 20
    assert len({one.table_key for one in fleet.moves}) == len(fleet.moves)  # none went twice


def test_a_few_tables_with_most_of_the_load_spread() -> None:
    fleet = Fleet(zipf(5_000, 1_000_000.0), 8, 8)
    fleet.places = dict.fromkeys(fleet.places, 3)
    list(fleet.settle(100))
    assert fleet.hottest <= HOT
    assert fleet.decide() == []


def test_buckets_that_were_added_fill() -> None:
    fleet = Fleet({f"table {n}": 50.0 for n in range(4_000)}, 8, 16)
    list(fleet.settle(80))
    assert fleet.hottest <= HOT
    assert min(fleet.loads().values()) > 0


def test_a_table_hotter_than_a_bucket_stays_where_it_is_alone() -> None:
    tables = {"giant": 200_000.0} | {f"table {n}": 500.0 for n in range(80)}
    fleet = Fleet(tables, 8, 8)
    place = fleet.places["giant"]
    list(fleet.settle(20))
    assert fleet.places["giant"] == place
    assert fleet.of(place) == {"giant": 200_000.0}
    assert fleet.decide() == []


@given(st.integers(0, 10_000))
def test_a_steady_fleet_never_moves(seed: int) -> None:
    """Each window is a tenth more or less than the last."""
    dice = random.Random(seed)
    steady = {f"table {n}": 2_000.0 for n in range(400)}
    fleet = Fleet(steady, 8, 8)
    for _ in range(20):
        fleet.tables = {one: load * dice.uniform(0.9, 1.1) for one, load in steady.items()}
        assert fleet.decide() == []


def test_a_quiet_fleet_is_not_worth_a_move() -> None:
    tables = {str(number): MIN_EXCESS / 10 for number in range(10)}
    assert plan_moves(0, {0: float(MIN_EXCESS), 1: 0.0}, tables, ()) == []
    assert plan_moves(0, {0: 3.0 * MIN_EXCESS, 1: 0.0}, tables, ()) != []


def test_who_has_moved_stays() -> None:
    tables = {"a": 9_000.0, "b": 9_000.0, "c": 9_000.0, "d": 9_000.0}
    found = plan_moves(0, {0: 36_000.0, 1: 0.0}, tables, {"a"})
    assert [one.table_key for one in found] == ["b", "c"]
    assert found[0].reason == "bucket 0: 36000 steps a minute, 18000 is the mean"


def test_two_hot_buckets_do_not_fill_up_the_same_one() -> None:
    loads = {0: 90_000.0, 1: 80_000.0, 2: 2_000.0, 3: 1_000.0}
    tables = {str(number): 9_000.0 for number in range(10)}
    targets = [{one.bucket for one in plan_moves(hot, loads, tables, ())} for hot in (0, 1)]
    assert targets == [{3}, {2}]
