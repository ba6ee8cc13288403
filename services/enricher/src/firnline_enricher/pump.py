"""Poll, handle, flush, commit: each table in its order, a stuck one alone.

Commits are read on the loop's own thread, which takes what the commit wrote. Questions of planners
may read a whole table, so others answer them.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from firnline_adapters import clock
from firnline_adapters.consumer.retry_queue import FailureLog, RetryQueue
from firnline_adapters.consumer.threads import Inline, Pool
from firnline_adapters.kafka.dead_letters import dead_letter_of, send_to_dead_letters
from firnline_adapters.kafka.poison_records import died_at
from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import PoisonousRecord, RetryLater
from firnline_domain.identity import TableName
from firnline_domain.ports import Delivery, Inbox, Place, Publisher
from firnline_domain.records.events import FilesChanged, TableCommitted
from firnline_domain.records.orders import ResyncTable

from firnline_enricher.handlers import EnricherHandlers
from firnline_enricher.unread_tables import PROBE_S, UnreadTables

FILE_CHANGES = "file-changes"
RESYNC_REQUESTS = "resync-requests"
PATIENCE_S = 60.0  # a restart of a catalog, a throttled bucket; then its planner is to ask
SLOW_S = 5.0  # a try that failed after so long is the last one: all others wait meanwhile
MAX_HELD = 1_000  # records of a table that fails, 2 MB
MAX_OF_PARTITION = 2_000  # records; beyond, the partition is read no further for now
SLICE = 50  # deliveries of one table between two flushes
MAX_AT_ONCE = 400  # of all
NO_OFFSET = -1  # of a question that was kept: on its topic it is dealt with


@dataclass(frozen=True, eq=False)
class _Answering:
    """A question in a thread of the pool."""

    delivery: Delivery
    answerer: EnricherHandlers
    future: Future[list[FilesChanged]]


class EnricherPump:
    """Carries deliveries from an inbox through the handlers to a publisher."""

    def __init__(
        self,
        inbox: Inbox,
        publisher: Publisher,
        handlers: EnricherHandlers,
        log: Log,
        now: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = clock.now_ms,
        pool: Pool | None = None,
        answerers: Sequence[EnricherHandlers] = (),
    ) -> None:
        """Connect the handlers with the topics. `now`: seconds of a monotonic clock: a jump would
        block a table, or end its patience. `now_ms`: dates what is published. `answerers`: one for
        each thread of the `pool`; none = questions are answered like commits."""
        self._inbox = inbox
        self._publisher = publisher
        self._handlers = handlers
        self._log = log
        self._now = now
        self._now_ms = now_ms
        self._pool = pool or Inline()
        self._idle = list(answerers) or [handlers]
        self._answerers = len(self._idle)
        self._failures = FailureLog(log, PROBE_S)
        self._queues: dict[tuple[str, int, str], RetryQueue] = {}
        self._questions: deque[Delivery] = deque()
        self._answering: list[_Answering] = []
        self._unread = UnreadTables(now)

    def step(self, timeout_s: float) -> None:
        """Run one round. Offsets are committed only after the records they led to are on the
        broker. Raises RetryLater if the broker does not take records: restart."""
        full = self._full_partitions()
        deliveries = self._inbox.poll(timeout_s, full)
        self._drop_partitions(self._inbox.take_moved())
        for delivery in deliveries:
            self._enqueue(delivery)
        handled = self._run_some(full)
        while (ended := self._start_answers() + self._collect_answers()) and (
            len(handled) < MAX_AT_ONCE
        ):
            handled += ended
        handled += ended
        if handled:
            self._publisher.flush()
            for delivery in handled:
                if delivery.offset != NO_OFFSET:
                    self._inbox.mark_done(delivery)
            self._inbox.commit()

    # ---- in

    def _full_partitions(self) -> Collection[Place]:
        """Return the partitions with enough waiting records; the others are read on."""
        held = Counter((one.topic, one.partition) for one in self._questions)
        for (topic, partition, _), queue in self._queues.items():
            held[topic, partition] += len(queue.waiting)
        return {place for place, count in held.items() if count >= MAX_OF_PARTITION}

    def _drop_partitions(self, places: Collection[Place]) -> None:
        """Drop the waiting records of partitions; their new owner reads them."""
        if places:
            queues = self._queues.items()
            self._queues = {place: one for place, one in queues if place[:2] not in places}
            left = (one for one in self._questions if (one.topic, one.partition) not in places)
            self._questions = deque(left)

    def _enqueue(self, delivery: Delivery) -> None:
        self._handlers.follow_offsets(delivery)
        if isinstance(delivery.record, ResyncTable):
            self._questions.append(delivery)
            return
        if isinstance(delivery.record, TableCommitted):
            age_s = (self._now_ms() - delivery.record.committed_at_ms) / 1000
            metrics.observe("event_lag_seconds", age_s)
        place = (delivery.topic, delivery.partition, _queue_key(delivery))
        self._queues.setdefault(place, RetryQueue()).waiting.append(delivery)

    # ---- commits

    def _run_some(self, full: Collection[Place]) -> list[Delivery]:
        """Run the queues of the tables in turn, at most MAX_AT_ONCE deliveries, so that what was
        sent is soon on the broker. Return the deliveries that were handled."""
        handled: list[Delivery] = []
        for place in list(self._queues):
            if len(handled) >= MAX_AT_ONCE:
                break
            queue = self._queues.pop(place)
            if queue.is_failing and place[:2] in full:
                handled += self._put_all_off(queue)  # others of its partition wait for it
            handled += self._run_queue(queue)
            if queue.waiting:
                self._queues[place] = queue  # behind the others
        return handled

    def _run_queue(self, queue: RetryQueue) -> list[Delivery]:
        handled: list[Delivery] = []
        while queue.waiting and len(handled) < SLICE and queue.not_before <= self._now():
            if not self._handle_delivery(queue.waiting[0], queue):
                break
            queue.reset_back_off()
            handled.append(queue.waiting.popleft())
        return handled

    def _handle_delivery(self, delivery: Delivery, queue: RetryQueue) -> bool:
        """Handle a delivery. Return False if it must be retried later; its queue pauses."""
        started, table = self._now(), delivery.record.table
        if deadly := died_at(delivery.deaths):
            self._give_up(delivery, deadly)
            return True
        if self._unread.is_resting(table):
            if table not in self._unread and len(queue.waiting) <= MAX_HELD:
                return False  # its catalog rests for a moment
            self._publish_changes(self._handlers.unread_changes(delivery.record))
            return True
        try:
            changes = self._handlers.handle(delivery)
            self._publish_changes(changes)
            self._log_changes(delivery, changes)
            self._unread.note_success(table)
        except RetryLater as error:
            self._note_outage(table, error)
            is_over = queue.back_off(self._now(), error, PATIENCE_S)
            is_over |= len(queue.waiting) > MAX_HELD or self._now() - started > SLOW_S
            if not is_over and table not in self._unread:
                return False
            self._put_off(delivery, error, self._now() - started)
        except Exception as error:  # one unreadable table must not stop the others
            self._give_up(delivery, error)
        metrics.observe("enrich_seconds", self._now() - started)
        return True

    def _put_all_off(self, queue: RetryQueue) -> list[Delivery]:
        """Postpone all deliveries that wait in the queue, without another try. Return them."""
        put_off = list(queue.waiting)
        for delivery in put_off:
            self._put_off(
                delivery, RetryLater("more of its partition waits than there is room for")
            )
        queue.waiting.clear()
        queue.reset_back_off()
        return put_off

    def _put_off(self, delivery: Delivery, error: RetryLater, took_s: float = 0.0) -> None:
        """Settle a record of a table that cannot be read: the planner asks again. Each such table
        gets one dead letter."""
        if delivery.record.table not in self._unread:
            self._send_letter(delivery, "out_of_patience", error)
        self._unread.note_failure(delivery.record.table, took_s)
        self._publish_changes(self._handlers.unread_changes(delivery.record))

    # ---- questions

    def _start_answers(self) -> list[Delivery]:
        """Start answers of waiting questions on idle answerers, in order and one of a table at a
        time. Return the settled ones: those that wait for their table. Of a table the last question
        is kept and tried from time to time."""
        settled: list[Delivery] = []
        while self._may_try() and (question := self._unread.next_question()):
            self._start_answer(Delivery(RESYNC_REQUESTS, 0, NO_OFFSET, None, question))
        later: deque[Delivery] = deque()
        while self._questions and self._idle:
            delivery = self._questions.popleft()
            asked = [one.delivery.record.table for one in self._answering]
            table = delivery.record.table
            rests = self._unread.is_resting(table)
            if deadly := died_at(delivery.deaths):
                self._give_up(delivery, deadly)
                settled.append(delivery)
            elif rests and table in self._unread:
                self._unread.keep_question(delivery.record)
                settled.append(delivery)
            elif rests or table in asked:
                later.append(delivery)
            else:
                self._start_answer(delivery)
        self._questions.extendleft(reversed(later))
        return settled

    def _may_try(self) -> bool:
        """Return whether a table that could not be read may be tried. One answerer is left to all
        other tables: a try takes as long as its storage hangs."""
        tries = sum(one.delivery.offset == NO_OFFSET for one in self._answering)
        return bool(self._idle) and tries < max(self._answerers - 1, 1)

    def _start_answer(self, delivery: Delivery) -> None:
        answerer = self._idle.pop()
        future = self._pool.submit(partial(answerer.handle, delivery))
        self._answering.append(_Answering(delivery, answerer, future))

    def _collect_answers(self) -> list[Delivery]:
        ended = [one for one in self._answering if one.future.done()]
        self._answering = [one for one in self._answering if one not in ended]
        for one in ended:
            self._idle.append(one.answerer)
            self._publish_answer(one.delivery, one.future)
        return [one.delivery for one in ended]

    def _publish_answer(self, delivery: Delivery, future: Future[list[FilesChanged]]) -> None:
        question = delivery.record
        try:
            changes = future.result()
            self._publish_changes(changes)
            self._log_changes(delivery, changes)
            self._unread.note_success(question.table)
        except RetryLater as error:
            self._note_outage(question.table, error)
            self._unread.note_failure(question.table)
            self._unread.keep_question(question)
        except Exception as error:
            self._give_up(delivery, error)

    # ---- out

    def _note_outage(self, table: TableName, error: RetryLater) -> None:
        metrics.count("dependency_errors", dependency=error.dependency)
        self._failures.log_retry(table, error, self._now())
        self._unread.note_outage(table, error)

    def _log_changes(self, delivery: Delivery, changes: Sequence[FilesChanged]) -> None:
        self._log.info(
            "enriched" if isinstance(delivery.record, TableCommitted) else "resynced",
            table=delivery.record.table,
            snapshots=list(dict.fromkeys(change.snapshot_id for change in changes)),
            partitions=sum(len(change.partitions) for change in changes),
        )

    def _publish_changes(self, changes: Sequence[FilesChanged]) -> None:
        for change in changes:
            self._publisher.publish(FILE_CHANGES, change.table.key, change)

    def _give_up(self, delivery: Delivery, error: Exception) -> None:
        """Send the record to the dead letters and publish its change without files; the planner
        asks again later."""
        reason = error.reason if isinstance(error, PoisonousRecord) else "unreadable"
        self._log.error("unreadable", error, table=delivery.record.table)
        self._send_letter(delivery, reason, error)
        self._publish_changes(self._handlers.unread_changes(delivery.record))

    def _send_letter(self, delivery: Delivery, reason: str, error: Exception) -> None:
        letter = dead_letter_of(delivery, reason, error, "enricher", self._now_ms())
        send_to_dead_letters(self._publisher, letter)


def _queue_key(delivery: Delivery) -> str:
    """Return the table whose records stay in order; records without a table share one queue."""
    return str(getattr(getattr(delivery.record, "table", None), "key", ""))
