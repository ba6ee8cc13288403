"""Where tables are, what buckets cost, and which word on a table holds."""

from __future__ import annotations

import pytest
from firnline_domain.identity import bucket_of
from firnline_domain.records.assignments import (
    BY_BUCKET,
    MAX_BUCKETS,
    Board,
    is_by_bucket,
    next_epoch,
)
from firnline_domain.records.events import BucketLoaded, TableAssigned
from firnline_schemas.topics import all_topics

TABLE = "11111111-aaaa"
HOME = bucket_of(TABLE, 4)


def board(*loads: tuple[int, int], at_ms: int = 10) -> Board:
    """Of buckets with so many tables and steps a minute; they began with four."""
    made = Board(4)
    for number, (tables, load) in enumerate(loads):
        made.fold_record(BucketLoaded(number, tables, load, at_ms))
    return made


def test_no_loads_until_every_bucket_has_told() -> None:
    assert board((5, 1), (0, 0), (1, 0)).expected_loads() == {}
    assert board((5, 1), (0, 0), (1, 0), (0, 7)).expected_loads() == {0: 1, 1: 0, 2: 0, 3: 7}


def test_tables_on_their_way_count_until_their_bucket_tells_of_them() -> None:
    told = board((1, 10), (1, 10), (1, 10), (0, 0))
    told.expect_table("a", 3, at_ms=11)
    told.expect_table("a", 3, at_ms=11)  # a transaction is repeated
    told.expect_table("b", 3, at_ms=12)
    assert told.expected_loads()[3] == 20  # like any other table
    told.expect_table("b", 2, at_ms=13)
    assert (told.expected_loads()[2], told.expected_loads()[3]) == (20, 10)
    told.fold_record(BucketLoaded(3, 0, 0, at_ms=12))
    assert told.expected_loads()[3] == 0


def test_a_bucket_that_was_added_is_there_when_it_tells_of_itself() -> None:
    told = board((1, 1), (1, 1), (1, 1), (1, 1))
    assert (told.buckets, told.homes, told.is_by_hash) == (4, 4, True)
    told.fold_record(BucketLoaded(5, 0, 0, 11))
    assert (told.buckets, told.homes, told.is_by_hash) == (6, 4, False)
    assert told.expected_loads() == {}  # the fifth has not told
    assert told.bucket_of_table(TABLE) == HOME


def test_what_is_by_bucket_is_what_the_topics_files_say() -> None:
    assert {one.name for one in all_topics() if one.is_by_bucket} == BY_BUCKET
    assert is_by_bucket("rewrite-tasks-heavy.etl")
    assert not is_by_bucket("task-results")


def test_of_two_words_on_a_table_the_higher_epoch_holds() -> None:
    told = board()
    assert told.bucket_of_table(TABLE) == HOME
    other = (HOME + 1) % 4
    told.fold_record(TableAssigned(TABLE, other, 7, 1))
    told.fold_record(TableAssigned(TABLE, HOME, 6, 2))
    assert told.bucket_of_table(TABLE) == other
    told.forget_table(TABLE)
    assert told.assignment_of(TABLE) is None


@pytest.mark.parametrize(("last", "now_ms", "epoch"), [(0, 50, 50), (50, 50, 51), (70, 50, 71)])
def test_an_epoch_is_higher_than_all_before(last: int, now_ms: int, epoch: int) -> None:
    assert next_epoch(last, now_ms) == epoch


@pytest.mark.parametrize("bucket", [-1, MAX_BUCKETS, 2**60])
def test_a_bucket_that_cannot_be_is_not_believed(bucket: int) -> None:
    known = Board(4)
    known.fold_record(BucketLoaded(bucket, 1, 1, 10))
    known.fold_record(TableAssigned("u", bucket, 1, 10, ""))
    assert (known.buckets, known.reported_load(bucket), known.assignment_of("u")) == (4, 0, None)
