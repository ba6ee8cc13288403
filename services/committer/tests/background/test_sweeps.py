"""When a table is swept, and that no sweep stops the commits."""

from __future__ import annotations

import dataclasses

import pytest
from firnline_adapters.observability.logs import Log
from firnline_committer.background.sweeps import AGAIN_MS, Sweeps
from firnline_committer.commit import events as reports
from firnline_domain.base.values import replace
from firnline_domain.commits.conflicts import Conflict
from firnline_domain.errors import StorageUnreachable
from firnline_domain.identity import TableName
from firnline_domain.records.events import OutputsSwept
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import TaskFailed
from firnline_iceberg.removal.sweep import SkippedList, Swept
from firnline_iceberg.table.loaded_table import TableGone

from tests.kit.counted import counted
from tests.kit.expiries import expired

A, B = TableName("uuid-a", ("ns",), "a"), TableName("uuid-b", ("ns",), "b")


class Scripted:
    """A sweeper that finds what it is told to."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.finds = Swept(A, removed=["file:/x"], lists=["file:/l"])
        self.error: Exception | None = None

    def sweep(self, name: TableName, dry_run: bool = False) -> Swept:
        self.calls.append(name.name)
        if self.error:
            raise self.error
        return dataclasses.replace(self.finds, table=name)


class Bench:
    def __init__(self) -> None:
        self.now_ms, self.sweeper = 0, Scripted()
        self.sweeps = Sweeps(self.sweeper, Log("t"), lambda: self.now_ms)

    def rounds(self, count: int = 3) -> list[OutputsSwept]:
        tables = (self.sweeps.take_due_table() for _ in range(count))
        ended = (self.sweeps.sweep(table) for table in tables if table is not None)
        return [event for one in ended if (event := self.sweeps.close_sweep(one))]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def failed(table: TableName) -> TaskFailed:
    return TaskFailed("t", table, "main", None, "rewrite", 1, "w", "oom", "", True, 1)


def test_signs_of_trouble_have_a_table_swept_once(bench, result) -> None:
    bench.sweeps.schedule_after([result(table="uuid-q")])
    assert bench.rounds() == []
    bench.sweeps.schedule_after([failed(A), failed(A), expired("b", B, 3, 1, None)])
    assert [event.table.name for event in bench.rounds(9)] == ["a", "b"]
    assert sorted(bench.sweeper.calls) == ["a", "b"]


def test_a_second_attempt_is_a_sign(bench, result) -> None:
    bench.sweeps.schedule_after([replace(result(), attempt=2)])
    assert len(bench.rounds()) == 1


def test_a_result_that_leaves_its_list_to_the_sweep_is_a_sign(bench, result) -> None:
    bench.sweeps.schedule_after([replace(result(), row_map="m", output_list="l")])
    assert bench.rounds() == []
    bench.sweeps.schedule_after([replace(result(), row_map="m", output_list=None)])
    assert len(bench.rounds()) == 1


def test_a_refused_result_is_a_sign(bench, result) -> None:
    refused = reports.conflicted_event(result(), Conflict(ConflictReason.PIN_LOST, ""), None, 1)
    bench.sweeps.schedule_after([refused])
    assert len(bench.rounds()) == 1


def test_at_most_once_an_hour(bench) -> None:
    bench.sweeps.schedule_after([failed(A)])
    assert len(bench.rounds()) == 1
    bench.sweeps.schedule_after([failed(A)])
    assert bench.rounds() == []
    bench.now_ms = AGAIN_MS
    assert len(bench.rounds()) == 1


def test_a_table_that_is_committed_to_is_swept_afterwards(bench) -> None:
    bench.sweeps.schedule_after([failed(A), failed(B)])
    assert bench.sweeps.take_due_table(lambda uuid: uuid == A.uuid) == B
    assert bench.sweeps.take_due_table(lambda uuid: uuid == A.uuid) is None
    assert bench.sweeps.take_due_table() == A


def test_what_is_too_young_is_swept_when_it_has_come_of_age(bench) -> None:
    bench.sweeper.finds = Swept(A, left=[SkippedList("file:/l", "young", until_ms=2 * AGAIN_MS)])
    bench.sweeps.schedule_after([failed(A)])
    assert bench.rounds() == []  # there is nothing to tell
    bench.now_ms = 2 * AGAIN_MS - 1
    bench.rounds()
    assert len(bench.sweeper.calls) == 1
    bench.now_ms += 1
    bench.rounds()
    assert len(bench.sweeper.calls) == 2


def test_a_list_that_nobody_can_read_is_told_of(bench) -> None:
    bench.sweeper.finds = Swept(A, left=[SkippedList("file:/l", "unreadable", "torn")])
    bench.sweeps.schedule_after([failed(A)])
    (event,) = bench.rounds()
    assert (event.left, event.files_removed) == ({"unreadable": 1}, 0)


@pytest.mark.parametrize(
    ("error", "tried"),
    [(StorageUnreachable("storage"), 2), (TableGone(A), 1), (ZeroDivisionError("a bug"), 1)],
)
def test_a_sweep_that_fails_stops_nothing(bench, error, tried) -> None:
    bench.sweeper.error = error
    bench.sweeps.schedule_after([failed(A)])
    before = counted("dependency_errors", dependency="storage")
    assert bench.rounds() == []
    unreachable = isinstance(error, StorageUnreachable)
    assert counted("dependency_errors", dependency="storage") == before + unreachable
    bench.now_ms = AGAIN_MS
    bench.rounds()
    assert len(bench.sweeper.calls) == tried
