"""Record each table-changing call, from its request to its event. Nothing here can fail the
call."""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections.abc import AsyncIterator, Coroutine, Hashable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import hdrs
from cachetools import FIFOCache
from firnline_adapters.observability import metrics
from firnline_adapters.observability.traces import current_trace
from firnline_domain.base.values import replace
from firnline_domain.errors import RetryLater
from firnline_domain.records.events import TableChange

from firnline_gateway.capture.reconciler import Reconciler
from firnline_gateway.capture.recorder import EventRecorder
from firnline_gateway.middlewares.middleware import Middleware, Parts, background_tasks
from firnline_gateway.proxy.bodies import Body
from firnline_gateway.proxy.body_memory import Reservation
from firnline_gateway.proxy.exchange import Exchange
from firnline_gateway.proxy.principals import principal_of
from firnline_gateway.proxy.relay import NOTHING_SENT, authorization_of, header_text
from firnline_gateway.rest.call import Call
from firnline_gateway.rest.commit_body import PlannedChange, UnreadableCall, changes_of, uuid_in
from firnline_gateway.rest.outcomes import CommitOutcome, outcome_of
from firnline_gateway.rest.routes import CallKind, CatalogRoute

PATIENCE_S = 0.05  # docs/contribute/architecture.md: no commit waits longer than 50 ms for us
READ_AT_ONCE = 2  # long requests and answers: parsed, one takes ten times its length
ASKED_AT_ONCE = 8  # tables that we load to know their uuid
LAST_READS_S = 30.0  # at the end, for what is still being read
MAX_SIGNS = 1024  # of a header that is remembered
OURS_S = 5.0  # after a commit of ours, in which a writer may lose to it
NAMES = 10_000  # tables whose last commit of ours is remembered
SNAPSHOTS, ALL = "snapshots", "all"  # REST spec: what a load may leave out, and its default


@dataclass(frozen=True)
class PendingCall:
    """A call that is upstream while its intent is being written. `call` has the body where that is
    short and plain; `body` is all there is of it, held by `reservation`."""

    call: Call
    body: Body
    reservation: Reservation
    opened: Future[None]
    dropped: asyncio.Task[str | None] | None = None  # the uuid of a table that is to go


