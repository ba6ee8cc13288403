"""Poll, commit, flush, then offsets: tables one after another, a stuck one alone."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

from firnline_adapters import metrics
from firnline_adapters.dead_letters import bury, letter_of
from firnline_adapters.lanes import Lane
from firnline_adapters.logs import Log
from firnline_domain.conflicts import Conflict
from firnline_domain.errors import PoisonousRecord, RetryLater
from firnline_domain.events import ConflictReason, RewriteCommitted
from firnline_domain.ports import Delivery, Inbox, Publisher, Switches
from firnline_domain.results import RewriteFinished
from firnline_domain.sampling import comparison
from firnline_iceberg.jvm import JvmEnded

from firnline_committer import reports
from firnline_committer.handlers import Handlers
from firnline_committer.sweeping import Sweeps

EVENTS = "maintenance-events"
COMPARISONS = "compare-tasks"
MOST_AT_ONCE = 100  # results of one table in a commit
MOST_WAITING = 5_000  # records; beyond, start anew from the committed offsets

Place = tuple[str | None, str | None]  # table uuid, ref


class Pump:
    """Carries deliveries from an inbox through the handlers to a publisher."""

    def __init__(
        self,
        inbox: Inbox,
        publisher: Publisher,
        handlers: Handlers,
        log: Log,
        now: Callable[[], float] = time.time,
        sweeps: Sweeps | None = None,
        switches: Switches | None = None,
        share: float = 0.0,
        gather_s: float = 0.0,
    ) -> None:
        """`sweeps`: None = nothing is swept here. `switches`: None = nothing is ever paused.
        `share` of the commits are read back. `gather_s`: see `_gathers`."""
        self._inbox = inbox
        self._publisher = publisher
        self._handlers = handlers
        self._log = log
        self._now = now
        self._sweeps = sweeps
        self._switches = switches
        self._share = share
        self._gather_s = gather_s
        self._lanes: dict[Place, Lane] = {}

    def step(self, timeout_s: float) -> None:
        """One round. Offsets commit only after the events are on the broker.

        Raises RetryLater where the broker does not take records or too many wait, and
        JvmEnded: start anew, the tables know what was done.
        """
        if self._switches is not None:
            self._switches.catch_up()
        for delivery in self._inbox.poll(timeout_s):
            self._lanes.setdefault(_place(delivery.record), Lane()).arrived(delivery, self._now())
        handled = [delivery for lane in self._lanes.values() for delivery in self._run(lane)]
        if handled:
            self._publisher.flush()
            for delivery in handled:
                self._inbox.done(delivery)
            self._inbox.commit()
        if self._sweeps is not None:
            self._sweep(self._sweeps, [delivery.record for delivery in handled])
        self._lanes = {place: lane for place, lane in self._lanes.items() if lane.waiting}
        if (waiting := sum(len(lane.waiting) for lane in self._lanes.values())) > MOST_WAITING:
            raise RetryLater(f"{waiting} results wait for catalog or storage")

    def _sweep(self, sweeps: Sweeps, records: list[Any]) -> None:
        """At most one table: commits come first."""
        sweeps.notice(records)
        if self._paused(None):
            return
        if event := sweeps.next():
            self._publish([event])
            self._publisher.flush()

    def _run(self, lane: Lane) -> list[Delivery]:
        batch = list(islice(lane.waiting, MOST_AT_ONCE))
        if not batch or lane.not_before > self._now() or self._held(batch):
            return []
        if self._gathers(batch, lane):
            return []
        done = self._dealt_with(batch, lane)
        known = {id(one) for one in done}
        lane.waiting = deque(one for one in lane.waiting if id(one) not in known)
        return done

    def _gathers(self, batch: list[Delivery], lane: Lane) -> bool:
        """Others that were ordered with these are on their way. Whoever does them needs as long as
        for these: twice that is enough, or they are done elsewhere, or failed."""
        results = [one.record for one in batch if isinstance(one.record, RewriteFinished)]
        if len(batch) >= max((one.together for one in results), default=1):
            return False
        took_s = max(one.finished_at_ms - one.started_at_ms for one in results) / 1000
        return self._now() < lane.newest + min(self._gather_s, 2 * took_s)

    def _held(self, batch: list[Delivery]) -> bool:
        """A paused table's results wait where they are; what only tells of an end does not."""
        results = [one.record for one in batch if isinstance(one.record, RewriteFinished)]
        return bool(results) and self._paused(results[0].table.uuid)

    def _paused(self, table_uuid: str | None) -> bool:
        return self._switches is not None and self._switches.pause(table_uuid) is not None

    def _dealt_with(self, batch: list[Delivery], lane: Lane) -> list[Delivery]:
        """Those of them that are; the others wait for the lane's next turn."""
        started = self._now()
        try:
            turn = self._handlers.turn([delivery.record for delivery in batch])
        except JvmEnded:
            raise
        except Exception as error:  # one broken result must not stop the other tables
            self._log.error("unusable", error, table=_table(batch[0].record))
            return self._one_by_one(batch, lane, error)
        self._publish(list(turn.events))
        waiting = {id(record) for record in turn.open}
        done = [delivery for delivery in batch if id(delivery.record) not in waiting]
        if turn.away is not None:
            return self._away(batch, done, lane, turn.away)
        lane.moving()
        lane.not_before = self._now() + turn.pause_s
        metrics.observe("commit_seconds", self._now() - started)
        return done

    def _away(
        self, batch: list[Delivery], done: list[Delivery], lane: Lane, error: RetryLater
    ) -> list[Delivery]:
        """Catalog or storage do not answer: wait, and give up what has waited long enough."""
        self._log.warning("retry_later", table=_table(batch[0].record), why=error)
        if not lane.stuck(self._now()):
            return done
        for delivery in batch:
            if delivery not in done:
                self._give_up(delivery, error)
        uuid, ref = _place(batch[0].record)
        self._handlers.let_go(str(uuid), str(ref))
        return batch

    def _one_by_one(self, batch: list[Delivery], lane: Lane, error: Exception) -> list[Delivery]:
        """Find the broken one; it goes to `dead-letters`, the others are dealt with."""
        if len(batch) == 1:
            self._give_up(batch[0], error)
            return batch
        return [done for delivery in batch for done in self._dealt_with([delivery], lane)]

    def _publish(self, events: list[Any]) -> None:
        for event in events:
            self._publisher.publish(EVENTS, event.table.uuid, event)
            if isinstance(event, RewriteCommitted):
                self._sample(event)
        if self._sweeps is not None:
            self._sweeps.notice(events)

    def _sample(self, event: RewriteCommitted) -> None:
        if order := comparison(event, self._share, int(self._now() * 1000)):
            self._publisher.publish(COMPARISONS, order.table.uuid, order)

    def _give_up(self, delivery: Delivery, error: Exception) -> None:
        """Kept whole for a person; and the planner gets its partition back."""
        record, at_ms = delivery.record, int(self._now() * 1000)
        if isinstance(record, RewriteFinished):
            away = isinstance(error, RetryLater)
            reason = ConflictReason.UNREACHABLE if away else ConflictReason.REJECTED
            conflict = Conflict(reason, f"unusable: {error}"[:1000])
            self._publish([reports.conflicted(record, conflict, None, at_ms)])
        why = error.reason if isinstance(error, PoisonousRecord) else "unusable"
        bury(self._publisher, letter_of(delivery, why, error, "committer", at_ms))


def _place(record: Any) -> Place:
    """Records that have no business on the topic may have no table either."""
    table = getattr(record, "table", None)
    return getattr(table, "uuid", None), getattr(record, "ref", None)


def _table(record: Any) -> str:
    """For a line of the log."""
    return str(getattr(getattr(record, "table", None), "dotted", type(record).__name__))
