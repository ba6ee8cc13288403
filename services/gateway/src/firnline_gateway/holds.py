"""Commits to a table that wait until a commit of Firnline's has ended (docs/decisions/0035)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field

from firnline_adapters import metrics

RESTS = 3  # times as long as it was held a table is not held again: a quarter of the time at most


@dataclass
class _Hold:
    since_s: float
    until_s: float
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Holds:
    """Of one gateway; a table is told by any hashable name. A wish: a commit waits once, and never
    longer than `most_ms`."""

    def __init__(self, most_ms: int, now_s: Callable[[], float] = time.monotonic) -> None:
        """`most_ms`: 0 = none ever waits."""
        self._most_s = most_ms / 1000
        self._now_s = now_s
        self._open: dict[Hashable, _Hold] = {}
        self._rests: dict[Hashable, float] = {}  # until when a table is not held again

    def begin(self, table: Hashable) -> None:
        """Commits of others wait from now on, if the table has had its rest."""
        now = self._now_s()
        for name in [name for name, hold in self._open.items() if hold.until_s <= now]:
            self.end(name)
        self._rests = {name: until for name, until in self._rests.items() if until > now}
        if self._most_s > 0 and table not in self._open and table not in self._rests:
            self._open[table] = _Hold(now, now + self._most_s)
            metrics.count("gateway_holds")

    def end(self, table: Hashable) -> None:
        """Let go of whoever waits."""
        if (hold := self._open.pop(table, None)) is not None:
            end_s = min(self._now_s(), hold.until_s)
            self._rests[table] = end_s + RESTS * (end_s - hold.since_s)
            hold.over.set()

    async def commit(self, table: Hashable) -> None:
        """Return when another's commit may go on."""
        if (hold := self._open.get(table)) is None:
            return
        since_s = self._now_s()
        with suppress(TimeoutError):
            await asyncio.wait_for(hold.over.wait(), max(0.0, hold.until_s - since_s))
        metrics.observe("gateway_held_seconds", self._now_s() - since_s)
