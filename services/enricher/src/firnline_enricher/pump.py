"""Poll, handle, flush, commit: each partition in its order, a stuck one alone."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from firnline_adapters import metrics
from firnline_adapters.logs import Log
from firnline_adapters.records import encode
from firnline_domain.errors import RetryLater
from firnline_domain.events import DeadLettered, FilesChanged, TableCommitted
from firnline_domain.ports import Delivery, Inbox, Publisher

from firnline_enricher.handlers import Handlers

FILE_CHANGES = "file-changes"
DEAD_LETTERS = "dead-letters"
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 15.0
PATIENCE_S = 600.0  # then the record is told without its files; the planner asks again later
MOST_WAITING = 20_000  # records, about 40 MB; beyond, restart from the committed offsets
SLICE = 50  # deliveries of one partition between two flushes


@dataclass
class Lane:
    """One topic partition: what waits, and how long it has been stuck."""

    waiting: deque[Delivery] = field(default_factory=deque)
    not_before: float = 0.0
    pause: float = FIRST_PAUSE_S
    stuck_since: float | None = None

    def stuck(self, now: float) -> bool:
        """Pause, twice as long each time; True when patience is at its end."""
        self.stuck_since = now if self.stuck_since is None else self.stuck_since
        self.not_before, self.pause = now + self.pause, min(self.pause * 2, LONGEST_PAUSE_S)
        return now - self.stuck_since > PATIENCE_S

    def moving(self) -> None:
        """Its head was dealt with."""
        self.not_before, self.pause, self.stuck_since = 0.0, FIRST_PAUSE_S, None


class Pump:
    """Carries deliveries from an inbox through the handlers to a publisher."""

    def __init__(
        self,
        inbox: Inbox,
        publisher: Publisher,
        handlers: Handlers,
        log: Log,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._inbox = inbox
        self._publisher = publisher
        self._handlers = handlers
        self._log = log
        self._now = now
        self._lanes: dict[tuple[str, int], Lane] = {}

    def step(self, timeout_s: float) -> None:
        """One round. Offsets commit only after what they led to is on the broker.

        Raises RetryLater where the broker does not take records, or too many wait: start anew.
        """
        for delivery in self._inbox.poll(timeout_s):
            self._take_in(delivery)
        handled = [delivery for lane in self._lanes.values() for delivery in self._run(lane)]
        if handled:
            self._publisher.flush()
            for delivery in handled:
                self._inbox.done(delivery)
            self._inbox.commit()
        if (waiting := sum(len(lane.waiting) for lane in self._lanes.values())) > MOST_WAITING:
            raise RetryLater(f"{waiting} records wait for catalog or storage")

    def _take_in(self, delivery: Delivery) -> None:
        if isinstance(delivery.record, TableCommitted):
            age_s = self._now() - delivery.record.committed_at_ms / 1000
            metrics.observe("event_lag_seconds", age_s)
        place = (delivery.topic, delivery.partition)
        self._lanes.setdefault(place, Lane()).waiting.append(delivery)

    def _run(self, lane: Lane) -> list[Delivery]:
        handled: list[Delivery] = []
        while lane.waiting and len(handled) < SLICE and lane.not_before <= self._now():
            if self._deal_with(lane.waiting[0], lane):
                lane.moving()
                handled.append(lane.waiting.popleft())
        return handled

    def _deal_with(self, delivery: Delivery, lane: Lane) -> bool:
        """False: not now, the lane pauses."""
        started = self._now()
        try:
            self._publish(self._handlers.handle(delivery))
        except RetryLater as error:
            self._log.warning("retry_later", table=delivery.record.table.dotted, why=error)
            if not lane.stuck(self._now()):
                return False
            self._give_up(delivery, "out_of_patience", error)
        except Exception as error:  # one unreadable table must not stop the others
            self._log.error("unreadable", error, table=delivery.record.table.dotted)
            self._give_up(delivery, "unreadable", error)
        metrics.observe("enrich_seconds", self._now() - started)
        return True

    def _publish(self, changes: Sequence[FilesChanged]) -> None:
        for change in changes:
            self._publisher.publish(FILE_CHANGES, change.table.uuid, change)

    def _give_up(self, delivery: Delivery, reason: str, error: Exception) -> None:
        letter = DeadLettered(
            topic=delivery.topic,
            partition=delivery.partition,
            offset=delivery.offset,
            key=delivery.key.encode() if delivery.key else None,
            value=encode(delivery.record),
            reason=reason,
            message=str(error)[:1000],
            service="enricher",
            at_ms=int(self._now() * 1000),
        )
        metrics.count("dead_letters", reason=reason)
        self._publisher.publish(DEAD_LETTERS, f"{delivery.topic}/{delivery.partition}", letter)
        self._publish(self._handlers.unread(delivery.record))
