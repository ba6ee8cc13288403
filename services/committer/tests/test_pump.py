"""Offsets commit after events, a stuck table waits alone, a broken result goes aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from firnline_adapters.consumer.retry_queue import FIRST_PAUSE_S, PATIENCE_S
from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_committer.background.sweeps import Sweeps
from firnline_committer.commit.attempts import AttemptProgress
from firnline_committer.handlers import CommitterHandlers
from firnline_committer.pump import CommitterPump
from firnline_domain.base.values import replace
from firnline_domain.errors import CatalogUnreachable, RetryLater
from firnline_domain.identity import Scope, bucket_of
from firnline_domain.records.events import (
    DeadLettered,
    OutputsSwept,
    RewriteCommitted,
    RewriteConflicted,
    RewriteSkipped,
)
from firnline_domain.records.orders import PauseMaintenance, ResumeMaintenance
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import OutputFile, TaskFailed
from firnline_iceberg.java.jvm import JvmEnded
from firnline_iceberg.removal.sweep import Swept

from tests.kit.counted import counted
from tests.kit.memory_followers import MemoryPauseReader

A, B = "uuid-a", "uuid-c"  # of two buckets


class Scripted(CommitterHandlers):
    """Skips every result; fails for tables and tasks as told."""

    def __init__(self) -> None:
        self.failing: dict[str, Exception] = {}
        self.calls: list[list[str]] = []

    def advance(self, records: Sequence[Any]) -> AttemptProgress:
        self.calls.append([one.task_id for one in records])
        for one in records:
            error = self.failing.get(one.table.uuid) or self.failing.get(one.task_id)
            if isinstance(error, RetryLater):
                return AttemptProgress([], records, unreachable=error)
            if error is not None:
                raise error
        return AttemptProgress(
            [RewriteSkipped(one.task_id, one.table, one.ref, one.scope, "x", 1) for one in records]
        )

    def abandon(self, table_key: str, ref: str) -> None:
        """Nothing was left."""


class Bench:
    def __init__(self) -> None:
        self.broker, self.now, self.handlers = MemoryBroker(8), 0.0, Scripted()
        self.publisher = MemoryPublisher(self.broker)
        self.inbox = MemoryInbox(self.broker, "committer", ["task-results"])
        self.wall_ms = 10_000_000
        clocks = (lambda: self.now, lambda: self.wall_ms)
        self.pump = CommitterPump(self.inbox, self.publisher, self.handlers, Log("t"), *clocks)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.pump.step(0)

    def send(self, *results: Any) -> None:
        for one in results:
            self.publisher.publish("task-results", one.table.uuid, one)

    def events(self) -> list[str]:
        return [event.task_id for event in self.broker.records("maintenance-events")]

    def offset(self, uuid: str) -> int:
        place = ("committer", "task-results", bucket_of(uuid, 8))
        return self.broker.committed.get(place, 0)


@pytest.fixture
def bench() -> Bench:
    assert bucket_of(A, 8) != bucket_of(B, 8)
    return Bench()


def test_one_poll_of_a_table_is_one_call(bench, result) -> None:
    bench.send(result(task="1"), result(task="2"), result(task="3", table=B))
    bench.pump.step(0)
    assert sorted(bench.handlers.calls) == [["1", "2"], ["3"]]
    assert (bench.offset(A), bench.offset(B)) == (2, 1)


def test_a_clock_that_jumps_neither_stops_a_table_nor_ends_its_patience(bench, result) -> None:
    bench.handlers.failing = {A: RetryLater("catalog")}
    bench.wall_ms += 7 * 3_600_000  # while it fails
    bench.send(result(task="1"))
    bench.pump.step(0)
    bench.now += FIRST_PAUSE_S
    bench.wall_ms += 7 * 3_600_000
    bench.pump.step(0)
    assert bench.offset(A) == 0
    assert bench.broker.records("dead-letters") == []
    bench.handlers.failing, bench.wall_ms = {}, 10_000_000
    bench.now += 2 * FIRST_PAUSE_S
    bench.pump.step(0)
    assert (bench.events(), bench.offset(A)) == (["1"], 1)


@pytest.fixture
def gathering(bench) -> Bench:
    args = (bench.inbox, bench.publisher, bench.handlers, Log("t"), lambda: bench.now)
    bench.pump = CommitterPump(*args, gather_s=5.0)
    return bench


def test_what_was_ordered_together_is_one_call(gathering, result) -> None:
    gathering.send(result(task="1", batch_size=3, took_ms=2_000))
    gathering.pump.step(0)
    gathering.now = 3.9
    gathering.send(result(task="2", batch_size=3, took_ms=2_000), result(task="3", table=B))
    gathering.pump.step(0)
    assert gathering.handlers.calls == [["3"]]
    gathering.now = 7.8  # twice as long as the last one took have not passed since it came
    gathering.send(result(task="4", batch_size=3, took_ms=2_000))
    gathering.pump.step(0)
    assert gathering.handlers.calls == [["3"], ["1", "2", "4"]]
    assert gathering.offset(A) == 3


@pytest.mark.parametrize(("took_ms", "wait_s"), [(2_000, 4.0), (60_000, 5.0)])
def test_one_that_does_not_come_is_not_waited_for_any_longer(
    gathering, result, took_ms, wait_s
) -> None:
    gathering.send(result(task="1", batch_size=2, took_ms=took_ms))
    gathering.pump.step(0)
    gathering.now = wait_s - 0.1
    gathering.pump.step(0)
    assert gathering.handlers.calls == []
    gathering.now = wait_s
    gathering.pump.step(0)
    assert gathering.handlers.calls == [["1"]]


def test_a_failure_among_them_is_company_too(gathering, result) -> None:
    """Whoever failed will not come; as many as were ordered are there."""
    done = result(task="1", batch_size=2, took_ms=2_000)
    failed = TaskFailed("2", done.table, "main", done.scope, "rewrite", 1, "w", "oom", "", True, 1)
    gathering.send(done, failed)
    gathering.pump.step(0)
    assert gathering.handlers.calls == [["1", "2"]]


def test_nobody_gathers_where_that_is_off(bench, result) -> None:
    bench.send(result(task="1", batch_size=2, took_ms=2_000))
    bench.pump.step(0)
    assert bench.handlers.calls == [["1"]]


def test_a_table_that_cannot_go_on_waits_alone(bench, result) -> None:
    bench.send(result(task="1"), result(task="2", table=B))
    bench.handlers.failing = {A: CatalogUnreachable("catalog")}
    before = counted("dependency_errors", dependency="catalog")
    bench.pump.step(0)
    assert counted("dependency_errors", dependency="catalog") == before + 1
    assert bench.events() == ["2"]
    assert (bench.offset(A), bench.offset(B)) == (0, 1)
    bench.handlers.failing = {}
    bench.pump.step(0)
    assert bench.events() == ["2"]  # it pauses
    bench.now += FIRST_PAUSE_S
    bench.pump.step(0)
    assert sorted(bench.events()) == ["1", "2"]
    assert bench.offset(A) == 1


def test_the_pause_grows(bench, result) -> None:
    bench.send(result(task="1"))
    bench.handlers.failing = {A: RetryLater("catalog")}
    bench.pump.step(0)
    bench.now += FIRST_PAUSE_S
    bench.pump.step(0)
    bench.now += FIRST_PAUSE_S
    bench.pump.step(0)
    assert len(bench.handlers.calls) == 2


def test_patience_ends_and_the_partition_goes_back(bench, result) -> None:
    bench.send(result(task="1"))
    bench.handlers.failing = {A: RetryLater("catalog")}
    bench.pump.step(0)
    bench.now += PATIENCE_S + 1
    bench.pump.step(0)
    (event,) = bench.broker.records("maintenance-events")
    assert isinstance(event, RewriteConflicted)
    assert event.reason is ConflictReason.UNREACHABLE  # which parks no partition
    assert bench.offset(A) == 1


def test_a_broken_result_goes_aside_and_back_to_the_planner(bench, result) -> None:
    bench.send(result(task="1"), result(task="2"), result(task="3"))
    bench.handlers.failing = {"2": ValueError("no JSON")}
    bench.pump.step(0)
    (letter,) = bench.broker.records("dead-letters")
    assert isinstance(letter, DeadLettered)
    assert letter.reason == "unusable"
    told = {event.task_id: type(event) for event in bench.broker.records("maintenance-events")}
    assert told == {"1": RewriteSkipped, "2": RewriteConflicted, "3": RewriteSkipped}
    assert bench.offset(A) == 3


def test_a_jvm_that_has_ended_stops_the_service(bench, result) -> None:
    bench.send(result(task="1"))
    bench.handlers.failing = {A: JvmEnded("gone")}
    with pytest.raises(JvmEnded):
        bench.pump.step(0)
    assert bench.offset(A) == 0


def test_offsets_stay_where_the_broker_does_not_take_the_events(bench, result, monkeypatch) -> None:
    def refuse(timeout_s: float = 30.0) -> None:
        raise RetryLater("broker")

    monkeypatch.setattr(bench.publisher, "flush", refuse)
    bench.send(result(task="1"))
    with pytest.raises(RetryLater):
        bench.pump.step(0)
    assert bench.offset(A) == 0


class Sweeping:
    """A sweeper that looks whether the commits were dealt with before."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.offsets: list[int] = []

    def sweep(self, name: Any, dry_run: bool = False) -> Swept:
        self.offsets.append(self._bench.offset(name.uuid))
        return Swept(name, lists=["file:/l"])


