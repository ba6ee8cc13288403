"""The poll loop: it never blocks, however long a task runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import PoisonousRecord, RetryLater
from firnline_domain.policy.fleet.lanes import Lane, LaneRotation, lane_at
from firnline_domain.ports import Delivery, Inbox
from firnline_domain.records.orders import TaskOrder

from firnline_worker.host.leases import Busy, Progress

IDLE_S, BUSY_S = 0.5, 0.1  # how long a poll may wait for records
AGAIN_S = 3.0  # until a task whose lease another worker has is tried again
MAX_INTERRUPTIONS = 5  # of one order, which is put aside then: it holds back its partition


@dataclass
class TaskLoop:
    """A loop that takes orders, runs several at once, and commits offsets at the low watermark. A
    delivery is done when `work` has returned: its result is then on its topic. Deliveries that are
    not done when the process ends are read again by the partition's next owner."""

    inbox: Inbox
    executor: Executor
    work: Callable[[Any], None]
    max_running: int
    log: Log
    after_poll: Callable[[], None] = lambda: None
    now: Callable[[], float] = time.monotonic
    dead_letter: Callable[[Delivery, Exception], None] = lambda *_: None  # to `dead-letters`
    read_progress: Callable[[Sequence[TaskOrder]], Sequence[Progress]] = lambda orders: (
        [Progress.NEW] * len(orders)
    )
    max_running_heavy: int = 1
    turns: LaneRotation = field(default_factory=LaneRotation)
    _interrupted: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    _waiting: list[tuple[float, Delivery]] = field(default_factory=list)
    _begun: dict[str, int] = field(default_factory=dict)  # of tables that wait: the last beginning
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _running: dict[Future[None], Delivery] = field(default_factory=dict)

    def run(self, stopping: Callable[[], bool]) -> None:
        while not stopping():
            self.poll_once(BUSY_S if self._running else IDLE_S)

    def poll_once(self, timeout_s: float) -> None:
        """Read orders, start tasks while there is room, finish those that ended, commit offsets."""
        self._accept(self.inbox.poll(timeout_s))
        self._start_tasks()
        self.settle()

    def settle(self) -> None:
        """Finish the tasks that have ended; renew the leases of the others."""
        for future in [future for future in self._running if future.done()]:
            self._finish_task(self._running.pop(future), future)
        self._commit_offsets()
        self.after_poll()
        metrics.gauge("tasks_running", len(self._running))

    def _commit_offsets(self) -> None:
        try:
            self.inbox.commit()
        except RetryLater as later:  # the broker is away; the next poll commits
            self.log.warning("commit_later", why=later)

    @property
    def running_count(self) -> int:
        return len(self._running)

    def _accept(self, deliveries: Sequence[Delivery]) -> None:
        """Take orders in. Of those that a worker left unfinished, what had begun goes first, and
        what has its result is done: of a partition taken over it may be dozens."""
        orders = [one for one in deliveries if isinstance(one.record, TaskOrder)]
        for delivery in deliveries:
            if not isinstance(delivery.record, TaskOrder):
                self._refuse(delivery)
        known = self.read_progress([one.record for one in orders]) if orders else ()
        for delivery, progress in zip(orders, known, strict=True):
            match progress:
                case Progress.NEW:
                    self._waiting.append((self.now(), delivery))
                case Progress.BEGUN:
                    self._put_first(self.now(), delivery)
                case Progress.FINISHED:
                    self.log.info("task_known", task=delivery.record.task_id)
                    self.inbox.mark_done(delivery)

    def _refuse(self, delivery: Delivery) -> None:
        kind = type(delivery.record).__name__
        self.log.warning("not_an_order", topic=delivery.topic, offset=delivery.offset)
        self._give_up(delivery, PoisonousRecord("unexpected_record", kind))

    def _put_first(self, at: float, delivery: Delivery) -> None:
        """Let an order that had its turn be the next to start, from `at` on."""
        self._waiting.insert(0, (at, delivery))
        self._begun[_table_key(delivery)] = 0

    def _start_tasks(self) -> None:
        """Start tasks while there is room. On each lane tables alternate, as one table may have a
        hundred orders; a table's orders start in the order of arrival, but those that wait for a
        lease are passed over."""
        while len(self._running) < self.max_running:
            first = self._next_by_lane()
            lane = self.turns.next_lane(first)
            if lane is None:
                return
            self._waiting.remove(first[lane])
            _, delivery = first[lane]
            self._begun = {
                table: self._begun.get(table, 0) for table in map(_table_key, self._waiting_orders)
            }
            self._begun[_table_key(delivery)] = next(self._numbers)
            self._running[self.executor.submit(self.work, delivery.record)] = delivery

    def _next_by_lane(self) -> dict[Lane, tuple[float, Delivery]]:
        """Return the order to start next, by lane."""
        now, found = self.now(), dict[Lane, tuple[float, Delivery]]()
        for item in self._waiting:
            lane = lane_at(item[1].topic)
            if item[0] <= now and (lane not in found or self._goes_before(item[1], found[lane][1])):
                found[lane] = item
        lanes = [lane_at(one.topic) for one in self._running.values()]
        if lanes.count(Lane.HEAVY) >= self.max_running_heavy:
            found.pop(Lane.HEAVY, None)
        return found

    def _goes_before(self, delivery: Delivery, other: Delivery) -> bool:
        return self._begun.get(_table_key(delivery), 0) < self._begun.get(_table_key(other), 0)

    @property
    def _waiting_orders(self) -> Iterator[Delivery]:
        return (delivery for _, delivery in self._waiting)

    def _finish_task(self, delivery: Delivery, future: Future[None]) -> None:
        error = future.exception()
        if error is None:
            self.inbox.mark_done(delivery)
            return
        again_at = self.now() + AGAIN_S
        if isinstance(error, Busy):  # of a worker that died, mostly
            self._put_first(again_at, delivery)
            return
        self.log.error("work_interrupted", error, offset=delivery.offset)
        place = (delivery.topic, delivery.partition, delivery.offset)
        self._interrupted[place] += 1
        if self._interrupted[place] >= MAX_INTERRUPTIONS and isinstance(error, Exception):
            del self._interrupted[place]
            self._give_up(delivery, error)
            return
        self._waiting.append((again_at, delivery))

    def _give_up(self, delivery: Delivery, error: Exception) -> None:
        self.dead_letter(delivery, error)
        self.inbox.mark_done(delivery)


def _table_key(delivery: Delivery) -> str:
    key: str = delivery.record.table.key
    return key
