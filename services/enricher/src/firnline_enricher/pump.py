"""Poll, read, flush, commit: each table in its order, a stuck one alone.

One thread polls, publishes and commits offsets. Others read: commits, one table each, and questions
of planners, which may need a whole table.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile

from firnline_adapters import clock
from firnline_adapters.consumer.retry_queue import FailureLog, RetryQueue
from firnline_adapters.consumer.threads import Inline, Pool
from firnline_adapters.kafka.dead_letters import dead_letter_of, send_to_dead_letters
from firnline_adapters.kafka.poison_records import died_at
from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_adapters.observability.traces import following, trace_of
from firnline_domain.errors import PoisonousRecord, RetryLater
from firnline_domain.identity import TableName
from firnline_domain.ports import Delivery, Inbox, Place, Publisher
from firnline_domain.records.events import FilesChanged, TableCommitted
from firnline_domain.records.orders import ResyncTable

from firnline_enricher.handlers import EnricherHandlers
from firnline_enricher.unread_tables import PROBE_S, UnreadTables

FILE_CHANGES = "file-changes"
RESYNC_REQUESTS = "resync-requests"
READERS = 8  # commits that are read at once, without those that take longer than SLOW_S
SLOW_READERS = 24  # of those: one that hangs for 30 s rests for 10 min, so 480 such tables
CATALOG_SHARE = 3  # threads of one catalog for each free one; of one store there is one
ANSWERERS = 2  # threads for questions; one may be at work on a table of millions of files
WAIT_S = 0.02  # for a thread to end
PATIENCE_S = 60.0  # a restart of a catalog, a throttled bucket; then its planner is to ask
SLOW_S = 5.0  # a try that failed after so long is the last one: it holds a thread
MAX_HELD = 1_000  # records of a table that fails, 2 MB
MAX_OF_PARTITION = 2_000  # records; beyond, the partition is read no further for now
SLICE = 50  # deliveries of one table that a thread reads
MAX_AT_ONCE = 400  # of all, between two flushes
LOOK_AT = 300  # tables, for those that can be read now
NO_OFFSET = -1  # of a question that was kept: on its topic it is dealt with
TablePlace = tuple[str, int, str]  # a partition of a topic, and the key of a table
Source = tuple[str, str]  # a catalog, and a store


@dataclass(frozen=True)
class _Read:
    """A delivery that was read, and what came of it."""

    delivery: Delivery
    found: list[FilesChanged] | Exception
    took_s: float

    @property
    def changes(self) -> list[FilesChanged]:
        """Raises what reading has raised."""
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@dataclass(frozen=True, eq=False)
class _Reading:
    """Deliveries of one table in a thread of the pool. `queue`: None for a question. `reads`: those
    read until now."""

    delivery: Delivery  # the first
    place: TablePlace
    queue: RetryQueue | None
    started: float
    reads: list[_Read]
    future: Future[None]

    def current_s(self, now: float) -> float:
        """Return for how long the current delivery has been read."""
        return now - self.started - sum(one.took_s for one in self.reads)


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
    ) -> None:
        """Connect the handlers with the topics. `now`: seconds of a monotonic clock: a jump would
        block a table, or end its patience. `now_ms`: dates what is published. `pool`: has a thread
        for each reader and answerer."""
        self._inbox = inbox
        self._publisher = publisher
        self._handlers = handlers
        self._log = log
        self._now = now
        self._now_ms = now_ms
        self._pool = pool or Inline()
        self._failures = FailureLog(log, PROBE_S)
        self._queues: dict[TablePlace, RetryQueue] = {}
        self._questions: deque[Delivery] = deque()
        self._readings: list[_Reading] = []
        self._unread = UnreadTables(now)

    def step(self, timeout_s: float) -> None:
        """Run one round. Offsets are committed only after the records they led to are on the
        broker. Raises RetryLater if the broker does not take records: restart."""
        full = self._full_partitions()
        deliveries = self._inbox.poll(WAIT_S if self._readings else timeout_s, full)
        self._drop_partitions(self._inbox.take_moved())
        for delivery in deliveries:
            self._enqueue(delivery)
        handled: list[Delivery] = []
        while len(handled) < MAX_AT_ONCE:
            settled = self._run_queues(full) + self._start_answers()
            ended = self._take_ended()
            for reading in ended:
                settled += self._settle_reading(reading)
            handled += settled
            if not ended and not settled:
                break
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
        self._queues.setdefault(_place_of(delivery), RetryQueue()).waiting.append(delivery)

    # ---- in work

    def _read_in_order(self, deliveries: Sequence[Delivery], reads: list[_Read]) -> None:
        """Read deliveries of one table, in a thread of the pool, up to one that must be retried."""
        for delivery in deliveries:
            started = self._now()
            with following(trace_of(delivery.record)):
                try:
                    found: list[FilesChanged] | Exception = self._handlers.handle(delivery)
                except Exception as error:
                    found = error
            reads.append(_Read(delivery, found, self._now() - started))
            if isinstance(found, RetryLater):
                return

    def _start_reading(self, deliveries: Sequence[Delivery], queue: RetryQueue | None) -> None:
        reads: list[_Read] = []
        started, place = self._now(), _place_of(deliveries[0])
        future = self._pool.submit(partial(self._read_in_order, deliveries, reads))
        self._readings.append(_Reading(deliveries[0], place, queue, started, reads, future))

    def _take_ended(self) -> list[_Reading]:
        wait([one.future for one in self._readings], WAIT_S, FIRST_COMPLETED)
        ended = [one for one in self._readings if one.future.done()]
        self._readings = [one for one in self._readings if one not in ended]
        return ended

    def _settle_reading(self, reading: _Reading) -> list[Delivery]:
        """Publish what was read. Return the settled deliveries."""
        reading.future.result()
        if reading.queue is None:
            self._publish_answer(reading.reads[0])
            return [reading.delivery]
        if self._queues.get(reading.place) is not reading.queue:
            return []  # its partition has moved, or its records were put off
        queue, reads = reading.queue, reading.reads
        return [self._pop_first(queue) for read in reads if self._settle_commit(read, queue)]

    # ---- commits

    def _run_queues(self, full: Collection[Place]) -> list[Delivery]:
        """Start reading commits, tables in turn. Return the deliveries that are settled unread."""
        settled: list[Delivery] = []
        for place in list(islice(self._queues, LOOK_AT)):
            queue = self._queues.pop(place)
            reading = next((one for one in self._readings if one.place == place), None)
            took_s = 0.0 if reading is None else reading.current_s(self._now())
            if place[:2] in full and (queue.is_failing or took_s > SLOW_S):
                settled += self._put_all_off(queue, took_s)  # others of its partition wait for it
            elif reading is None and queue.not_before <= self._now():
                settled += self._run_queue(queue)
            if queue.waiting:
                self._queues[place] = queue  # behind the others
        return settled

    def _run_queue(self, queue: RetryQueue) -> list[Delivery]:
        """Settle the deliveries that need no reading, and start reading the next ones."""
        settled: list[Delivery] = []
        while queue.waiting and len(settled) < SLICE and self._settle_unread(queue):
            settled.append(self._pop_first(queue))
        if queue.waiting and not settled and self._may_read(queue.waiting[0]):
            batch = islice(queue.waiting, SLICE)
            self._start_reading([*takewhile(lambda one: not died_at(one.deaths), batch)], queue)
        return settled

    def _settle_unread(self, queue: RetryQueue) -> bool:
        """Settle the first delivery if it is not to be read. Return whether it is settled."""
        delivery, table = queue.waiting[0], queue.waiting[0].record.table
        if deadly := died_at(delivery.deaths):
            self._give_up(delivery, deadly)
            return True
        if not self._unread.is_resting(table):
            return False
        if table not in self._unread and len(queue.waiting) <= MAX_HELD:
            return False  # its catalog rests for a moment
        self._publish_changes(self._handlers.unread_changes(delivery.record))
        return True

    def _may_read(self, delivery: Delivery) -> bool:
        """Return whether a thread may read the table of a commit now. A store has as many threads
        as it leaves to others, and a slow read counts only for its own store and catalog: those
        that hang do not use up the threads."""
        if self._unread.is_resting(delivery.record.table):
            return False
        commits = [one for one in self._readings if one.queue is not None]
        sources = [_source_of(one.delivery) for one in commits]
        now, source = self._now(), _source_of(delivery)
        slow = sum(one.current_s(now) > SLOW_S for one in commits)
        if slow >= SLOW_READERS:
            return False
        free = READERS - (len(commits) - slow)
        of_catalog = sum(catalog == source[0] for catalog, _ in sources)
        most = 1 if self._unread.is_away(delivery.record.table) else CATALOG_SHARE * free
        of_store = sources.count(source)
        return of_store < min(free, READERS - of_store) and of_catalog < most

    def _settle_commit(self, read: _Read, queue: RetryQueue) -> bool:
        """Publish what a commit has changed. Return False if it must be retried later; its queue
        pauses."""
        with following(trace_of(read.delivery.record)):
            return self._settle_followed(read, queue)

    def _settle_followed(self, read: _Read, queue: RetryQueue) -> bool:
        delivery, table = read.delivery, read.delivery.record.table
        try:
            self._publish_changes(read.changes)
            self._log_changes(delivery, read.changes)
            self._unread.note_success(table)
        except RetryLater as error:
            self._note_outage(table, error)
            is_over = queue.back_off(self._now(), error, PATIENCE_S)
            is_over |= len(queue.waiting) > MAX_HELD or read.took_s > SLOW_S
            if not is_over and table not in self._unread:
                return False
            self._put_off(delivery, error, read.took_s)
        except Exception as error:  # one unreadable table must not stop the others
            self._give_up(delivery, error)
        metrics.observe("enrich_seconds", read.took_s)
        return True

    def _pop_first(self, queue: RetryQueue) -> Delivery:
        queue.reset_back_off()
        return queue.waiting.popleft()

    def _put_all_off(self, queue: RetryQueue, took_s: float) -> list[Delivery]:
        """Postpone all deliveries that wait in the queue, without another try. Return them. If a
        thread still reads some, its result is not used."""
        put_off = list(queue.waiting)
        for delivery in put_off:
            why = RetryLater("more of its partition waits than there is room for")
            self._put_off(delivery, why, took_s)
        queue.waiting.clear()
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
        """Start answers of waiting questions, in order and one of a table at a time. Return the
        settled ones: those that wait for their table. Of a table the last question is kept and
        tried from time to time."""
        settled: list[Delivery] = []
        busy = {one.delivery.record.table.key for one in self._readings}
        while self._may_try() and (question := self._unread.next_question(busy)):
            self._start_reading([Delivery(RESYNC_REQUESTS, 0, NO_OFFSET, None, question)], None)
            busy.add(question.table.key)
        later: deque[Delivery] = deque()
        while self._questions and len(self._find_answering()) < ANSWERERS:
            delivery = self._questions.popleft()
            table = delivery.record.table
            rests = self._unread.is_resting(table)
            if deadly := died_at(delivery.deaths):
                self._give_up(delivery, deadly)
                settled.append(delivery)
            elif rests and table in self._unread:
                self._unread.keep_question(delivery.record)
                settled.append(delivery)
            elif rests or table.key in busy:
                later.append(delivery)
            else:
                self._start_reading([delivery], None)
                busy.add(table.key)
        self._questions.extendleft(reversed(later))
        return settled

    def _find_answering(self) -> list[Delivery]:
        return [one.delivery for one in self._readings if one.queue is None]

    def _may_try(self) -> bool:
        """Return whether a table that could not be read may be tried. One answerer is left to all
        other tables: a try takes as long as its storage hangs."""
        answering = self._find_answering()
        tries = sum(one.offset == NO_OFFSET for one in answering)
        return len(answering) < ANSWERERS and tries < ANSWERERS - 1

    def _publish_answer(self, read: _Read) -> None:
        question = read.delivery.record
        try:
            self._publish_changes(read.changes)
            self._log_changes(read.delivery, read.changes)
            self._unread.note_success(question.table)
        except RetryLater as error:
            self._note_outage(question.table, error)
            self._unread.note_failure(question.table)
            self._unread.keep_question(question)
        except Exception as error:
            self._give_up(read.delivery, error)

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


def _place_of(delivery: Delivery) -> TablePlace:
    """Return the table whose records stay in order; records without a table share one place."""
    key = str(getattr(getattr(delivery.record, "table", None), "key", ""))
    return delivery.topic, delivery.partition, key


def _source_of(delivery: Delivery) -> Source:
    """Return where a record's table is read: its catalog, and the store of its manifest lists."""
    snapshots = delivery.record.snapshots if isinstance(delivery.record, TableCommitted) else ()
    lists = "".join(one.manifest_list for one in snapshots[-1:])
    return delivery.record.table.catalog_path, "/".join(lists.split("/")[:3])