def test_a_table_in_trouble_is_swept_after_its_results_are_dealt_with(bench, result) -> None:
    sweeper = Sweeping(bench)
    sweeps = Sweeps(sweeper, Log("t"), lambda: 7)
    bench.pump = CommitterPump(
        bench.inbox, bench.publisher, bench.handlers, Log("t"), lambda: bench.now, sweeps=sweeps
    )
    one = result(task="1")
    bench.send(one, TaskFailed("2", one.table, "main", None, "rewrite", 1, "w", "x", "", True, 1))
    bench.handlers.advance = lambda records: AttemptProgress([*records[1:]])  # type: ignore[method-assign]
    bench.pump.step(0)
    assert sweeper.offsets == [2]
    *_, event = bench.broker.records("maintenance-events")
    assert event == OutputsSwept(one.table, 1, 0, 0, {}, "committer", 7)


def test_a_paused_tables_result_waits_and_is_committed_after_it(bench, result) -> None:
    switches = MemoryPauseReader(bench.broker)
    bench.pump = CommitterPump(
        bench.inbox, bench.publisher, bench.handlers, Log("t"), lambda: bench.now, switches=switches
    )
    first = result(task="1")
    bench.publisher.publish("operator-orders", A, PauseMaintenance(first.table, "", "me", 1))
    bench.send(first, result(task="2", table=B))
    for bench.now in (0.0, PATIENCE_S, 100 * PATIENCE_S):
        bench.pump.step(0)
    assert (bench.events(), bench.offset(A)) == (["2"], 0)
    bench.publisher.publish("operator-orders", A, ResumeMaintenance(first.table, "me", 2))
    bench.pump.step(0)
    assert (sorted(bench.events()), bench.offset(A)) == (["1", "2"], 1)


