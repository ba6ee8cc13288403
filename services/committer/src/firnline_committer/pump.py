"""Poll, commit, flush, then offsets: several tables at once, each by itself, a stuck one alone.

One thread polls, publishes and commits offsets; commits and sweeps of tables are run by others, of
one table one at a time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Any

from firnline_adapters import clock
from firnline_adapters.consumer.retry_queue import FailureLog
from firnline_adapters.consumer.threads import Inline, Pool
from firnline_adapters.kafka.dead_letters import dead_letter_of, send_to_dead_letters
from firnline_adapters.kafka.poison_records import died_at
from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_domain.commits.conflicts import Conflict
from firnline_domain.errors import HeapTooSmall, PoisonousRecord, RetryLater
from firnline_domain.ports import Delivery, Inbox, PauseReader, Publisher
from firnline_domain.records.events import RewriteCommitted
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.catalogs import UnknownCatalog
from firnline_iceberg.connection.prefix import OtherPrefix
from firnline_iceberg.java.jvm import JvmEnded

from firnline_committer.background.sampled_comparison import order_comparison
from firnline_committer.background.sweeps import Sweeps
from firnline_committer.commit import events as reports
from firnline_committer.handlers import CommitterHandlers, Handled, handle_deliveries, table_of
from firnline_committer.table_queues import TableQueue, TableQueues, partition_of

EVENTS = "maintenance-events"
COMPARISONS = "compare-tasks"
NO_ROOM = "more wait than there is memory for"
POLL_S = 0.02  # while something is in work; what it came to goes out no later


@dataclass(frozen=True, eq=False)
class _Work:
    """A commit or a sweep in a thread of the pool."""

    table: str | None  # key
    future: Future[Any]
    ended: Callable[[Any], None]
    retries: bool = False  # of a table whose last attempts came to nothing
    sweeps: bool = False


class CommitterPump:
    """A pump that carries deliveries from an inbox through the handlers to a publisher."""

    def __init__(
        self,
        inbox: Inbox,
        publisher: Publisher,
        handlers: CommitterHandlers,
        log: Log,
        now: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = clock.now_ms,
        sweeps: Sweeps | None = None,
        switches: PauseReader | None = None,
        share: float = 0.0,
        gather_s: float = 0.0,
        pool: Pool | None = None,
    ) -> None:
        """Build a pump. `now`: seconds of a monotonic clock, because a jump would stop a table, or
        end its patience. `now_ms`: dates what is published. `sweeps`: None = no sweeps here.
        `switches`: None = no pauses. `share` of the commits are read back. `gather_s`: see
        `TableQueue.is_gathering`."""
        self._inbox = inbox
        self._publisher = publisher
        self._handlers = handlers
        self._log = log
        self._now = now
        self._now_ms = now_ms
        self._sweeps = sweeps
        self._switches = switches
        self._share = share
        self._gather_s = gather_s
        self._pool = pool or Inline()
        self._queues = TableQueues()
        self._failures = FailureLog(log)
        self._work: list[_Work] = []
        self._handled: list[Delivery] = []

    def step(self, timeout_s: float) -> None:
        """Run one round. Offsets are committed only after the events are on the broker. Raises
        RetryLater if the broker does not take records, and JvmEnded: restart, the tables contain
        what was done."""
        if self._switches is not None:
            self._switches.catch_up()
        self._read(self._poll_timeout_s(timeout_s))
        self._make_room()
        self._start_commits()
        self._collect()
        self._start_sweep()
        self._collect()
        self._queues.remove_idle()
        self._confirm_rest()

    def _confirm_rest(self) -> None:
        """Confirm that the pause of the whole deployment holds here and nothing is under way any
        more: `firnline pause --wait` checks for it. No offset would show it: results wait through a
        pause."""
        pause = None if self._switches is None else self._switches.pause_of(None)
        if pause is not None and not self._work:
            self._inbox.write_note(pause.to_note)

    def finish(self, timeout_s: float) -> None:
        """Wait for what is in work, no longer than that: the next consumer to read the rest settles
        it. Raises as above."""
        wait([one.future for one in self._work], timeout_s)
        self._collect()

    @property
    def is_idle(self) -> bool:
        """Return whether nothing is in work, and no delivery waits."""
        return not self._work and not any(queue.waiting for queue in self._queues)

    # ---- in

    def _poll_timeout_s(self, timeout_s: float) -> float:
        """Return the seconds for which the pump has nothing to do but to read."""
        pauses = (queue.not_before - self._now() for queue in self._queues if queue.waiting)
        soonest = min((pause for pause in pauses if pause > 0), default=timeout_s)
        return min(timeout_s, soonest, POLL_S if self._work else timeout_s)

    def _read(self, timeout_s: float) -> None:
        deliveries = self._inbox.poll(timeout_s, self._queues.full_partitions())
        self._queues.drop_partitions(self._inbox.take_moved())
        for delivery in deliveries:
            if deadly := died_at(delivery.deaths):
                self._give_up(delivery, deadly)
                self._handled.append(delivery)
            else:
                self._queues.append(delivery, self._now())

    def _make_room(self) -> None:
        """Give up the waiting results of tables that do not move, if their partition is full: it is
        read no further, so tables that do move would wait for them, for hours or until a pause
        ends. If it is the only such table, only `TableQueues.excess_deliveries` is given up."""
        if not (full := self._queues.full_partitions()):
            return
        still = [one for one in self._queues if not one.running and one.waiting]
        still = [one for one in still if one.behind or self._is_held(one.next_batch)]
        stuck = {
            one.place: [each for each in one.waiting if partition_of(each) in full] for one in still
        }
        counts = Counter(place for each in stuck.values() for place in set(map(partition_of, each)))
        for queue in still:
            if left := [one for one in stuck[queue.place] if counts[partition_of(one)] > 1]:
                self._give_all_up(queue, left, RetryLater(NO_ROOM))

    # ---- in work

    def _start_commits(self) -> None:
        if (big := self._oversized_queue()) is not None:
            if not self._work:
                self._start_commit(big)
            return
        for queue in self._queues:
            if len(self._work) >= self._pool.size:
                return
            if queue.running or self._is_busy(queue.table):
                continue
            if queue.waiting:
                self._start_commit(queue)
            elif queue.unfinished:
                self._start_abandoning(queue)

    def _oversized_queue(self) -> TableQueue | None:
        """Return the queue that memory did not suffice for; nothing else may be in work with it.
        Each of its results has one try, so that the others wait for one commit at most."""
        now = self._now()
        due = (one for one in self._queues if one.alone and one.waiting and one.not_before <= now)
        return next((one for one in due if not self._is_held(one.next_batch)), None)

    def _start_commit(self, queue: TableQueue) -> None:
        if queue.not_before > self._now() or self._is_crowded(queue):
            return
        batch = queue.next_batch
        if self._is_held(batch):
            self._give_up_excess(queue)
        elif queue.alone or not queue.is_gathering(batch, self._gather_s, self._now()):
            work = partial(handle_deliveries, self._handlers, batch, self._log)
            self._start_work(queue, work, partial(self._close_handled, queue, batch))

    def _is_crowded(self, queue: TableQueue) -> bool:
        """Return whether tables whose last attempts failed use half of the threads: each may wait a
        minute for a dependency that does not answer."""
        busy = sum(1 for one in self._work if one.retries)
        return queue.behind and busy >= max(self._pool.size // 2, 1)

    def _start_work(
        self, queue: TableQueue, work: Callable[[], Any], ended: Callable[[Any], None]
    ) -> None:
        queue.running = True
        self._queues.move_to_end(queue)

        def free_queue(found: Any) -> None:
            queue.running = False
            ended(found)

        self._work.append(_Work(queue.table, self._pool.submit(work), free_queue, queue.behind))

    def _start_abandoning(self, queue: TableQueue) -> None:
        """Clear up after a table's results that another consumer has, or that were given up."""
        key, ref = queue.place

        def abandon() -> None:
            try:
                self._handlers.abandon(str(key), str(ref))
            except JvmEnded:
                raise
            except Exception as error:  # the sweep clears it away; no other table waits for it
                self._log.error("not_abandoned", error, table_key=key)

        def reset_queue(_: None) -> None:
            queue.unfinished = queue.behind = False

        self._start_work(queue, abandon, reset_queue)

    def _start_sweep(self) -> None:
        """Start at most one sweep, of a table that has no commit under way."""
        if self._sweeps is None or len(self._work) >= self._pool.size or self._is_paused(None):
            return
        if self._oversized_queue() is not None:
            return
        if any(one.sweeps for one in self._work):
            return
        if table := self._sweeps.take_due_table(self._is_busy):
            work = partial(self._sweeps.sweep, table)
            future = self._pool.submit(work)
            self._work.append(_Work(table.key, future, self._publish_sweep, sweeps=True))

    def _is_busy(self, table_key: str | None) -> bool:
        return any(one.table == table_key and not one.future.done() for one in self._work)

    def _is_held(self, batch: list[Delivery]) -> bool:
        """Return whether the batch waits: a paused table's results do; records that only report an
        end do not."""
        results = [one.record for one in batch if isinstance(one.record, RewriteFinished)]
        return bool(results) and self._is_paused(results[0].table.key)

    def _is_paused(self, table_key: str | None) -> bool:
        return self._switches is not None and self._switches.pause_of(table_key) is not None

    # ---- out

    def _collect(self) -> None:
        """Publish the events of what has ended, then commit its offsets."""
        ended = [one for one in self._work if one.future.done()]
        if not ended and not self._handled:
            return
        self._work = [one for one in self._work if one not in ended]
        for one in ended:
            one.ended(one.future.result())
        handled, self._handled = self._handled, []
        self._publisher.flush()
        for delivery in handled:
            self._inbox.mark_done(delivery)
        self._inbox.commit()
        if self._sweeps is not None:
            self._sweeps.schedule_after([delivery.record for delivery in handled])

    def _close_handled(self, queue: TableQueue, batch: list[Delivery], found: Handled) -> None:
        """Publish the events of a batch and close its handled deliveries; give up the broken ones.
        Leave the others for the next attempt, after a pause."""
        unsent = self._publish(found.events)
        for delivery in found.done:
            if getattr(delivery.record, "task_id", None) in unsent:
                self._put_aside(delivery, ValueError("what came of it cannot be sent"))
        for delivery, error in found.broken:
            self._give_up(delivery, error)
        done = [*found.done, *(delivery for delivery, _ in found.broken)]
        self._close_deliveries(queue, done)
        queue.since = self._now()
        queue.unfinished = queue.behind = len(done) < len(batch)
        if found.unreachable is None:
            queue.reset_back_off()
            queue.alone = False
            queue.not_before = self._now() + found.pause_s
        else:
            self._back_off(queue, [one for one in batch if one not in done], found.unreachable)
        if queue.behind:
            self._give_up_excess(queue)

    def _back_off(self, queue: TableQueue, left: list[Delivery], error: RetryLater) -> None:
        """Back off if catalog or storage do not answer, and give up results that have waited long
        enough."""
        metrics.count("dependency_errors", dependency=error.dependency)
        self._failures.log_retry(table_of(left[0].record), error, self._now())
        if queue.back_off(self._now(), error) or (queue.alone and isinstance(error, HeapTooSmall)):
            self._give_all_up(queue, left, error)
        queue.alone = isinstance(error, HeapTooSmall)

    def _give_up_excess(self, queue: TableQueue) -> None:
        """Give up the newest results of a table that has too many waiting: report them as
        conflicts, so that the planner may order them again, and send the records to the dead
        letters."""
        if excess := self._queues.excess_deliveries(queue):
            self._give_all_up(queue, excess, RetryLater(NO_ROOM))

    def _give_all_up(self, queue: TableQueue, deliveries: list[Delivery], error: Exception) -> None:
        for delivery in deliveries:
            self._give_up(delivery, error)
        self._close_deliveries(queue, deliveries)

    def _close_deliveries(self, queue: TableQueue, deliveries: list[Delivery]) -> None:
        self._queues.remove(queue, deliveries)
        self._handled += deliveries

    def _publish_sweep(self, found: Any) -> None:
        assert self._sweeps is not None
        if event := self._sweeps.close_sweep(found):
            self._publish([event])

    def _publish(self, events: Sequence[Any]) -> set[str]:
        """Return the tasks whose event its topic does not take."""
        unsent = set()
        for event in events:
            if not self._publisher.publish(EVENTS, event.table.key, event):
                unsent.add(getattr(event, "task_id", ""))
            if isinstance(event, RewriteCommitted):
                self._publish_comparison(event)
        if self._sweeps is not None:
            self._sweeps.schedule_after(events)
        return unsent

    def _publish_comparison(self, event: RewriteCommitted) -> None:
        if order := order_comparison(event, self._share, self._now_ms()):
            self._publisher.publish(COMPARISONS, order.table.key, order)

    def _give_up(self, delivery: Delivery, error: Exception) -> None:
        """Send a record whole to the dead letters; the planner may order its partition again."""
        record, at_ms = delivery.record, self._now_ms()
        if isinstance(record, RewriteFinished):
            conflict = Conflict(_reason_of(error), f"unusable: {error}"[:1000])
            self._publish([reports.conflicted_event(record, conflict, None, at_ms)])
        self._put_aside(delivery, error)

    def _put_aside(self, delivery: Delivery, error: Exception) -> None:
        why = "unusable"
        if isinstance(error, PoisonousRecord | UnknownCatalog | OtherPrefix):
            why = error.reason
        send_to_dead_letters(
            self._publisher, dead_letter_of(delivery, why, error, "committer", self._now_ms())
        )


def _reason_of(error: Exception) -> ConflictReason:
    """Return the reason why a result is given up."""
    if isinstance(error, HeapTooSmall):
        return ConflictReason.COMMITTER_OUT_OF_MEMORY
    if isinstance(error, RetryLater):
        return ConflictReason.UNREACHABLE
    return ConflictReason.REJECTED
