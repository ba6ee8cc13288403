"""No table waits for another one's bad luck, and none has two commits at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from firnline_adapters.consumer.threads import Inline, Threads
from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_committer import table_queues
from firnline_committer.background.sweeps import Sweeps
from firnline_committer.commit.attempts import AttemptProgress
from firnline_committer.handlers import CommitterHandlers
from firnline_committer.pump import CommitterPump
from firnline_committer.table_queues import MAX_AT_ONCE
from firnline_domain.base.values import replace
from firnline_domain.errors import RetryLater
from firnline_domain.identity import bucket_of
from firnline_domain.records.events import RewriteConflicted, RewriteSkipped
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import TaskFailed
from firnline_iceberg.java.jvm import JvmEnded
from firnline_iceberg.removal.sweep import Swept

TABLES = ("uuid-a", "uuid-c", "uuid-d", "uuid-e", "uuid-f")
A, B = TABLES[:2]  # of two buckets
PATIENCE_S = 20.0


class Gates(CommitterHandlers):
    """Skips results, each table's when its gate is open; notes who is in work."""

    def __init__(self) -> None:
        self.shut: dict[str, threading.Event] = {}
        self.lost: set[str] = set()  # tables whose tries come to nothing
        self.away: set[str] = set()  # or whose storage does not answer
        self.done = 10**6  # of a batch, results that have an event after a turn
        self.in_work: list[str] = []
        self.overlaps: list[str] = []
        self.calls: list[tuple[str, list[str]]] = []
        self.let_gone: list[tuple[str, str]] = []
        self.ends_jvm = False

    def shut_gate(self, table: str) -> threading.Event:
        return self.shut.setdefault(table, threading.Event())

    @contextmanager
    def noted(self, table: str) -> Iterator[None]:
        if table in self.in_work:
            self.overlaps.append(table)
        self.in_work.append(table)
        if table in self.shut:
            assert self.shut[table].wait(PATIENCE_S)
        yield
        self.in_work.remove(table)

    def advance(self, records: Sequence[Any]) -> AttemptProgress:
        table = records[0].table.uuid
        self.calls.append((table, [one.task_id for one in records]))
        with self.noted(table):
            if self.ends_jvm:
                raise JvmEnded("gone")
            if table in self.away:
                return AttemptProgress([], records, unreachable=RetryLater("storage"))
            done = [] if table in self.lost else records[: self.done]
            skips = [
                RewriteSkipped(one.task_id, one.table, one.ref, one.scope, "x", 1) for one in done
            ]
            return AttemptProgress(
                skips, records[len(done) :], pause_s=0.2 if len(done) < len(records) else 0
            )

    def abandon(self, table_key: str, ref: str) -> None:
        self.let_gone.append((table_key, ref))


class Bench:
    def __init__(self, pool: Any = None, sweeps: Sweeps | None = None) -> None:
        self.broker, self.now, self.handlers = MemoryBroker(8), 0.0, Gates()
        self.publisher = MemoryPublisher(self.broker)
        self.inbox = MemoryInbox(self.broker, "committer", ["task-results"])
        self.pump = CommitterPump(
            self.inbox,
            self.publisher,
            self.handlers,
            Log("t"),
            lambda: self.now,
            sweeps=sweeps,
            pool=pool,
        )

    def send(self, *results: Any) -> None:
        for one in results:
            self.publisher.publish("task-results", one.table.uuid, one)

    def reported(self) -> list[str]:
        return sorted(event.task_id for event in self.broker.records("maintenance-events"))

    def offset(self, uuid: str) -> int:
        place = ("committer", "task-results", bucket_of(uuid, 8))
        return self.broker.committed.get(place, 0)

    def until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < deadline
            self.pump.step(0)
            time.sleep(0.001)


def test_a_commit_that_takes_its_time_holds_up_no_other_table(result) -> None:
    bench = Bench(Threads(2))
    gate = bench.handlers.shut_gate(A)
    bench.send(result(task="slow", table=A))
    bench.until(lambda: bench.handlers.in_work == [A])
    for number in range(3):
        bench.send(result(task=f"b{number}", table=B))
        bench.until(lambda: len(bench.reported()) == number + 1)  # noqa: B023
    assert (bench.offset(A), bench.offset(B)) == (0, 3)
    gate.set()
    bench.until(lambda: bench.offset(A) == 1)
    assert bench.reported() == ["b0", "b1", "b2", "slow"]


