"""Partitions that do not add up to their table are found out when they are read."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.counters.fold.missing_snapshots import ResyncReason
from firnline_domain.counters.state.counters import (
    OpenChunks,
    PartitionCounters,
    TableCounters,
    Totals,
)
from firnline_domain.counters.state.work import Partition
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import ChangeKind
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_planner.state.recount import Recount
from firnline_planner.state.table_context import is_gone

A, B = Scope(1, '["a"]'), Scope(0, "[]")


def files(count: int) -> FileTally:
    return FileTally(fragments=Tally(count, count, count))


def entry(scope: Scope, count: int, epoch: int = 2, ordinal: int = 5) -> Partition:
    return Partition(PartitionCounters(scope, epoch, ordinal, files(count)))


def table(count: int) -> TableCounters:
    totals = Totals(files(count), partitions=77, partitioned=77)
    known = TableCounters(TableName("u", ("db",), "t"), "main", known=True, epoch=2, ordinal=5)
    return replace(known, totals=totals)


def checked(counters: TableCounters, *partitions: Partition) -> TableCounters:
    recount = Recount(counters)
    for partition in partitions:
        recount.add(partition)
    return recount.check_counters(9)


def test_what_adds_up_gets_its_number_of_partitions() -> None:
    found = checked(table(5), entry(A, 3), entry(B, 2))
    assert (found.totals.partitions, found.totals.partitioned) == (2, 1)
    assert found.waiting is None


def test_what_does_not_add_up_is_counted_anew() -> None:
    found = checked(table(6), entry(A, 3), entry(B, 2))
    assert found.waiting is not None
    assert (found.waiting.reason, found.waiting.absolute) == (ResyncReason.MISCOUNTED, True)


def test_while_partitions_are_ahead_of_their_table_nothing_is_said() -> None:
    counters = table(6)
    assert checked(counters, entry(A, 3, ordinal=6)) == counters
    assert checked(counters, entry(A, 3, epoch=3, ordinal=0)) == counters
    opened = replace(counters, open=OpenChunks(9, ChangeKind.DELTA, 2, 6, 2))
    assert checked(opened, entry(A, 3)) == opened


@pytest.mark.parametrize(
    ("partition", "gone"),
    [
        (entry(A, 3), False),
        (entry(A, 3, epoch=1), True),
        (entry(A, 3, epoch=3), False),
        (entry(A, 0, ordinal=4), True),
        (entry(A, 0, ordinal=5), True),
        (entry(A, 0, ordinal=6), False),  # ahead: a crash has undone the table's own entry
    ],
)
def test_entries_that_say_nothing_are_gone(partition: Partition, gone: bool) -> None:
    assert is_gone(table(5), partition.counters) is gone
