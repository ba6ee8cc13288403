"""Calls about a table that wait, for a moment, until a commit of Firnline's has ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field


@dataclass
class _Closed:
    since_s: float
    until_s: float
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Gates:
    """Of one gateway; a table is told by any hashable name. A wish: whoever waits does so once, and
    never longer than `most_ms`; once open again a gate stays so for `rests` times as long as it was
    closed, whoever asks."""

    def __init__(
        self, most_ms: int, rests: int, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """`most_ms`: 0 = none is ever closed."""
        self._most_s = most_ms / 1000
        self._times = rests
        self._now_s = now_s
        self._closed: dict[Hashable, _Closed] = {}
        self._rests: dict[Hashable, float] = {}  # until when a table's gate is not closed again

    def close(self, table: Hashable) -> bool:
        """Whether it is closed from now on, and was not before: a table has its rest first."""
        now = self._now_s()
        for name in [name for name, gate in self._closed.items() if gate.until_s <= now]:
            self.open(name)
        self._rests = {name: until for name, until in self._rests.items() if until > now}
        if self._most_s <= 0 or table in self._closed or table in self._rests:
            return False
        self._closed[table] = _Closed(now, now + self._most_s)
        return True

    def open(self, table: Hashable) -> None:
        """Release whoever waits."""
        if (gate := self._closed.pop(table, None)) is not None:
            end_s = min(self._now_s(), gate.until_s)
            self._rests[table] = end_s + self._times * (end_s - gate.since_s)
            gate.over.set()

    async def passed(self, table: Hashable) -> float | None:
        """Return when a call may go on: the seconds it waited; None where the gate was open."""
        if (gate := self._closed.get(table)) is None:
            return None
        since_s = self._now_s()
        with suppress(TimeoutError):
            await asyncio.wait_for(gate.over.wait(), max(0.0, gate.until_s - since_s))
        return self._now_s() - since_s
