"""Poll, handle, flush, commit: each table in its order, a stuck one alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from firnline_adapters import metrics
from firnline_adapters.dead_letters import dead_letter_of, send_to_dead_letters
from firnline_adapters.logs import Log
from firnline_adapters.retry_queue import FailureLog, RetryQueue
from firnline_domain.errors import PoisonousRecord, RetryLater
from firnline_domain.ports import Delivery, Inbox, Publisher
from firnline_domain.records.events import FilesChanged, TableCommitted

from firnline_enricher.handlers import Handlers

FILE_CHANGES = "file-changes"
MAX_WAITING = 20_000  # records, about 40 MB; beyond, restart from the committed offsets
SLICE = 50  # deliveries of one table between two flushes
MAX_AT_ONCE = 400  # of all


class Pump:
    """Carries deliveries from an inbox through the handlers to a publisher."""

    def __init__(
        self,
        inbox: Inbox,
        publisher: Publisher,
        handlers: Handlers,
        log: Log,
        now: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        """`now`: seconds of a clock that is never set, or a jump would stop a table, or end its
        patience. `now_ms`: dates what is published."""
        self._inbox = inbox
        self._publisher = publisher
        self._handlers = handlers
        self._log = log
        self._now = now
        self._now_ms = now_ms
        self._failures = FailureLog(log)
        self._queues: dict[tuple[str, int, str], RetryQueue] = {}

    def step(self, timeout_s: float) -> None:
        """One round. Offsets commit only after what they led to is on the broker.

        Raises RetryLater where the broker does not take records, or too many wait: start anew.
        """
        for delivery in self._inbox.poll(timeout_s):
            self._enqueue(delivery)
        handled = self._run_some()
        if handled:
            self._publisher.flush()
            for delivery in handled:
                self._inbox.done(delivery)
            self._inbox.commit()
        if (waiting := sum(len(queue.waiting) for queue in self._queues.values())) > MAX_WAITING:
            raise RetryLater(f"{waiting} records wait for catalog or storage")

    def _enqueue(self, delivery: Delivery) -> None:
        if isinstance(delivery.record, TableCommitted):
            age_s = (self._now_ms() - delivery.record.committed_at_ms) / 1000
            metrics.observe("event_lag_seconds", age_s)
        self._handlers.follow(delivery)
        place = (delivery.topic, delivery.partition, _table(delivery))
        self._queues.setdefault(place, RetryQueue()).waiting.append(delivery)

    def _run_some(self) -> list[Delivery]:
        """Tables take turns; so much that what was sent is soon on the broker."""
        handled: list[Delivery] = []
        for place in list(self._queues):
            if len(handled) >= MAX_AT_ONCE:
                break
            queue = self._queues.pop(place)
            handled += self._run(queue)
            if queue.waiting:
                self._queues[place] = queue  # behind the others
        return handled

    def _run(self, queue: RetryQueue) -> list[Delivery]:
        handled: list[Delivery] = []
        while queue.waiting and len(handled) < SLICE and queue.not_before <= self._now():
            if self._handle(queue.waiting[0], queue):
                queue.progressed()
                handled.append(queue.waiting.popleft())
        return handled

    def _handle(self, delivery: Delivery, queue: RetryQueue) -> bool:
        """False: not now, the queue pauses."""
        started = self._now()
        try:
            changes = self._handlers.handle(delivery)
            self._publish(changes)
            self._log_changes(delivery, changes)
        except RetryLater as error:
            metrics.count("dependency_errors", dependency=error.dependency)
            self._failures.retry(delivery.record.table.dotted, error, self._now())
            if not queue.back_off(self._now(), error):
                return False
            self._give_up(delivery, "out_of_patience", error)
        except PoisonousRecord as poison:
            self._log.warning("dead_letter", topic=delivery.topic, why=poison)
            self._give_up(delivery, poison.reason, poison)
        except Exception as error:  # one unreadable table must not stop the others
            self._log.error("unreadable", error, table=delivery.record.table.dotted)
            self._give_up(delivery, "unreadable", error)
        metrics.observe("enrich_seconds", self._now() - started)
        return True

    def _log_changes(self, delivery: Delivery, changes: Sequence[FilesChanged]) -> None:
        self._log.info(
            "enriched" if isinstance(delivery.record, TableCommitted) else "resynced",
            table=delivery.record.table.dotted,
            snapshots=",".join(dict.fromkeys(str(c.snapshot_id or "-") for c in changes)) or "-",
            partitions=sum(len(change.partitions) for change in changes),
        )

    def _publish(self, changes: Sequence[FilesChanged]) -> None:
        for change in changes:
            self._publisher.publish(FILE_CHANGES, change.table.key, change)

    def _give_up(self, delivery: Delivery, reason: str, error: Exception) -> None:
        """The record is told without its files; the planner asks again later."""
        at_ms = self._now_ms()
        send_to_dead_letters(
            self._publisher, dead_letter_of(delivery, reason, error, "enricher", at_ms)
        )
        self._publish(self._handlers.without_files(delivery.record))


def _table(delivery: Delivery) -> str:
    """Whose records stay in their order; what is of no table, in one of its own."""
    return str(getattr(getattr(delivery.record, "table", None), "uuid", ""))
