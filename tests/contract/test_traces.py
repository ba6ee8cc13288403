"""One commit's trace id on every record that it leads to, and in the log of every service."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryLeases, MemoryPublisher
from firnline_adapters.observability import traces
from firnline_adapters.observability.logs import Log
from firnline_adapters.observability.traces import following, trace_in
from firnline_adapters.records.codec import RecordCodec
from firnline_committer.pump import CommitterPump
from firnline_domain.base.values import replace
from firnline_domain.ports import Delivery
from firnline_domain.records.events import FilesChanged
from firnline_enricher.pump import EnricherPump
from firnline_planner import meters
from firnline_planner.bucket.inputs import InputReader
from firnline_worker.handlers import RESULTS, WorkerHandlers
from firnline_worker.host.heartbeats import Heartbeats
from firnline_worker.host.leases import TaskLeases

from services.committer.tests.test_pump import Scripted as CommitterHandlers
from services.enricher.tests.test_pump import Scripted as EnricherHandlers
from services.enricher.tests.test_pump import commit
from services.worker.tests.test_handlers import DONE
from tests.kit.memory_driver import MemoryDriver
from tests.kit.names import TABLE
from tests.kit.planner_world import LIMITS, A, PlannerWorld, only, part

TRACE, OTHER = "4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c"


class Reading(EnricherHandlers):
    """Each commit adds eight small files."""

    def handle(self, delivery: Delivery) -> list[FilesChanged]:
        Log("enricher").info("reading")
        world = PlannerWorld(now_ms=1_000)
        event = delivery.record
        snapshot = event.refs[0].snapshot_id
        change = world.change(snapshot, snapshot - 1 or None, part(A, 8), table=event.table)
        return [replace(change, event_id=f"{event.table.uuid}/{snapshot}")]


class Services:
    """The services over one broker in memory, each as in a process of its own."""

    def __init__(self) -> None:
        self.broker = MemoryBroker(8)
        self.publisher = MemoryPublisher(self.broker)
        self.enricher = EnricherPump(
            self._inbox("enricher", "table-commits"), self.publisher, Reading(), Log("enricher")
        )
        reader = InputReader(RecordCodec(), Log("planner"))
        self.planner = MemoryDriver(self.broker, reader, LIMITS, lambda: 2_000_000)
        self.orders = self._inbox("worker", "rewrite-tasks")
        leases = TaskLeases(MemoryLeases(), "w", 30.0, Log("worker"))
        beats = Heartbeats(self.publisher, "w", lambda: 0)
        no: Any = None
        self.worker = WorkerHandlers(
            *(self, {}, no, leases, self.publisher, "w", lambda: 2_000_000, Log("worker")),
            *(lambda: False, beats),
        )
        self.committer = CommitterPump(
            self._inbox("committer", RESULTS),
            self.publisher,
            CommitterHandlers(),
            Log("committer"),
        )

    def _inbox(self, group: str, topic: str) -> MemoryInbox:
        return MemoryInbox(self.broker, group, [topic])

    def rewrite(self, order: Any, note: Callable[[int], None]) -> Any:
        return replace(DONE, task_id=order.task_id, table=order.table, scope=order.scope)

    def run(self, step: Callable[[], object]) -> None:
        """Take a step in a process that has seen nothing of the others."""
        traces._kept.clear()
        step()

    def work(self) -> None:
        for delivery in self.orders.poll(0):
            self.worker.handle(delivery.record)

    def traces_on(self, topic: str) -> list[str]:
        return [
            trace_in(self.broker.headers.get((name, partition, offset)))
            for (name, partition), log in sorted(self.broker.logs.items())
            for offset in range(len(log))
            if name == topic
        ]


TOPICS = ("table-commits", "file-changes", "rewrite-tasks", RESULTS, "maintenance-events")


def test_the_id_of_a_commit_is_on_all_that_it_leads_to(
    caplog: pytest.LogCaptureFixture,
) -> None:
    services = Services()
    with caplog.at_level(logging.INFO, "firnline"):
        with following(TRACE):
            services.publisher.publish("table-commits", TABLE.key, commit(TABLE.uuid, 1))
        services.run(lambda: services.enricher.step(0))
        services.run(services.planner.run)
        services.run(services.work)
        services.run(lambda: [services.committer.step(0) for _ in range(3)])
    assert [services.traces_on(topic) for topic in TOPICS] == [[TRACE]] * len(TOPICS)
    shown = [(re.search(r"action=(\w+)", line)[1], TRACE in line) for line in caplog.messages]
    assert shown == [
        *(("reading", True), ("enriched", True)),
        *(("task_started", True), ("task_finished", True)),
    ]


def test_a_line_about_several_results_shows_their_ids(caplog: pytest.LogCaptureFixture) -> None:
    services = Services()

    class Failing(CommitterHandlers):
        def advance(self, records: Any) -> Any:
            raise ValueError("no")

    services.committer._handlers = Failing()
    for task, trace in (("a", TRACE), ("b", OTHER)):
        with following(trace):
            services.publisher.publish(RESULTS, DONE.table.key, replace(DONE, task_id=task))
    with caplog.at_level(logging.INFO, "firnline.committer"):
        services.run(lambda: services.committer.step(0))
    assert f'trace="{TRACE},{OTHER}"' in caplog.text or f"trace={TRACE},{OTHER}" in caplog.text


def test_a_task_of_a_later_moment_has_the_id_of_its_trigger(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a restart of the planner: the table's state contains it."""
    monkeypatch.setattr(traces, "_kept", type(traces._kept)())
    world = PlannerWorld()
    order = only(world.commit(part(A, 8)))
    world.commit(part(A, 1, 8), task_id=order.task_id)  # and it cools down
    for trace in (OTHER, TRACE):
        world.head += 1
        change = world.change(world.head, world.head - 1, part(A, 8))
        traces.keep_trace(change, [(traces.HEADER, traces.write_traceparent(trace))])
        assert world.take(change) == []
    traces._kept.clear()
    world.restart()
    world.tick(60_000)
    with caplog.at_level(logging.INFO, "firnline.planner"):
        meters.count_steps([world.effects])
    [line] = [line for line in caplog.messages if "action=order" in line]
    assert f"trace={TRACE}" in line
    assert "snapshots=1,2,3,4" in line  # what led to it, not only the last one
    assert [one.trace for one in world.effects.outputs if one.topic == "rewrite-tasks"] == [TRACE]
