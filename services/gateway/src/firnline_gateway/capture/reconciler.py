"""Calls whose answer nobody saw: after a crash, a 5xx, a timeout or a lost connection; and calls
that the catalog has accepted and we could not read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_adapters.observability.traces import following
from firnline_domain.errors import RetryLater
from firnline_iceberg.table.metadata_json import Metadata

from firnline_gateway.capture.recorder import EventRecorder
from firnline_gateway.capture.table_lookup import TableSearch
from firnline_gateway.outbox.journal import OutboxJournal
from firnline_gateway.proxy.upstream import TooLong, Upstream
from firnline_gateway.rest.call import Call
from firnline_gateway.rest.commit_body import PlannedChange, UnreadableCall, changes_of
from firnline_gateway.rest.outcomes import (
    TablePlace,
    observe_table,
    place_of,
    present_state,
    prove_change,
    touched_since,
    version_of,
)
from firnline_gateway.rest.routes import CallKind, CatalogRoute, levels_of, route_of

TICK_S = 1.0
MAX_PAUSE_S = 60.0  # between two looks at one call
AT_ONCE = 8  # calls that are looked at: a table that hangs holds up seven others at the most
# A catalog may still be at work on a call whose connection broke. After this long, what has left
# no trace in a table that we could read did not happen.
GIVE_UP_MS = 600_000


class Reconciler:
    """Reads the tables of doubtful calls, with Firnline's own credential, until they say."""

    def __init__(
        self,
        journal: OutboxJournal,
        upstream: Upstream,
        recorder: EventRecorder,
        log: Log,
        now_ms: Callable[[], int],
    ) -> None:
        self._journal = journal
        self._upstream = upstream
        self._recorder = recorder
        self._tables = TableSearch(upstream)
        self._log = log
        self._now_ms = now_ms
        self._due: dict[str, tuple[int, float]] = {}  # call -> (when in ms, seconds to the next)
        self._recorded: dict[str, dict[str, Any]] = {}  # call -> path -> version of the last event
        self._examined: dict[str, asyncio.Task[None]] = {}  # calls that are being looked at
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._search: asyncio.Task[None] | None = None
        self._wanted: dict[tuple[str, str | None], dict[str, Call]] = {}  # by root and namespace

    async def run(self) -> None:
        """Examine doubtful calls repeatedly; ends by cancellation."""
        try:
            while True:
                await self._start_examinations()
                await asyncio.sleep(TICK_S)
        finally:
            for task in (*self._examined.values(), *filter(None, [self._search])):
                task.cancel()

    async def _start_examinations(self) -> list[asyncio.Task[None]]:
        """Start an examination of each due call, so that no table that hangs delays another."""
        every = await asyncio.wrap_future(self._journal.doubtful_calls())
        doubts = [call for call in every if call.catalog == self._upstream.name]
        self._recorder.doubts = len(doubts)
        self._due = {call.call_id: self._due.get(call.call_id, (0, TICK_S)) for call in doubts}
        self._recorded = {key: one for key, one in self._recorded.items() if key in self._due}
        due = [call for call in doubts if self._now_ms() >= self._due[call.call_id][0]]
        for call in due:
            if call.call_id not in self._examined:
                look = asyncio.create_task(self._examine_when_free(call))
                self._examined[call.call_id] = look
        return list(self._examined.values())

    async def _examine_when_free(self, call: Call) -> None:
        try:
            async with self._slots:
                await self._run_step(call, self._examine_call(call))
        finally:
            self._examined.pop(call.call_id, None)
        _, pause_s = self._due.get(call.call_id, (0, TICK_S))
        later_ms = self._now_ms() + int(pause_s * 1000)
        self._due[call.call_id] = (later_ms, min(pause_s * 2, MAX_PAUSE_S))

    async def _run_step(self, call: Call, step: Coroutine[Any, Any, None]) -> None:
        with following(call.trace):
            try:
                await step
            except RetryLater as error:
                metrics.count("dependency_errors", dependency=error.dependency)
                self._log.warning("reconcile_later", call=call.call_id, why=error)
            except Exception as error:  # what one table answers must not end the looking at others
                self._log.error("reconcile_failed", error, call=call.call_id, path=call.path)
                if self._is_too_old(call):
                    self._journal.settle_call(call, ())

    def _is_too_old(self, call: Call) -> bool:
        """Return True if the call arrived more than GIVE_UP_MS ago."""
        return self._now_ms() - call.received_ms > GIVE_UP_MS

    async def _examine_call(self, call: Call) -> None:
        try:
            await self._judge_all(call, changes_of(call))
        except (UnreadableCall, TooLong) as error:
            self._log.info("reconcile_by_table", call=call.call_id, why=error)
            await self._observe_table(call)

    async def _judge_all(self, call: Call, changes: tuple[PlannedChange, ...]) -> None:
        old = self._is_too_old(call)
        found = [await self._judge_change(change, give_up=old) for change in changes]
        certain = [change for change in found if change is not None]
        if len(certain) == len(changes) or old:
            self._log.info(
                "reconciled", call=call.call_id, happened=len(certain), asked=len(changes)
            )
            self._recorder.record_changes(call, certain, call.received_ms, "reconciled")

    async def _judge_change(self, change: PlannedChange, give_up: bool) -> PlannedChange | None:
        table = await self._upstream.read_metadata(change.path)
        old = await self._upstream.read_metadata(change.old_path) if change.old_path else None
        found = prove_change(change, table, old)
        if found is None and give_up:
            return present_state(change, table)
        return found

    async def _observe_table(self, call: Call) -> None:
        """Record what the call's table contains. An accepted call is observed once. A call with an
        unknown outcome is observed each time that a table touched since looks different, until it
        is too late for the catalog to be working on it."""
        route = route_of(call.method, call.path)
        if route is None:
            self._journal.settle_call(call, ())
            return
        place = place_of(call, route)
        if place is None:
            self._search_for(call, route)
            return
        table = await self._upstream.read_metadata(place.path, refs_only=True)
        if table is not None and (call.accepted or touched_since(table, call.received_ms)):
            self._record_table(call, place, table)
        if call.accepted or self._is_too_old(call) or (table is None and self._recorder.is_crowded):
            self._journal.settle_call(call, ())

    def _record_table(self, call: Call, place: TablePlace, table: Metadata) -> None:
        recorded = self._recorded.setdefault(call.call_id, {})
        if recorded.get(place.path) != version_of(table):
            recorded[place.path] = version_of(table)
            self._recorder.record_seen(call, observe_table(place, table, call.received_ms))

    def _search_for(self, call: Call, route: CatalogRoute) -> None:
        """Search for the tables of a call: one search at a time, in parallel with all else, for all
        calls with the same root and namespace. A call with an unknown outcome waits until the
        catalog cannot be processing it any more."""
        if not call.accepted and not self._is_too_old(call):
            return
        self._wanted.setdefault((route.root, route.namespace), {})[call.call_id] = call
        if self._search is None or self._search.done():
            calls = list(self._wanted.pop(next(iter(self._wanted))).values())
            self._search = asyncio.create_task(self._run_step(call, self._ask_all(calls)))

    async def _ask_all(self, calls: list[Call]) -> None:
        """Record every table that the calls may have changed. A rename leaves no mark on one."""
        first = min(calls, key=lambda call: call.received_ms)
        routes = [route for call in calls if (route := route_of(call.method, call.path))]
        root, namespace = routes[0].root, routes[0].namespace
        renamed = any(route.kind is CallKind.RENAME for route in routes)
        levels = levels_of(namespace, first.separator) if namespace else None
        async for place, table in self._tables.find_below(root, levels, first.separator):
            if renamed or touched_since(table, first.received_ms):
                self._record_table(first, place, table)
        for call in calls:
            self._journal.settle_call(call, ())
