"""Sends requests at a bounded rate, and no more at once than are dealt with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from firnline_domain.errors import RetryLater
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.orders import ResyncTable

from firnline_cli.adoption.counted_tables import CountedTables
from firnline_cli.shared.topic_reader import BrokerTopics

TOPIC = "resync-requests"
ENRICHER = "enricher"  # its consumer group
REASON = "adopted"
REFRESH_S = 1.0  # between two looks: some dozen calls to the broker
# Without anything that moves. A table that the planner counts is shown within a minute; one that
# the enricher reads may be huge, or its storage away, for which it has as much patience itself.
PATIENCE_S = 120.0
SLOW_S = 600.0
AGAIN = "Then start this again: it goes on where it stopped"
T = TypeVar("T")


class AdoptionStopped(Exception):
    """The adoption cannot go on now; the message says why and what to do."""


@dataclass(frozen=True)
class RequestClock:
    """A clock in seconds. Both functions are given, so that tests need not wait."""

    now: Callable[[], float]
    sleep: Callable[[float], None]


@dataclass
class Requests:
    """The requests under way. `interval_s`: between two requests. `most`: tables under way at once,
    by the enricher's lag as well as by what the planner shows. `waiting` is called if nothing can
    be sent for now."""

    topics: BrokerTopics
    known: CountedTables
    clock: RequestClock
    interval_s: float
    most: int
    waiting: Callable[[str], None]
    unanswered: list[TableName] = field(default_factory=list)
    _tables: dict[str, tuple[TableName, float]] = field(default_factory=dict)  # and when asked for
    _lag: int = 0  # requests before the enricher at the last look, and those sent since
    _refreshed_s: float | None = None
    _due_s: float = 0.0

    def request_table(self, table: TableName) -> None:
        """Request that the planner counts the table. Raises Stopped."""
        now = self.clock.now()
        request = ResyncTable(table, MAIN, None, None, REASON, int(now * 1000))
        _or_stop(lambda: self.topics.send(TOPIC, table.key, request))
        self._tables[table.key] = (table, now)
        self._due_s = now + self.interval_s  # what was missed is not made up for
        self._lag += 1

    def wait_for_room(self) -> None:
        """Wait until the rate allows the next request, and enricher and planner have caught up.
        Raises Stopped."""
        if (early_s := self._due_s - self.clock.now()) > 0:
            self.clock.sleep(early_s)
        self._refresh()
        if why := self._wait_while(self._find_backlog):
            raise AdoptionStopped(
                f"nothing has moved for {self._patience_s:.0f} s: {why}. See that enricher and "
                f"planner run (`firnline status`). {AGAIN}"
            )

    def wait_for_all(self) -> None:
        """Wait until the planner shows all tables that were requested, or will not show them.
        Raises Stopped."""
        if self._wait_while(self._describe_uncounted):
            self.unanswered += [table for table, _ in self._tables.values()]
            self._tables.clear()

    def _wait_while(self, blocked: Callable[[], str]) -> str:
        """Wait until nothing is in the way, and return "". Return what is still in the way if
        nothing moves any more."""
        moved_s, before = self.clock.now(), blocked()
        if before:
            self.waiting(before)
        while why := blocked():
            if why != before:
                moved_s, before = self.clock.now(), why
            if self.clock.now() - moved_s > self._patience_s:
                return why
            self.clock.sleep(REFRESH_S)
            self._refresh()
        return ""

    @property
    def _patience_s(self) -> float:
        return SLOW_S if self._lag else PATIENCE_S

    def _find_backlog(self) -> str:
        """Return what the next request has to wait for: the enricher, or the tables that are not
        counted yet; "" if it may be sent."""
        if self._lag >= self.most:
            return f"{self._lag:,} requests wait for the enricher"
        return self._describe_uncounted() if len(self._tables) >= self.most else ""

    def _describe_uncounted(self) -> str:
        """Return how many requested tables are not counted yet, as text; "" if all are."""
        left = len(self._tables)
        return f"{left:,} tables asked for are not counted yet" if left else ""

    def _refresh(self) -> None:
        now = self.clock.now()
        if self._refreshed_s is not None and now - self._refreshed_s < REFRESH_S:
            return
        self._refreshed_s = now
        self._lag = _or_stop(lambda: self.topics.count_unread(TOPIC, ENRICHER))
        _or_stop(self.known.catch_up)
        came = [key for key in self._tables if self.known.find_by_key(key)]
        asked_s = max((self._tables.pop(key)[1] for key in came), default=0.0)
        self._give_up(asked_s, now)

    def _give_up(self, passed_s: float, now: float) -> None:
        """Give up tables that cannot be read, so that they do not keep a place permanently: others
        that were requested later have arrived long ago."""
        for key, (table, asked_s) in list(self._tables.items()):
            if asked_s < passed_s and now - asked_s > PATIENCE_S:
                del self._tables[key]
                self.unanswered.append(table)


def _or_stop(call: Callable[[], T]) -> T:
    try:
        return call()
    except RetryLater as error:
        raise AdoptionStopped(f"{error}. See that the broker answers. {AGAIN}") from None
