"""The committer's own memory runs out: who is told what, and who waits for whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_committer.commit.attempts import AttemptProgress
from firnline_committer.handlers import CommitterHandlers
from firnline_committer.pump import CommitterPump
from firnline_domain.errors import HeapTooSmall
from firnline_domain.records.events import RewriteConflicted, RewriteSkipped
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import RewriteFinished

from tests.kit.counted import counted

BIG, SMALL, OTHER = "uuid-a", "uuid-c", "uuid-d"
Result = Callable[..., RewriteFinished]


class Heap(CommitterHandlers):
    """Holds one commit of BIG, whose task \"huge\" it does not hold at all."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def advance(self, records: Sequence[Any]) -> AttemptProgress:
        self.calls.append([one.task_id for one in records])
        big = [one for one in records if one.table.uuid == BIG]
        if len(big) > 1 or any(one.task_id == "huge" for one in big):
            return AttemptProgress([], records, unreachable=HeapTooSmall("Java heap space"))
        return AttemptProgress(
            [RewriteSkipped(one.task_id, one.table, one.ref, one.scope, "x", 1) for one in records]
        )

    def abandon(self, table_key: str, ref: str) -> None:
        """Nothing was left."""


class ByHand:
    """A pool whose work ends when a test says so."""

    size = 4

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Future[Any]]] = []

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((work, future))
        return future

    def end(self) -> None:
        for work, future in self.waiting:
            future.set_result(work())
        self.waiting = []


class Bench:
    def __init__(self) -> None:
        self.broker, self.now, self.heap, self.pool = MemoryBroker(8), 0.0, Heap(), ByHand()
        self.publisher = MemoryPublisher(self.broker)
        inbox = MemoryInbox(self.broker, "committer", ["task-results"])
        self.pump = CommitterPump(
            inbox, self.publisher, self.heap, Log("t"), lambda: self.now, pool=self.pool
        )

    def send(self, *results: RewriteFinished) -> None:
        for one in results:
            self.publisher.publish("task-results", one.table.uuid, one)

    def step(self) -> list[list[str]]:
        """What is handed to the pool in a round; it ends in the next one."""
        self.heap.calls = []
        self.pump.step(0)
        self.pool.end()
        self.now += 1
        return sorted(self.heap.calls)

    def ended(self) -> dict[str, str]:
        events = self.broker.records("maintenance-events")
        return {one.task_id: str(one.reason) for one in events}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_what_is_too_big_is_tried_alone_and_neighbours_wait_for_no_more(
    bench: Bench, result: Result
) -> None:
    bench.send(result(task="1", table=BIG), result(task="huge", table=BIG), result(table=SMALL))
    assert bench.step() == [["1", "huge"], ["task"]]
    bench.step()  # it is told that memory did not suffice
    bench.send(result(task="later", table=OTHER))
    tried = [bench.step() for _ in range(6)]
    assert [one for one in tried if one][:2] == [[["1"]], [["huge"], ["later"]]]


def test_a_neighbour_whose_commit_is_under_way_ends_first(bench: Bench, result: Result) -> None:
    bench.send(result(task="1", table=BIG), result(task="2", table=BIG))
    bench.step()
    bench.send(result(task="before", table=SMALL))
    bench.pump.step(0)  # it has begun when memory is known not to suffice
    bench.now += 1
    bench.send(result(task="later", table=OTHER))
    bench.pump.step(0)
    assert len(bench.pool.waiting) == 1
    bench.pool.end()
    bench.heap.calls = []
    tried = [bench.step() for _ in range(4)]
    assert next(one for one in tried if one) == [["1"]]


def test_what_fails_alone_too_is_told_with_its_true_reason(bench: Bench, result: Result) -> None:
    before = counted("dependency_errors", dependency="memory")
    bench.send(result(task="huge", table=BIG), result(task="2", table=BIG), result(table=SMALL))
    for _ in range(12):
        bench.step()
    assert bench.ended() == {"huge": "committer_out_of_memory", "2": "x", "task": "x"}
    [conflict] = [
        one
        for one in bench.broker.records("maintenance-events")
        if isinstance(one, RewriteConflicted)
    ]
    assert conflict.reason is ConflictReason.COMMITTER_OUT_OF_MEMORY
    [letter] = bench.broker.records("dead-letters")
    assert (letter.reason, letter.message) == ("unusable", "Java heap space")
    assert counted("dependency_errors", dependency="memory") == before + 2
