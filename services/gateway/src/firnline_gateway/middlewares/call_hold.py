"""Calls about a table that wait, for a moment, until a commit of Firnline's has ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Literal

from firnline_adapters.observability import metrics
from firnline_domain.commits.hold_header import HEADER, RELEASE

from firnline_gateway.middlewares.middleware import Middleware, Parts
from firnline_gateway.proxy.exchange import Exchange

STRANGERS = frozenset({401, 403})  # the catalog's answer to who may not do what they asked for


@dataclass
class _Hold:
    since_s: float
    until_s: float
    over: asyncio.Event = field(default_factory=asyncio.Event)


class CallHold(Middleware):
    """Delays of one kind of calls; any hashable name stands for a table. A call is delayed once,
    and never longer than `max_ms`. Then no call delays the table again for `rests` times as long as
    it was held."""

    kind: Literal["read", "commit"]
    word: str  # of a load's header that begins a hold
    share: float  # of the longest wait in the settings
    rests: int

    def __init__(self, max_ms: int, now_s: Callable[[], float] = time.monotonic) -> None:
        """Hold nothing yet. `max_ms`: 0 = nothing is ever held."""
        self._max_s = max_ms / 1000
        self._now_s = now_s
        self._held: dict[Hashable, _Hold] = {}
        self._rests: dict[Hashable, float] = {}  # until when a table is not held again

    @classmethod
    def open(cls, parts: Parts) -> AbstractAsyncContextManager[CallHold]:
        return nullcontext(cls(int(parts.settings.commit_wait_s * 1000 * cls.share)))

    def begin_hold(self, table: Hashable) -> None:
        """Hold calls about the table from now on, if it has had its rest."""
        now = self._now_s()
        for name in [name for name, hold in self._held.items() if hold.until_s <= now]:
            self.release_hold(name)
        self._rests = {name: until for name, until in self._rests.items() if until > now}
        if self._max_s > 0 and table not in self._held and table not in self._rests:
            self._held[table] = _Hold(now, now + self._max_s)
            metrics.count(f"gateway_{self.kind}_holds")

    def release_hold(self, table: Hashable) -> None:
        """Release the waiting calls."""
        if (hold := self._held.pop(table, None)) is not None:
            end_s = min(self._now_s(), hold.until_s)
            self._rests[table] = end_s + self.rests * (end_s - hold.since_s)
            hold.over.set()

    async def wait_for_release(self, table: Hashable) -> None:
        """Return when a call about the table may go on."""
        if (hold := self._held.get(table)) is None:
            return
        since_s = self._now_s()
        with suppress(TimeoutError):
            await asyncio.wait_for(hold.over.wait(), max(0.0, hold.until_s - since_s))
        metrics.observe(f"gateway_{self.kind}_hold_seconds", self._now_s() - since_s)

    async def after(self, exchange: Exchange) -> None:
        """Begin or end a hold for a committer's load once the catalog has let it read the table,
        because any client can send the header."""
        if not exchange.is_loaded:
            return
        said = exchange.request.headers.get(HEADER)
        if said == RELEASE:
            self.release_hold(exchange.table)
        elif said == self.word:
            self.begin_hold(exchange.table)

    def finish(self, exchange: Exchange) -> None:
        """End a hold with a committer's commit, whatever the catalog answers, unless it rejects the
        caller."""
        answer = exchange.answer
        if exchange.change is None or exchange.table is None or not exchange.is_by_committer:
            return
        if answer is None or answer.status not in STRANGERS:
            self.release_hold(exchange.table)