def test_one_table_is_never_committed_to_twice_at_once(result) -> None:
    """Nor are two of its refs."""
    bench = Bench(Threads(4))
    gate = bench.handlers.shut_gate(A)
    bench.send(result(task="main", table=A), replace(result(task="b", table=A), ref="branch"))
    bench.until(lambda: bench.handlers.in_work == [A])
    bench.send(result(task="next", table=A))
    for _ in range(20):
        bench.pump.step(0)
    assert bench.handlers.in_work == [A]
    gate.set()
    bench.until(lambda: len(bench.reported()) == 3)
    assert bench.handlers.overlaps == []


def test_a_lost_race_goes_back_to_its_queue(result) -> None:
    bench = Bench()
    bench.handlers.lost = {A}
    bench.send(result(task="hot", table=A), result(task="b", table=B))
    bench.pump.step(0)
    assert bench.reported() == ["b"]
    bench.now = 0.19
    bench.send(result(task="hotter", table=A))
    bench.pump.step(0)
    assert [table for table, _ in bench.handlers.calls].count(A) == 1
    bench.now, bench.handlers.lost = 0.2, set()
    bench.pump.step(0)
    assert bench.handlers.calls[-1] == (A, ["hot", "hotter"])  # with what has come since
    assert bench.offset(A) == 2


def test_a_hot_table_is_not_given_up_for_its_lost_races(result) -> None:
    bench = Bench()
    bench.handlers.lost = {A}
    bench.send(result(task="hot", table=A))
    for _ in range(10_000):
        bench.now += 0.2
        bench.pump.step(0)
    assert bench.reported() == []


def test_what_has_its_event_does_not_wait_for_the_others(result) -> None:
    bench = Bench()
    bench.handlers.done = 1
    bench.send(result(task="1"), result(task="2"))
    bench.pump.step(0)
    assert (bench.reported(), bench.offset(A)) == (["1"], 1)


def test_tables_that_get_nowhere_leave_threads_to_the_others(result) -> None:
    """Each of their tries may wait a minute for a store that does not answer."""
    bench = Bench(Threads(2))
    stuck, well = TABLES[:4], TABLES[4]
    bench.handlers.away = set(stuck)
    bench.send(*[result(task=one, table=one) for one in stuck])
    bench.until(lambda: len(bench.handlers.calls) == len(stuck))
    gates = [bench.handlers.shut_gate(one) for one in stuck]
    bench.now = 3_600.0
    bench.until(lambda: len(bench.handlers.in_work) == 1)
    bench.send(result(task="well", table=well))
    bench.until(lambda: bench.reported() == ["well"])
    for gate in gates:
        gate.set()


def test_a_table_with_thousands_of_results_takes_turns_with_the_others(result) -> None:
    class One(Inline):
        size = 1

    bench = Bench(One())
    bench.send(*[result(task=str(number), table=A) for number in range(5_000)])
    bench.send(*[result(task=table, table=table) for table in TABLES[1:]])
    for _ in range(len(TABLES)):
        bench.pump.step(0)
    assert sorted(table for table, _ in bench.handlers.calls) == list(TABLES)
    assert max(len(tasks) for _, tasks in bench.handlers.calls) == MAX_AT_ONCE


def test_a_partition_that_holds_too_much_is_read_no_further(result, monkeypatch) -> None:
    """A restart would read the same again, for ever."""
    monkeypatch.setattr(table_queues, "MAX_WAITING", 300)
    monkeypatch.setattr(table_queues, "MAX_OF_A_TABLE", 1_000)
    bench = Bench()
    bench.handlers.away = {A}
    bench.send(*[result(task=f"a{number}", table=A) for number in range(40)])
    bench.pump.step(0)
    bench.send(result(task="late", table=A), result(task="b", table=B))
    bench.pump.step(0)
    assert bench.reported() == ["b"]
    bench.handlers.away, bench.now = set(), 60.0
    bench.pump.step(0)
    assert len(bench.reported()) == 41
    bench.pump.step(0)
    assert "late" in bench.reported()