def test_the_fleets_switch_stops_every_sweep_but_not_what_a_task_tells(bench, result) -> None:
    sweeper = Sweeping(bench)
    bench.pump = CommitterPump(
        bench.inbox,
        bench.publisher,
        bench.handlers,
        Log("t"),
        lambda: bench.now,
        sweeps=Sweeps(sweeper, Log("t"), lambda: 7),
        switches=MemoryPauseReader(bench.broker),
    )
    table = result(task="1").table
    bench.handlers.advance = lambda records: AttemptProgress(list(records))  # type: ignore[method-assign]
    bench.publisher.broadcast("operator-orders", "fleet", PauseMaintenance(None, "", "me", 1))
    bench.send(TaskFailed("2", table, "main", None, "rewrite", 1, "w", "x", "", True, 1))
    bench.pump.step(0)
    assert (bench.events(), sweeper.offsets) == (["2"], [])
    bench.publisher.broadcast("operator-orders", "fleet", ResumeMaintenance(None, "me", 2))
    bench.pump.step(0)
    assert sweeper.offsets == [1]


def test_sampled_commits_are_ordered_to_be_read_back(result: Any, monkeypatch: Any) -> None:
    """Told again, they are ordered again, by the same task id."""
    bench = Bench()
    bench.pump = CommitterPump(
        bench.inbox, bench.publisher, bench.handlers, Log("t"), lambda: bench.now, share=1.0
    )
    event = RewriteCommitted(
        "t1", result().table, "main", Scope(0, "[]"), (8,), 7, 1, 1, 0, 0, 9, 9, 2, 0, 2,
        "native", False, 5,
    )  # fmt: skip
    monkeypatch.setattr(
        bench.handlers, "advance", lambda records: AttemptProgress([event for _ in records])
    )
    bench.send(result())
    bench.send(result())
    bench.pump.step(0)
    orders = bench.broker.records("compare-tasks")
    assert {(one.task_id, one.snapshot_ids) for one in orders} == {("t1", (8,))}
    assert len(bench.events()) == 2


