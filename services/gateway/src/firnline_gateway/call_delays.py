"""Calls about a table that wait, for a moment, until a commit of Firnline's has ended.

Reads wait so that no statement begins from a snapshot that is about to be replaced
(docs/decisions/0013); commits wait where Firnline's has lost several races (0011).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from cachetools import FIFOCache
from firnline_adapters.observability import metrics

READ_RESTS = 1  # times as long as reads were held none is: half of the time at the most
COMMIT_RESTS = 3  # the same for commits: a quarter of the time at the most
MAX_READERS = 10_000  # peers whose statements are followed; a forgotten one waits a second
LAST_READ_S = 0.1  # Iceberg's clients read the table once more when their commit was answered
K = TypeVar("K")
V = TypeVar("V")
Peer = Hashable  # a connection: a client's statement mostly keeps to one


@dataclass
class _Hold:
    since_s: float
    until_s: float
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Holds:
    """Delays of one kind of calls; any hashable name stands for a table. A call is delayed once,
    and never longer than `max_ms`. Then no call delays the table again for `rests` times as long as
    it was held."""

    def __init__(
        self,
        kind: Literal["read", "commit"],
        max_ms: int,
        rests: int,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`max_ms`: 0 = nothing is ever held."""
        self._kind = kind
        self._max_s = max_ms / 1000
        self._times = rests
        self._now_s = now_s
        self._held: dict[Hashable, _Hold] = {}
        self._rests: dict[Hashable, float] = {}  # until when a table is not held again

    def begin_hold(self, table: Hashable) -> None:
        """Hold calls about the table from now on, if it has had its rest."""
        now = self._now_s()
        for name in [name for name, hold in self._held.items() if hold.until_s <= now]:
            self.release_hold(name)
        self._rests = {name: until for name, until in self._rests.items() if until > now}
        if self._max_s > 0 and table not in self._held and table not in self._rests:
            self._held[table] = _Hold(now, now + self._max_s)
            metrics.count(f"gateway_{self._kind}_holds")

    def release_hold(self, table: Hashable) -> None:
        """Release the waiting calls."""
        if (hold := self._held.pop(table, None)) is not None:
            end_s = min(self._now_s(), hold.until_s)
            self._rests[table] = end_s + self._times * (end_s - hold.since_s)
            hold.over.set()

    async def wait_for_release(self, table: Hashable) -> None:
        """Return when a call about the table may go on."""
        if (hold := self._held.get(table)) is None:
            return
        since_s = self._now_s()
        with suppress(TimeoutError):
            await asyncio.wait_for(hold.over.wait(), max(0.0, hold.until_s - since_s))
        metrics.observe(f"gateway_{self._kind}_hold_seconds", self._now_s() - since_s)


class ReadHolds(Holds):
    """Delays of reads: only the first read of a statement waits. A client that has read the table
    and not committed since is in the middle of a statement, or only reads. Its next read may be the
    refresh of its commit, which has to come before Firnline's."""

    def __init__(self, max_ms: int, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__("read", max_ms, READ_RESTS, now_s)
        self._reading = FIFOCache[tuple[Hashable, Peer], None](MAX_READERS)
        self._committed = FIFOCache[tuple[Hashable, Peer], float](MAX_READERS)

    async def wait_to_read(self, table: Hashable, peer: Peer) -> None:
        """Return when the peer may read the table."""
        at = table, peer
        if self._now_s() - self._committed.get(at, -LAST_READ_S) < LAST_READ_S:
            return
        if at not in self._reading:
            await self.wait_for_release(table)
        self._reading[at] = None

    def end_statement(self, table: Hashable, peer: Peer) -> None:
        """End the peer's statement, successful or not; its next read begins another."""
        self._reading.pop((table, peer), None)
        self._committed[table, peer] = self._now_s()


def commit_holds(max_ms: int, now_s: Callable[[], float] = time.monotonic) -> Holds:
    """Commits of others wait."""
    return Holds("commit", max_ms, COMMIT_RESTS, now_s)
