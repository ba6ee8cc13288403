"""A worker and a committer over topics in memory: an order goes in, its events come out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, wait
from dataclasses import dataclass
from typing import Any

from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_committer.background.sweeps import Sweeps
from firnline_committer.bootstrap import GROUP, TOPICS
from firnline_committer.handlers import CommitterHandlers as CommitHandlers
from firnline_committer.pump import COMPARISONS, EVENTS, CommitterPump
from firnline_domain.errors import PoisonousRecord
from firnline_domain.policy.operator_requests import Order
from firnline_domain.records.events import ends_order
from firnline_domain.records.results import RewriteFinished, TaskFailed
from firnline_worker.handlers import RESULTS, failure_of
from firnline_worker.handlers import WorkerHandlers as TaskHandlers
from firnline_worker.host.leases import Busy

STEP_S = 0.05
GRACE_S = 30.0  # for the commit of a run that is told to stop
CALLER = "run"  # the consumer group of who asks what came of it
LETTERS = "dead-letters"
MAX_BUSY = 5  # tries of a task whose lease is taken, though no other task runs


class RunStopped(Exception):
    """The run was stopped: its running tasks have been cleared away, or are committed, or are on a
    write-ahead list if the catalog did not answer."""


@dataclass(frozen=True)
class RunTopics:
    """The topics between worker, committer and run, in memory."""

    broker: MemoryBroker

    @classmethod
    def create(cls) -> RunTopics:
        """Create topics of one partition: no other process shares them."""
        return cls(MemoryBroker(1))

    def open_inbox(self, group: str, *topics: str) -> MemoryInbox:
        """Open a reader, from the beginning."""
        return MemoryInbox(self.broker, group, topics)

    @property
    def publisher(self) -> MemoryPublisher:
        """Return a writer."""
        return MemoryPublisher(self.broker, service="standalone")


class Engine:
    """An engine that carries out orders. `stopping`: checked between steps; then no new work
    begins, and running tasks are given up by `cancel`."""

    def __init__(
        self,
        tasks: TaskHandlers,
        commits: CommitHandlers,
        topics: RunTopics,
        executor: Executor,
        log: Log,
        sweeps: Sweeps | None = None,
        share: float = 0.0,
        stopping: Callable[[], bool] = lambda: False,
        cancel: Callable[[], None] = lambda: None,
        progress: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        """Connect the worker and the committer through topics in memory. `progress`: returns how
        many groups are done, and how many there are in all running tasks."""
        self._tasks = tasks
        self._executor = executor
        self._stopping = stopping
        self._cancel = cancel
        self.progress = progress
        self._results = topics.open_inbox(CALLER, RESULTS)
        self._events = topics.open_inbox(CALLER, EVENTS)
        self._comparisons = topics.open_inbox("worker", COMPARISONS)
        self._letters = topics.open_inbox(CALLER, LETTERS)
        self._publisher = topics.publisher
        self._pump = CommitterPump(
            topics.open_inbox(GROUP, *TOPICS),
            topics.publisher,
            commits,
            log,
            sweeps=sweeps,
            share=share,
        )

    def carry_out(
        self,
        orders: Sequence[Order],
        finished: Callable[[Any], None] = lambda _: None,
        working: Callable[[], None] = lambda: None,
    ) -> list[Any]:
        """Return the outcome of each of these orders; only of those that have a result, if the run
        is stopped. `finished` receives each result as it comes, `working` is called while there is
        none. Results of one table are committed together. Raises RetryLater, Stopped."""
        broken = self._run_tasks(orders, finished, working)
        sent = [one for one in orders if one.task_id not in broken]
        return [
            *(one for one in broken.values() if one),
            *self._wait_for_events(sent, ends_order, finished),
        ]

    @property
    def is_stopping(self) -> bool:
        """Return whether no new work may begin."""
        return self._stopping()

    def commit(self, results: Sequence[RewriteFinished]) -> list[Any]:
        """Return the events of results of another process's tasks."""
        for result in results:
            self._publisher.publish(RESULTS, result.table.key, result)
        return self._wait_for_events(results, _is_event_of, lambda _: None)

    def _run_tasks(
        self,
        orders: Sequence[Order],
        finished: Callable[[Any], None],
        working: Callable[[], None],
    ) -> dict[str, TaskFailed | None]:
        """Return, by id, the tasks that have left no result on its topic: with their failure, or
        None if the run was stopped. Then tasks clear away what they have written, if they have not
        just ended.

        A task whose table another one holds is begun again when one has ended."""
        running = {self._executor.submit(self._tasks.handle, one): one for one in orders}
        broken, held, tries = dict[str, TaskFailed | None](), list[Order](), 0
        given_up = False
        while running or held:
            done, _ = wait(running, STEP_S, FIRST_COMPLETED)
            one_ended = False
            self._report_results(finished)
            working()
            for future in done:
                order = running.pop(future)
                error = None if future.cancelled() else future.exception()
                if isinstance(error, Busy) and tries < MAX_BUSY:
                    held.append(order)
                    continue
                tries, one_ended = 0, True
                if future.cancelled() or (error is not None and self._stopping()):
                    broken[order.task_id] = None
                elif isinstance(error, Exception):
                    broken[order.task_id] = failure_of(order, CALLER, "worker_error", error)
                elif error is not None:
                    raise error
            if self._stopping() and not given_up:
                given_up = True
                for future in running:
                    future.cancel()
                self._cancel()
            if self._stopping():
                broken |= dict.fromkeys(one.task_id for one in held)
                held = []
            if held and (one_ended or not running):
                tries += not running
                running |= {self._executor.submit(self._tasks.handle, one): one for one in held}
                held = []
        return broken

    def _report_results(self, finished: Callable[[Any], None]) -> None:
        for delivery in self._results.poll(0):
            finished(delivery.record)
            self._results.mark_done(delivery)

    def _wait_for_events(
        self,
        wanted: Sequence[Any],
        ends: Callable[[Any, Any], bool],
        finished: Callable[[Any], None],
    ) -> list[Any]:
        """Return the event that ends each of `wanted`; `ends` recognises it. Written outputs are
        committed even if the run is stopped: that takes a second. Raises Stopped if it takes too
        long."""
        open_, found, until_s = list(wanted), list[Any](), None
        while open_:
            self._pump.step(STEP_S)
            self._report_results(finished)
            for delivery in self._events.poll(0):
                ended = next((one for one in open_ if ends(delivery.record, one)), None)
                if ended is not None:
                    open_.remove(ended)
                    found.append(delivery.record)
                self._events.mark_done(delivery)
            if open_ and self._pump.is_idle:  # nothing is left that could still bring an event
                return [*found, *(self._failure_of_rejected(one) for one in open_)]
            if open_ and self._stopping():
                until_s = until_s or time.monotonic() + GRACE_S
                if time.monotonic() > until_s:
                    raise RunStopped
            if open_:
                time.sleep(STEP_S)
        return found

    def _failure_of_rejected(self, order: Any) -> TaskFailed:
        """Return the failure of a task whose result is in the dead letters, with the reason from
        there."""
        letters = [delivery.record for delivery in self._letters.poll(0)]
        why = "; ".join(f"{one.reason}: {one.message}" for one in letters)
        text = f"its result could not be used: {why or 'nothing came of it'}"
        return failure_of(order, CALLER, "worker_error", PoisonousRecord("unusable", text))

    def read_back(self) -> list[Any]:
        """Compare the rows of the commits made since, through Iceberg's own reader. Return the
        outcomes; none if the run is stopped."""
        if self._stopping():
            return []
        found = list[Any]()
        for delivery in self._comparisons.poll(0):
            found.append(self._tasks.run(delivery.record))
            self._comparisons.mark_done(delivery)
        return found


def _is_event_of(event: Any, result: RewriteFinished) -> bool:
    """Return True if the event has the task id of the result."""
    return getattr(event, "task_id", None) == result.task_id
