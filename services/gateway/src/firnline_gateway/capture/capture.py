"""One table-changing call, from its request to its event. Nothing here can fail the call."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from cachetools import FIFOCache
from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.record_sizes import Unencodable
from firnline_domain.base.values import replace
from firnline_domain.errors import RetryLater
from firnline_domain.records.events import TableChange, TableCommitted

from firnline_gateway.outbox.journal import OutboxJournal
from firnline_gateway.outbox.outbox import encode_event
from firnline_gateway.proxy.bodies import Body
from firnline_gateway.proxy.body_memory import Reservation
from firnline_gateway.proxy.metadata_sizes import MetadataSizes
from firnline_gateway.proxy.upstream import Upstream
from firnline_gateway.rest.call import Call
from firnline_gateway.rest.commit_body import (
    PlannedChange,
    UnreadableCall,
    changes_of,
    event_of,
    uuid_in,
)
from firnline_gateway.rest.routes import CallKind, CatalogRoute

PATIENCE_S = 0.05  # docs/contribute/architecture.md: no commit waits longer than 50 ms for us
READ_AT_ONCE = 2  # long requests and answers: parsed, one takes ten times its length
ASKED_AT_ONCE = 8  # tables that we load to know their uuid
MAX_BYTES = 8 << 20
MAX_DOUBTS = 1_000  # each with a body of its own, up to `SMALL_BYTES`
NAMES = 10_000  # tables whose uuid is remembered for the moment of their drop


@dataclass(frozen=True)
class PendingCall:
    """A call that is upstream while its intent is being written. `call` has the body where that is
    short and plain; `body` is all there is of it, held by `reservation`."""

    call: Call
    body: Body
    reservation: Reservation
    opened: Future[None]
    dropped: asyncio.Task[str | None] | None = None  # the uuid of a table that is to go


class Capture:
    """Remembers calls in the journal and turns accepted ones into events."""

    def __init__(
        self,
        journal: OutboxJournal,
        upstream: Upstream,
        log: Log,
        now_ms: Callable[[], int],
        sizes: MetadataSizes,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """`max_bytes`: of a request or an answer that is looked into, without its encoding."""
        self._journal = journal
        self._upstream = upstream
        self._log = log
        self._now_ms = now_ms
        self._sizes = sizes
        self._uuids = FIFOCache[str, str](NAMES)  # by the table's path
        self._later: set[str] = set()  # calls whose events are recorded after their answer
        self.doubts = 0  # as the reconciler has last seen them
        self._max_bytes = max_bytes
        self._reading = asyncio.Semaphore(READ_AT_ONCE)
        self._asking = asyncio.Semaphore(ASKED_AT_ONCE)
        self._tasks: set[asyncio.Task[Any]] = set()

    async def begin_call(
        self, call: Call, route: CatalogRoute, body: Body, reservation: Reservation
    ) -> PendingCall:
        """Start to write the intent; return before that is done. Nothing of the request is read
        before the catalog has accepted it: a caller that may not change the table costs only a
        short row on the disk, while the catalog decides. A drop names no uuid, and afterwards it
        cannot be read: it is read first, within 50 ms."""
        dropped = None
        if route.kind in (CallKind.DROP, CallKind.UNREGISTER):
            change = changes_of(call)[0]
            dropped = self._start_task(self._uuid_before_drop(change.path))
            await asyncio.wait({dropped}, timeout=PATIENCE_S)
            found = dropped.result() if dropped.done() else None
            known = self._uuids.get(change.path)
            call = replace(call, known_uuid=found or known)
        opened = self._journal.open_call(call)
        return PendingCall(call, body, reservation, opened, dropped)

    async def wait_until_durable(self, pending: PendingCall) -> None:
        """Wait for the intent, at most 50 ms: the answer is there and the client waits for it."""
        started = time.monotonic()
        opened = asyncio.wrap_future(pending.opened)
        await asyncio.wait({opened}, timeout=PATIENCE_S)
        metrics.observe("gateway_added_seconds", time.monotonic() - started)

    def settle_refused(self, pending: PendingCall) -> None:
        """Settle a call that the catalog refused or that was never sent."""
        if pending.dropped:
            pending.dropped.cancel()
        self._journal.settle_call(pending.call, ())

    @property
    def is_crowded(self) -> bool:
        """Return whether too many outcomes are unknown, because the catalog fails repeatedly:
        doubts are then kept by table."""
        return self.doubts > MAX_DOUBTS

    def doubt_call(self, pending: PendingCall) -> None:
        """Note that the outcome of a call must be read from its tables."""
        metrics.count("gateway_unknown")
        self._log.warning("outcome_unknown", call=pending.call.call_id, path=pending.call.path)
        if self.is_crowded:
            self._journal.settle_call(pending.call, ())
            self._journal.doubt_call(
                replace(pending.call, call_id=_of_path(pending.call), body=None)
            )
            return
        self._journal.doubt_call(pending.call)
        if pending.dropped and not pending.call.known_uuid:
            self._start_task(self._doubt_by_uuid(pending.call, pending.dropped))

    async def _doubt_by_uuid(self, call: Call, dropped: asyncio.Task[str | None]) -> None:
        """The uuid came after the intent was written; without it the drop would have no event."""
        if found := await dropped:
            self._journal.doubt_call(replace(call, known_uuid=found))

    def record_at_once(self, pending: PendingCall) -> bool:
        """Record the events now; False if that takes longer than a client should wait, so that
        it is for `record_later`: the request is long or encoded, or only the answer's body can
        name a table."""
        if pending.call.body is None and pending.body.kept is not None:
            return False
        try:
            changes = changes_of(pending.call)
        except UnreadableCall as error:
            self._doubt_unreadable(pending.call, error)
            return True
        if any(change.uuid is None for change in changes):
            return False
        self.record_changes(pending.call, changes, self._now_ms(), "gateway")
        return True

    def record_later(self, pending: PendingCall, answer: Body) -> None:
        """Record the events while the client already has its answer."""
        self._later.add(pending.call.call_id)
        self._start_task(self._name_and_record(pending, answer)).add_done_callback(
            lambda _: self._release_body(pending)
        )

    def _release_body(self, pending: PendingCall) -> None:
        self._later.discard(pending.call.call_id)
        pending.reservation.release()

    def end_call(self, pending: PendingCall) -> None:
        """Release the body after the client has its answer, unless it is still to be read."""
        if pending.call.call_id not in self._later:
            pending.reservation.release()

    async def _name_and_record(self, pending: PendingCall, answer: Body) -> None:
        try:
            changes = [
                change if change.uuid else await self._with_uuid(change, pending, answer)
                for change in await self._read_changes(pending)
            ]
        except UnreadableCall as error:
            self._doubt_unreadable(pending.call, error)
        except RetryLater as error:
            metrics.count("dependency_errors", dependency=error.dependency)
            self._log.warning("uuid_unknown", call=pending.call.call_id, why=error)
            self._journal.doubt_call(replace(pending.call, accepted=True))
        else:
            self.record_changes(pending.call, changes, self._now_ms(), "gateway")

    async def _read_changes(self, pending: PendingCall) -> tuple[PlannedChange, ...]:
        """Return the planned changes of a call. Short bodies are read at once, so that the next
        call of the same client, which may be about the same table, does not overtake it."""
        if pending.call.body is not None:
            return self._parse_changes(pending)
        async with self._reading:
            return await asyncio.to_thread(self._parse_changes, pending)

    def _parse_changes(self, pending: PendingCall) -> tuple[PlannedChange, ...]:
        """Parse the changes of a call. Raises UnreadableCall."""
        if pending.call.body is not None:
            return changes_of(pending.call)
        return changes_of(replace(pending.call, body=pending.body.decoded_bytes(self._max_bytes)))

    async def _with_uuid(
        self, change: PlannedChange, pending: PendingCall, answer: Body
    ) -> PlannedChange:
        """Return the change with the table's uuid: from the answer, else from the catalog, else the
        last one known by that name."""
        uuid = await pending.dropped if pending.dropped else None
        if uuid is None:
            uuid = await self._uuid_in_answer(answer)
        if uuid is None and change.change is not TableChange.DROPPED:
            uuid = await self._uuid_of(change.path)
        return replace(change, uuid=uuid or self._uuids.get(change.old_path or change.path))

    async def _uuid_in_answer(self, answer: Body) -> str | None:
        """A short answer is read at once, as a short call is."""
        if answer.at_once is not None:
            return uuid_in(answer.at_once)
        async with self._reading:
            plain = await asyncio.to_thread(answer.decoded_bytes, self._max_bytes)
            return await asyncio.to_thread(uuid_in, plain or b"")

    def record_changes(
        self, call: Call, changes: Sequence[PlannedChange], at_ms: int, source: str
    ) -> None:
        """Settle a call with the events of its changes. A table dropped before its uuid could be
        read has no event: it has no key."""
        events = []
        for change in changes:
            if change.uuid is None:
                self._log.error("event_without_uuid", path=change.path, change=change.change)
                continue
            self._cache_uuid(change, change.uuid)
            event = event_of(change, call, change.uuid, at_ms, source)
            events.append(replace(event, metadata_bytes=self._metadata_bytes(event)))
        last = source == "reconciled" and call.body is None  # what the tables say: all there is
        try:
            records = [encode_event(event, at_ms, last) for event in events]
        except Unencodable as error:  # numbers too large, texts of other types: whatever was sent
            self._doubt_unreadable(call, error)
            return
        self._journal.settle_call(call, records)
        for event in events:
            self._log_commit(event)

    def record_seen(self, call: Call, change: PlannedChange) -> None:
        """Record what a table says of itself; the call stays remembered."""
        aside = replace(call, call_id=f"{call.call_id}-seen", body=None)
        self.record_changes(aside, [change], self._now_ms(), "reconciled")

    def _metadata_bytes(self, event: TableCommitted) -> int | None:
        """Return the metadata size from the newest answer, which may precede this commit's."""
        names = (event.table.prefix, *event.table.namespace, event.table.name)
        if event.change is not TableChange.COMMITTED:
            self._sizes.forget_table(names)
        return self._sizes.size_in_bytes(names)

    def _log_commit(self, event: TableCommitted) -> None:
        metrics.count("gateway_commits")
        self._log.info(
            "committed",
            table=event.table,
            change=event.change,
            snapshots=[new.snapshot_id for new in event.snapshots],
            source=event.source,
        )

    def _doubt_unreadable(self, call: Call, error: Exception) -> None:
        """Doubt a call that the gateway cannot read but the catalog has read: its tables show what
        it did."""
        self._log.warning("call_unreadable", path=call.path, why=error)
        metrics.count("gateway_unread")
        self._journal.doubt_call(replace(call, body=None, accepted=True))

    def _cache_uuid(self, change: PlannedChange, uuid: str) -> None:
        for path in (change.path, change.old_path or ""):
            self._uuids.pop(path, None)
        if change.change is not TableChange.DROPPED:
            self._uuids[change.path] = uuid

    async def _uuid_of(self, path: str) -> str | None:
        async with self._asking:
            table = await self._upstream.read_metadata(path, refs_only=True)
        return str(table["table-uuid"]) if table else None

    async def _uuid_before_drop(self, path: str) -> str | None:
        try:
            return await self._uuid_of(path)
        except RetryLater as error:
            metrics.count("dependency_errors", dependency=error.dependency)
            self._log.warning("uuid_unknown", path=path, why=error)
            return None

    def _start_task(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        """Drop the finished task and its exception: the request of a refused call may be
        unreadable."""
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    async def finish_reading(self, timeout_s: float) -> None:
        """Wait for what is still being read or named."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)


def _of_path(call: Call) -> str:
    return hashlib.sha256(f"{call.method} {call.path}".encode()).hexdigest()[:32]
