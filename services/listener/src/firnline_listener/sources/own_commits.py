"""Firnline's own commits ring at once: their tasks are not over before the planner has counted
them. The members of this group also share the sweep among them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from firnline_domain.identity import TableName, bucket_of
from firnline_domain.ports import Delivery, Inbox
from firnline_domain.records.events import RewriteCommitted
from firnline_domain.records.results import TableResult

from firnline_listener.core.known_tables import Place
from firnline_listener.port import Doorbell

GROUP = "listener"
EVENTS = "maintenance-events"
COMMITS = RewriteCommitted | TableResult


class OwnCommits:
    """A `DoorbellSource` over what the committer and the workers report."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._open: deque[Delivery] = deque()  # that are not done, those that ring for none too

    def poll(self, timeout_s: float) -> Sequence[Doorbell]:
        deliveries = self._inbox.poll(timeout_s)
        self._open.extend(deliveries)
        if self._end_silent():
            self._inbox.commit()
        return [_doorbell_of(one) for one in deliveries if _rings(one)]

    def settle(self, position: Delivery) -> None:
        while self._open and self._open[0] is not position:
            self._inbox.mark_done(self._open.popleft())
        self._inbox.mark_done(position)
        self._open.popleft()
        self._end_silent()
        self._inbox.commit()

    def close(self) -> None:
        self._inbox.close()

    def _end_silent(self) -> bool:
        """End the first deliveries that ring for no table; return whether there were any."""
        has_ended = False
        while self._open and not _rings(self._open[0]):
            self._inbox.mark_done(self._open.popleft())
            has_ended = True
        return has_ended


def _rings(delivery: Delivery) -> bool:
    return isinstance(delivery.record, COMMITS)


def _doorbell_of(delivery: Delivery) -> Doorbell:
    table: TableName = delivery.record.table
    return Doorbell(table.catalog_path, table.namespace, table.name, position=delivery)


def shared_by(inbox: Inbox, homes: int) -> Callable[[Place], bool]:
    """Return whether a place is swept by the process of this inbox: it has the bucket of its
    name."""

    def is_ours(place: Place) -> bool:
        name = "\x1f".join((place.catalog, *place.path))
        return inbox.owns(EVENTS, bucket_of(name, homes))

    return is_ours
