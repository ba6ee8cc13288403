"""Reads of a table that wait until a commit of Firnline's has ended (docs/decisions/0017)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from firnline_adapters import metrics


@dataclass
class _Latch:
    since_s: float
    until_s: float
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Latches:
    """Of one gateway; a table is told by any hashable name. A wish: a read waits once, and never
    longer than `most_ms`; a table is latched for half of the time at the most."""

    def __init__(self, most_ms: int, now_s: Callable[[], float] = time.monotonic) -> None:
        """`most_ms`: 0 = none is ever latched."""
        self._most_s = most_ms / 1000
        self._now_s = now_s
        self._open: dict[object, _Latch] = {}
        self._rests: dict[object, float] = {}  # until when a table is not latched again

    def begin(self, table: object) -> None:
        """Reads of the table wait from now on, if it has had its rest."""
        now = self._now_s()
        self._forget(now)
        if self._most_s > 0 and table not in self._open and table not in self._rests:
            self._open[table] = _Latch(now, now + self._most_s)
            metrics.count("gateway_latches")

    def _forget(self, now: float) -> None:
        for table in [name for name, latch in self._open.items() if latch.until_s <= now]:
            self.end(table)
        self._rests = {name: until for name, until in self._rests.items() if until > now}

    def end(self, table: object) -> None:
        """Let go of whoever waits."""
        if (latch := self._open.pop(table, None)) is not None:
            end_s = min(self._now_s(), latch.until_s)
            self._rests[table] = end_s + (end_s - latch.since_s)
            latch.over.set()

    async def wait(self, table: object) -> None:
        """Return when the table is not latched, or has been for long enough."""
        if (latch := self._open.get(table)) is None:
            return
        since_s = self._now_s()
        with suppress(TimeoutError):
            await asyncio.wait_for(latch.over.wait(), max(0.0, latch.until_s - since_s))
        metrics.observe("gateway_latched_seconds", self._now_s() - since_s)
