"""What a worker says of the orders that it is at work on."""

from __future__ import annotations

import pytest
from firnline_adapters.in_memory import MemoryBroker, MemoryPublisher
from firnline_domain.identity import Scope
from firnline_domain.policy.fleet.worker_memory import MemoryKind
from firnline_domain.policy.partition.deadlines import HEARTBEAT_MS
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.results import TaskRunning
from firnline_worker.host.heartbeats import EVENTS, Heartbeats

from tests.kit.names import TABLE

ORDER = RewriteFiles("t1", TABLE, "main", Scope(0, "[]"), "compact", "r", 7, 3, 100, 10**14)


class Bench:
    def __init__(self) -> None:
        self.broker = MemoryBroker()
        self.now_ms = 1_000
        self.memory: MemoryKind | None = None
        self.heartbeats = Heartbeats(
            MemoryPublisher(self.broker), "w", lambda: self.now_ms, lambda: self.memory
        )

    def after(self, ms: int) -> list[TaskRunning]:
        """All that was said until so much later."""
        self.now_ms += ms
        self.heartbeats.send_due()
        return self.broker.records(EVENTS)


def test_an_order_is_spoken_of_every_minute_from_the_first_on() -> None:
    bench = Bench()
    with bench.heartbeats.send_during(ORDER):
        assert bench.after(HEARTBEAT_MS - 1) == []
        [first] = bench.after(1)
        assert (first.task_id, first.attempt, first.scope) == ("t1", 3, ORDER.scope)
        assert (first.started_at_ms, first.at_ms, first.finished) == (1_000, 61_000, False)
        assert len(bench.after(HEARTBEAT_MS - 1)) == 1
        assert len(bench.after(1)) == 2
    *_, last = bench.after(0)
    assert last.finished
    assert len(bench.after(10 * HEARTBEAT_MS)) == 3


def test_memory_that_is_nearly_exhausted_is_spoken_of_at_once_and_by_the_task_to_its_end() -> None:
    bench = Bench()
    with bench.heartbeats.send_during(ORDER):
        assert bench.after(1_000) == []
        bench.memory = MemoryKind.HEAP
        assert [one.memory for one in bench.after(1_000)] == ["heap"]
        assert len(bench.after(1_000)) == 1
        bench.memory = None
        assert len(bench.after(HEARTBEAT_MS - 1_001)) == 1
        assert [one.memory for one in bench.after(1)] == ["heap", "heap"]
    assert [one.memory for one in bench.after(0)] == ["heap"] * 3
    with bench.heartbeats.send_during(ORDER):
        assert len(bench.after(HEARTBEAT_MS - 1)) == 3  # the next task has its own


def test_a_short_task_costs_no_record() -> None:
    bench = Bench()
    with bench.heartbeats.send_during(ORDER):
        bench.after(HEARTBEAT_MS - 1)
    assert bench.after(HEARTBEAT_MS) == []


def test_a_task_without_a_result_is_not_called_finished() -> None:
    bench = Bench()

    def given_up() -> None:
        with bench.heartbeats.send_during(ORDER):
            bench.after(HEARTBEAT_MS)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        given_up()
    assert [one.finished for one in bench.after(10 * HEARTBEAT_MS)] == [False]