def test_what_a_stuck_table_piles_up_goes_back_to_the_planner(result, monkeypatch) -> None:
    """Others in its partition are not to wait behind it."""
    monkeypatch.setattr(table_queues, "MAX_OF_A_TABLE", 150)
    bench = Bench()
    bench.handlers.away = {A}
    bench.send(*[result(task=f"{number:02}", table=A) for number in range(20)])
    bench.pump.step(0)
    events = bench.broker.records("maintenance-events")
    assert {type(event) for event in events} == {RewriteConflicted}
    assert {event.reason for event in events} == {ConflictReason.UNREACHABLE}
    assert bench.reported() == [f"{number:02}" for number in range(20 - len(events), 20)]
    assert 5 < len(events) < 15


def test_what_a_rebalance_has_taken_is_its_new_owners(result) -> None:
    bench = Bench()
    bench.handlers.lost = {A}
    bench.send(result(task="1", table=A), result(task="2", table=A))
    bench.pump.step(0)
    bench.inbox.lose_partition("task-results", bucket_of(A, 8))
    bench.handlers.lost, bench.now = set(), 1.0
    bench.pump.step(0)  # and it comes back to us at once
    assert bench.reported() == ["1", "2"]
    assert bench.offset(A) == 2


def test_of_a_batch_that_is_anothers_nothing_is_kept(result) -> None:
    bench = Bench()
    bench.handlers.lost = {A}
    bench.send(result(task="1", table=A))
    bench.pump.step(0)
    bench.inbox.lose_partition("task-results", bucket_of(A, 8))
    bench.inbox.poll = lambda *_: []  # type: ignore[method-assign]
    for _ in range(3):
        bench.pump.step(0)
    assert bench.handlers.let_gone == [(A, "main")]
    assert len(bench.handlers.calls) == 1


class Sweeping:
    """A sweeper that is in work for as long as a gate is shut."""

    def __init__(self, handlers: Gates) -> None:
        self._handlers = handlers
        self.swept: list[str] = []

    def sweep(self, name: Any, dry_run: bool = False) -> Swept:
        with self._handlers.noted(name.uuid):
            self.swept.append(name.uuid)
            return Swept(name)


def test_a_sweep_and_a_commit_of_a_table_never_overlap(result) -> None:
    bench = Bench(Threads(4))
    sweeper = Sweeping(bench.handlers)
    bench.pump._sweeps = Sweeps(sweeper, Log("t"), lambda: 7)
    one = result(task="1", table=A)
    gate = bench.handlers.shut_gate(A)
    failed = TaskFailed("2", one.table, "main", None, "rewrite", 1, "w", "x", "", True, 1)
    bench.send(one)
    bench.until(lambda: bench.handlers.in_work == [A])
    bench.pump._sweeps.schedule_after([failed])
    for _ in range(20):
        bench.pump.step(0)
    assert bench.handlers.in_work == [A]  # no sweep beside the commit
    gate.set()
    bench.until(lambda: sweeper.swept == [A])

    sweep_gate = bench.handlers.shut[A] = threading.Event()
    bench.pump._sweeps = Sweeps(sweeper, Log("t"), lambda: 7)
    bench.pump._sweeps.schedule_after([failed])
    bench.until(lambda: bench.handlers.in_work == [A])
    bench.send(result(task="3", table=A), result(task="4", table=B))
    bench.until(lambda: "4" in bench.reported())
    assert "3" not in bench.reported()  # no commit beside the sweep
    sweep_gate.set()
    bench.until(lambda: "3" in bench.reported())
    assert bench.handlers.overlaps == []


def test_a_jvm_that_ends_in_any_thread_ends_the_service(result) -> None:
    bench = Bench(Threads(2))
    bench.handlers.ends_jvm = True
    bench.send(result(task="1"))
    with pytest.raises(JvmEnded):
        bench.until(lambda: False)
    assert bench.offset(A) == 0


def test_the_end_waits_for_what_is_in_work(result) -> None:
    bench = Bench(Threads(2))
    gate = bench.handlers.shut_gate(A)
    bench.send(result(task="1"))
    bench.until(lambda: bench.handlers.in_work == [A])
    bench.pump.finish(0.01)
    assert bench.offset(A) == 0
    threading.Timer(0.05, gate.set).start()
    bench.pump.finish(PATIENCE_S)
    assert (bench.reported(), bench.offset(A)) == (["1"], 1)