class CommitCapture(Middleware):
    """Remembers calls in the journal and turns accepted ones into events."""

    def __init__(self, parts: Parts, recorder: EventRecorder) -> None:
        self._journal = parts.journal
        self._recorder = recorder
        self._upstream = parts.upstream
        self._log = parts.log
        self._now_ms = parts.now_ms
        self._max_bytes = parts.settings.body_bytes  # of what is looked into, without its encoding
        self._pending: dict[Exchange, PendingCall] = {}
        self._reading = asyncio.Semaphore(READ_AT_ONCE)
        self._asking = asyncio.Semaphore(ASKED_AT_ONCE)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._committed_s = FIFOCache[Hashable, float](NAMES)  # by us, by the table

    @classmethod
    @asynccontextmanager
    async def open(cls, parts: Parts) -> AsyncIterator[CommitCapture]:
        journal, log, now_ms = parts.journal, parts.log, parts.now_ms
        recorder = EventRecorder(journal, log, now_ms)
        reconciler = Reconciler(journal, parts.upstream, recorder, log, now_ms)
        capture = cls(parts, recorder)
        try:
            async with background_tasks(reconciler.run()):
                yield capture
        finally:
            await capture.finish_reading(LAST_READS_S)

    async def before(self, exchange: Exchange) -> None:
        """Start to write the intent of a call that changes a table, and wait for nothing. Nothing
        of the request is parsed before the catalog has accepted it: a caller that may not change
        the table costs only a short row on the disk, while the catalog decides."""
        if (route := exchange.change) is None:
            return
        body = await exchange.keep_body()
        call, dropped = self._build_call(exchange, body), None
        if route.kind in (CallKind.DROP, CallKind.UNREGISTER):
            call, dropped = await self._name_dropped(call, route)
        opened = self._journal.open_call(call)
        self._pending[exchange] = PendingCall(call, body, exchange.reservation, opened, dropped)

    def _build_call(self, exchange: Exchange, body: Body) -> Call:
        request = exchange.request
        return Call(
            call_id=uuid.uuid4().hex,
            method=request.method,
            path=exchange.target,
            catalog=self._upstream.name,
            body=body.at_once,
            received_ms=self._now_ms(),
            separator=exchange.separator,
            user_agent=header_text(request.raw_headers, hdrs.USER_AGENT, MAX_SIGNS),
            principal=exchange.caller or principal_of(authorization_of(request)),
            idempotency_key=header_text(request.raw_headers, "Idempotency-Key", MAX_SIGNS),
            trace=current_trace(),
        )

    async def _name_dropped(
        self, call: Call, route: CatalogRoute
    ) -> tuple[Call, asyncio.Task[str | None]]:
        """Read the uuid of a table that is to go, within 50 ms: a drop names none, and afterwards
        it cannot be read."""
        dropped = self._start_task(self._uuid_before_drop(route.path))
        await asyncio.wait({dropped}, timeout=PATIENCE_S)
        found = dropped.result() if dropped.done() else None
        return replace(call, known_uuid=found or self._recorder.uuid_of(route.path)), dropped

    async def after(self, exchange: Exchange) -> None:
        """Settle a refused call, doubt one whose outcome is unknown, and record an accepted one: a
        short one before the client has its answer."""
        self._measure_metadata(exchange)
        if (pending := self._pending.get(exchange)) is None:
            return
        self._measure_refusal(exchange)
        match _outcome_of(exchange):
            case CommitOutcome.REFUSED:
                if pending.dropped:
                    pending.dropped.cancel()
                self._journal.settle_call(pending.call, ())
            case CommitOutcome.UNKNOWN:
                self._doubt_call(pending)
                await self._wait_until_durable(pending)
            case CommitOutcome.ACCEPTED:
                await self._wait_until_durable(pending)
                if not self._record_at_once(pending):
                    exchange.copy_answer()

    def _measure_metadata(self, exchange: Exchange) -> None:
        """Count the length of an answer that has the whole metadata of a table: to a commit, or to
        a load that leaves nothing out."""
        upstream, change, table = exchange.upstream, exchange.change, exchange.table
        if upstream is None or upstream.status != 200 or table is None:
            return
        wanted = exchange.request.query.getall(SNAPSHOTS, ()) if exchange.load else ()
        if (exchange.load and all(one == ALL for one in wanted)) or (
            change and change.kind is CallKind.COMMIT
        ):
            exchange.answer_length = self._recorder.sizes.of_answer(table, upstream)

    def _measure_refusal(self, exchange: Exchange) -> None:
        """Count a commit of a writer that lost to another one, by whether that may be ours."""
        upstream, change, table = exchange.upstream, exchange.change, exchange.table
        if upstream is None or change is None or change.kind is not CallKind.COMMIT:
            return
        if exchange.is_by_committer:
            if upstream.status == 200:
                self._committed_s[table] = time.monotonic()
        elif upstream.status == 409:
            ours = time.monotonic() - self._committed_s.get(table, -OURS_S) < OURS_S
            metrics.count("gateway_commits_refused", after="ours" if ours else "others")

    async def _wait_until_durable(self, pending: PendingCall) -> None:
        """Wait for the intent, at most 50 ms: the answer is there and the client waits for it."""
        started = time.monotonic()
        opened = asyncio.wrap_future(pending.opened)
        await asyncio.wait({opened}, timeout=PATIENCE_S)
        metrics.observe("gateway_added_seconds", time.monotonic() - started)

    def _doubt_call(self, pending: PendingCall) -> None:
        """Note that the outcome of a call must be read from its tables."""
        call = pending.call
        metrics.count("gateway_unknown")
        self._log.warning("outcome_unknown", call=call.call_id, path=call.path)
        if self._recorder.is_crowded:
            self._journal.settle_call(call, ())
            self._journal.doubt_call(replace(call, call_id=_hash_path(call), body=None))
            return
        self._journal.doubt_call(call)
        if pending.dropped and not call.known_uuid:
            self._start_task(self._doubt_by_uuid(call, pending.dropped))

    async def _doubt_by_uuid(self, call: Call, dropped: asyncio.Task[str | None]) -> None:
        """Doubt a drop again if its uuid came after the intent; without it there is no event."""
        if found := await dropped:
            self._journal.doubt_call(replace(call, known_uuid=found))

    def _record_at_once(self, pending: PendingCall) -> bool:
        """Record the events now; False if that takes longer than a client should wait: the request
        is long or encoded, or only the answer's body can name a table."""
        if pending.call.body is None and pending.body.kept is not None:
            return False
        try:
            changes = changes_of(pending.call)
        except UnreadableCall as error:
            self._recorder.doubt_unreadable(pending.call, error)
            return True
        if any(change.uuid is None for change in changes):
            return False
        self._recorder.record_changes(pending.call, changes, self._now_ms(), "gateway")
        return True

    def finish(self, exchange: Exchange) -> None:
        """Begin to record the events that could not be recorded at once."""
        pending, copy = self._pending.pop(exchange, None), exchange.answer_copy
        if pending is None or copy is None or exchange.upstream is None:
            return
        encoding = exchange.upstream.headers.get(hdrs.CONTENT_ENCODING, "")
        exchange.is_read_later = True
        reading = self._start_task(self._name_and_record(pending, Body(None, copy.whole, encoding)))
        reading.add_done_callback(lambda _: pending.reservation.release())

    async def _name_and_record(self, pending: PendingCall, answer: Body) -> None:
        try:
            changes = [
                change if change.uuid else await self._with_uuid(change, pending, answer)
                for change in await self._read_changes(pending)
            ]
        except UnreadableCall as error:
            self._recorder.doubt_unreadable(pending.call, error)
        except RetryLater as error:
            self._warn_without_uuid(error, call=pending.call.call_id)
            self._journal.doubt_call(replace(pending.call, accepted=True))
        else:
            self._recorder.record_changes(pending.call, changes, self._now_ms(), "gateway")

    async def _read_changes(self, pending: PendingCall) -> tuple[PlannedChange, ...]:
        """Return the planned changes of a call. Short bodies are read at once, so that the next
        call of the same client, which may be about the same table, does not overtake it."""
        if pending.call.body is not None:
            return changes_of(pending.call)
        async with self._reading:
            return await asyncio.to_thread(self._decode_changes, pending)

    def _decode_changes(self, pending: PendingCall) -> tuple[PlannedChange, ...]:
        """Parse the changes of a long or encoded call. Raises UnreadableCall."""
        return changes_of(replace(pending.call, body=pending.body.decoded_bytes(self._max_bytes)))

    async def _with_uuid(
        self, change: PlannedChange, pending: PendingCall, answer: Body
    ) -> PlannedChange:
        """Return the change with the table's uuid: from the answer, else from the catalog, else the
        last one known by that name."""
        found = await pending.dropped if pending.dropped else None
        if found is None:
            found = await self._uuid_in_answer(answer)
        if found is None and change.change is not TableChange.DROPPED:
            found = await self._read_uuid(change.path)
        known = self._recorder.uuid_of(change.old_path or change.path)
        return replace(change, uuid=found or known)

    async def _uuid_in_answer(self, answer: Body) -> str | None:
        """Return the table uuid in an answer; None if it contains none. A short answer is read at
        once, others in a thread."""
        if answer.at_once is not None:
            return uuid_in(answer.at_once)
        async with self._reading:
            plain = await asyncio.to_thread(answer.decoded_bytes, self._max_bytes)
            return await asyncio.to_thread(uuid_in, plain or b"")

    async def _read_uuid(self, path: str) -> str | None:
        async with self._asking:
            table = await self._upstream.read_metadata(path, refs_only=True)
        return str(table["table-uuid"]) if table else None

    async def _uuid_before_drop(self, path: str) -> str | None:
        try:
            return await self._read_uuid(path)
        except RetryLater as error:
            self._warn_without_uuid(error, path=path)
            return None

    def _warn_without_uuid(self, error: RetryLater, **of_call: Any) -> None:
        metrics.count("dependency_errors", dependency=error.dependency)
        self._log.warning("uuid_unknown", **of_call, why=error)

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


def _outcome_of(exchange: Exchange) -> CommitOutcome:
    """Return the outcome of a commit by the answer's status; without an answer REFUSED if nothing
    was sent, else UNKNOWN."""
    if exchange.upstream is not None:
        return outcome_of(exchange.upstream.status)
    never_sent = isinstance(exchange.failure, NOTHING_SENT)
    return CommitOutcome.REFUSED if never_sent else CommitOutcome.UNKNOWN


def _hash_path(call: Call) -> str:
    """Return 32 hexadecimal digits of method and path."""
    return hashlib.sha256(f"{call.method} {call.path}".encode()).hexdigest()[:32]