def test_what_came_of_a_result_and_cannot_be_sent_puts_the_result_aside(bench, result) -> None:
    advance = bench.handlers.advance

    def claiming(records: Sequence[Any]) -> AttemptProgress:
        events = advance(records).events
        late = [replace(event, at_ms=2**63) for event in events if event.task_id == "1"]
        return AttemptProgress(late + [event for event in events if event.task_id != "1"])

    bench.handlers.advance = claiming
    bench.send(result(task="1"), result(task="2"), result(task="3", table=B))
    bench.pump.step(0)
    assert sorted(bench.events()) == ["2", "3"]
    assert (bench.offset(A), bench.offset(B)) == (2, 1)
    letters = {one.topic: one for one in bench.broker.records("dead-letters")}
    assert letters["maintenance-events"].reason == "unencodable"
    assert (letters["task-results"].reason, letters["task-results"].offset) == ("unusable", 0)


@pytest.mark.parametrize("huge", [2**53, 2**62])
def test_a_forged_result_of_huge_sums_ends_nothing(bench, result, huge) -> None:
    """Given up, too, it is told: its outputs' bytes are summed for that."""
    forged = result(task="1", inputs=("a", "b"))
    [group] = forged.groups
    outputs = tuple(OutputFile(f"file:/{one}", huge, huge, "{}") for one in range(1_025))
    forged = replace(forged, groups=(replace(group, outputs=outputs, rows_in=huge),))
    bench.handlers.failing = {"1": ValueError("what it says is not so")}
    bench.send(forged, result(task="2"), result(task="3", table=B))
    bench.pump.step(0)
    assert {"2", "3"} <= set(bench.events())
    assert (bench.offset(A), bench.offset(B)) == (2, 1)
    [letter] = bench.broker.records("dead-letters")
    assert (letter.topic, letter.offset) == ("task-results", 0)
    assert letter.reason == ("unusable" if huge == 2**53 else "bad_value")


def test_what_a_table_has_left_stops_no_other(bench, result, monkeypatch) -> None:
    def fail(table_key: str, ref: str) -> None:
        raise KeyError("a snapshot without a summary")

    monkeypatch.setattr(bench.handlers, "abandon", fail)
    bench.handlers.failing = {A: CatalogUnreachable("catalog")}
    bench.send(result(task="1"))
    bench.pump.step(0)
    bench.now += PATIENCE_S + 60
    bench.steps(3)
    bench.send(result(task="2", table=B))
    bench.steps(2)
    assert (bench.offset(A), bench.offset(B)) == (1, 1)
