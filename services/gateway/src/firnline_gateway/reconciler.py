"""Calls whose answer nobody saw: after a crash, a 5xx, a timeout or a lost connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from firnline_adapters.logs import Log
from firnline_domain.errors import RetryLater

from firnline_gateway import evidence
from firnline_gateway.calls import Call
from firnline_gateway.capture import Capture
from firnline_gateway.commits import PlannedChange, UnreadableCall, changes_of
from firnline_gateway.journal import Journal
from firnline_gateway.upstream import Upstream

TICK_S = 1.0
LONGEST_S = 60.0  # between two looks at one call
# A catalog may still be at work on a call whose connection broke. After this long, what has left
# no trace in a table that we could read did not happen.
GIVE_UP_MS = 600_000


class Reconciler:
    """Reads the tables of doubtful calls, with Firnline's own credential, until they say."""

    def __init__(
        self,
        journal: Journal,
        upstream: Upstream,
        capture: Capture,
        log: Log,
        now_ms: Callable[[], int],
    ) -> None:
        self._journal = journal
        self._upstream = upstream
        self._capture = capture
        self._log = log
        self._now_ms = now_ms
        self._due: dict[str, tuple[int, float]] = {}  # call -> (when in ms, seconds to the next)

    async def run(self) -> None:
        """Look again and again; ends by cancellation."""
        while True:
            await self.look()
            await asyncio.sleep(TICK_S)

    async def look(self) -> None:
        """Examine every doubtful call that is due."""
        doubts = await asyncio.wrap_future(self._journal.doubts())
        self._due = {call.call_id: self._due.get(call.call_id, (0, TICK_S)) for call in doubts}
        for call in doubts:
            due_ms, pause_s = self._due[call.call_id]
            if self._now_ms() >= due_ms:
                await self._examine_safely(call)
                later_ms = self._now_ms() + int(pause_s * 1000)
                self._due[call.call_id] = (later_ms, min(pause_s * 2, LONGEST_S))

    async def _examine_safely(self, call: Call) -> None:
        try:
            await self._examine(call)
        except RetryLater as error:
            self._log.warning("reconcile_later", call=call.call_id, why=error)
        except UnreadableCall as error:
            self._log.error("call_unreadable", path=call.path, why=error)
            self._journal.settle(call, ())

    async def _examine(self, call: Call) -> None:
        changes = changes_of(call)
        old = self._now_ms() - call.received_ms > GIVE_UP_MS
        found = [await self._judge(change, settle_for_facts=old) for change in changes]
        certain = [change for change in found if change is not None]
        if len(certain) == len(changes) or old:
            self._log.info(
                "reconciled", call=call.call_id, happened=len(certain), asked=len(changes)
            )
            self._capture.publish(call, certain, call.received_ms, "reconciled")

    async def _judge(self, change: PlannedChange, settle_for_facts: bool) -> PlannedChange | None:
        table = await self._upstream.table(change.path)
        old = await self._upstream.table(change.old_path) if change.old_path else None
        found = evidence.seen(change, table, old)
        if found is None and settle_for_facts:
            return evidence.facts(change, table)
        return found
