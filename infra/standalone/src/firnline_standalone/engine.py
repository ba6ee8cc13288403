"""A worker and a committer over topics in memory: an order goes in, its events come out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass
from typing import Any

from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_adapters.logs import Log
from firnline_committer.bootstrap import GROUP, TOPICS
from firnline_committer.handlers import Handlers as CommitHandlers
from firnline_committer.pump import COMPARISONS, EVENTS, Pump
from firnline_committer.sweeping import Sweeps
from firnline_domain.records.orders import TaskOrder
from firnline_worker.handlers import RESULTS
from firnline_worker.handlers import Handlers as TaskHandlers

STEP_S = 0.05
GRACE_S = 30.0  # for the commit of a run that is told to stop
CALLER = "run"  # the consumer group of who asks what came of it


class Stopped(Exception):
    """The run was told to end: what was under way has been cleared away, or is committed, or is on
    a write-ahead list, where the catalog did not answer."""


@dataclass(frozen=True)
class Topics:
    """All that worker and committer say to each other and to the run."""

    broker: MemoryBroker

    @classmethod
    def fresh(cls) -> Topics:
        """One partition: there is no other process to share with."""
        return cls(MemoryBroker(1))

    def inbox(self, group: str, *topics: str) -> MemoryInbox:
        """A reader, from the beginning."""
        return MemoryInbox(self.broker, group, topics)

    @property
    def publisher(self) -> MemoryPublisher:
        """A writer."""
        return MemoryPublisher(self.broker, service="standalone")


class Engine:
    """Carries orders out. `stopping`: asked between steps; then nothing more is begun, and what
    runs is given up by `cancel`."""

    def __init__(
        self,
        tasks: TaskHandlers,
        commits: CommitHandlers,
        topics: Topics,
        executor: Executor,
        log: Log,
        sweeps: Sweeps | None = None,
        share: float = 0.0,
        stopping: Callable[[], bool] = lambda: False,
        cancel: Callable[[], None] = lambda: None,
        progress: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        """`progress`: groups that are done, and all of the tasks that run."""
        self._tasks = tasks
        self._executor = executor
        self._stopping = stopping
        self._cancel = cancel
        self.progress = progress
        self._results = topics.inbox(CALLER, RESULTS)
        self._events = topics.inbox(CALLER, EVENTS)
        self._comparisons = topics.inbox("worker", COMPARISONS)
        self._publisher = topics.publisher
        self._pump = Pump(
            topics.inbox(GROUP, *TOPICS),
            topics.publisher,
            commits,
            log,
            sweeps=sweeps,
            share=share,
        )

    def carry_out(
        self,
        orders: Sequence[TaskOrder],
        finished: Callable[[Any], None] = lambda _: None,
        working: Callable[[], None] = lambda: None,
    ) -> list[Any]:
        """The events of these orders; of those alone that came to a result, if the run is told to
        stop. `finished` is told of each result as it comes, `working` is called while there is
        none. Results of one table are committed together. Raises RetryLater, Stopped."""
        running = {self._executor.submit(self._tasks.handle, one): one for one in orders}
        ended = self._wait(running, finished, working)
        return self._settled({running[one].task_id for one in ended}, finished)

    @property
    def is_stopping(self) -> bool:
        """Whether nothing more is to be begun."""
        return self._stopping()

    def commit(self, results: Sequence[Any]) -> list[Any]:
        """The events of results of somebody else's tasks."""
        for result in results:
            self._publisher.publish(RESULTS, result.table.key, result)
        return self._settled({result.task_id for result in results}, lambda _: None)

    def _wait(
        self,
        running: Iterable[Future[None]],
        finished: Callable[[Any], None],
        working: Callable[[], None],
    ) -> set[Future[None]]:
        """Those that came to a result. Told to stop, tasks clear away what they have written, if
        they have not just ended."""
        left, ended, given_up = set(running), set[Future[None]](), False
        while left:
            done, left = wait(left, STEP_S)
            self._tell(finished)
            working()
            ended |= {one for one in done if not one.cancelled()}
            if self._stopping() and not given_up:
                given_up = True
                for one in left:
                    one.cancel()
                self._cancel()
        if given_up:
            return {one for one in ended if one.exception() is None}
        for one in ended:
            one.result()
        return ended

    def _tell(self, finished: Callable[[Any], None]) -> None:
        for delivery in self._results.poll(0):
            finished(delivery.record)
            self._results.done(delivery)

    def _settled(self, wanted: set[str], finished: Callable[[Any], None]) -> list[Any]:
        """Until each task has its event. What is written is committed, also by a run that is told
        to stop: that takes a second. Raises Stopped where it takes too long."""
        events, until_s = list[Any](), None
        while wanted:
            self._pump.step(STEP_S)
            self._tell(finished)
            for delivery in self._events.poll(0):
                events.append(delivery.record)
                wanted.discard(getattr(delivery.record, "task_id", ""))
                self._events.done(delivery)
            if wanted and self._stopping():
                until_s = until_s or time.monotonic() + GRACE_S
                if time.monotonic() > until_s:
                    raise Stopped
            if wanted:
                time.sleep(STEP_S)
        return events

    def read_back(self) -> list[Any]:
        """What Iceberg's own reader finds of the commits since; nothing, if the run is told to
        stop."""
        if self._stopping():
            return []
        found = list[Any]()
        for delivery in self._comparisons.poll(0):
            found.append(self._tasks.run(delivery.record))
            self._comparisons.done(delivery)
        return found
