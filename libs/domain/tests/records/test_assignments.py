"""Which bucket a new table goes to, and which word on a table holds."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import pytest
from firnline_domain.identity import bucket_of
from firnline_domain.records.assignments import Assign, Board, next_epoch
from firnline_domain.records.events import BucketLoaded, TableAssigned
from hypothesis import given
from hypothesis import strategies as st

TABLE = "11111111-aaaa"
HOME = bucket_of(TABLE, 4)


def board(*loads: tuple[int, int], at_ms: int = 10) -> Board:
    """Of buckets with so many tables and files."""
    made = Board(4)
    for number, (tables, files) in enumerate(loads):
        made.fold(BucketLoaded(number, tables, files, at_ms))
    return made


def test_the_lightest_by_tables_and_by_files() -> None:
    told = board((5, 10), (4, 90), (3, 50), (9, 20))
    assert told.lightest(3, Assign.TABLES) == 2
    assert told.lightest(3, Assign.FILES) == 0
    assert told.lightest(3, Assign.HASH) == 3


def test_home_where_nobody_is_lighter() -> None:
    assert board((3, 0), (3, 0), (3, 0), (9, 0)).lightest(2, Assign.TABLES) == 2


def test_home_until_every_bucket_has_told() -> None:
    assert board((5, 0), (0, 0), (1, 0)).lightest(0, Assign.TABLES) == 0


def test_tables_on_their_way_count_until_their_bucket_tells_of_them() -> None:
    told = board((1, 10), (1, 10), (1, 10), (0, 0))
    told.expect("a", 3, at_ms=11)
    told.expect("a", 3, at_ms=11)  # a transaction is repeated
    told.expect("b", 3, at_ms=12)
    assert told.lightest(0, Assign.TABLES) == 0
    assert told.lightest(3, Assign.FILES) == 0  # with as many files as others have
    told.fold(BucketLoaded(3, 0, 0, at_ms=12))
    assert told.lightest(0, Assign.TABLES) == 3


@dataclass
class Heap:
    """The textbook's: take the lightest, put it back heavier."""

    entries: list[tuple[int, int]]

    def take(self) -> int:
        weight, _ = heapq.heappop(self.entries)
        heapq.heappush(self.entries, (weight + 1, 0))
        return weight


@given(st.lists(st.integers(0, 20), min_size=4, max_size=4), st.integers(1, 40))
def test_many_new_tables_between_two_loads_fill_up_as_a_heap_does(
    tables: list[int], new: int
) -> None:
    told, weights = board(*((one, 0) for one in tables)), list(tables)
    heap = Heap(sorted((one, 0) for one in tables))
    for number in range(new):
        place = told.lightest(number % 4, Assign.TABLES)
        assert weights[place] == heap.take()
        weights[place] += 1
        told.fold(TableAssigned(f"new {number}", place, 1, at_ms=11))
    assert max(weights) - min(weights) <= max(1, max(tables) - min(tables))


def test_of_two_words_on_a_table_the_higher_epoch_holds() -> None:
    told = board()
    assert told.bucket(TABLE) == HOME
    other = (HOME + 1) % 4
    told.fold(TableAssigned(TABLE, other, 7, 1))
    told.fold(TableAssigned(TABLE, HOME, 6, 2))
    assert told.bucket(TABLE) == other
    told.fold(TableAssigned(TABLE, 99, 8, 3))  # of more buckets than there are now
    assert told.bucket(TABLE) == HOME
    told.forget(TABLE)
    assert told.assigned(TABLE) is None


@pytest.mark.parametrize(("last", "now_ms", "epoch"), [(0, 50, 50), (50, 50, 51), (70, 50, 71)])
def test_an_epoch_is_higher_than_all_before(last: int, now_ms: int, epoch: int) -> None:
    assert next_epoch(last, now_ms) == epoch
