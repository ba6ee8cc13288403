"""An HTTP call in, the catalog's answer out; a call that changed a table leaves an event."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from functools import partial

from aiohttp import ClientResponse, hdrs
from aiohttp.web import BaseRequest, StreamResponse
from firnline_adapters.observability import metrics
from firnline_domain.commits.hold_header import HEADER, HOLD_COMMITS, HOLD_READS, RELEASE
from firnline_domain.commits.load_header import OURS
from firnline_domain.errors import RetryLater
from firnline_domain.identity import CATALOG, PREFIX_HEADER, canonical_prefix

from firnline_gateway.call_delays import Holds, ReadHolds
from firnline_gateway.capture.capture import Capture, PendingCall
from firnline_gateway.proxy.bodies import (
    Body,
    BodyCopy,
    BodyTooLong,
    ClientGone,
    NoRoom,
    body_of,
    decode_body,
    encode_body,
    stream_of,
    whole_of,
)
from firnline_gateway.proxy.body_memory import MemoryBudget, Reservation
from firnline_gateway.proxy.callers import Callers
from firnline_gateway.proxy.metadata_sizes import AnswerLength, MetadataSizes
from firnline_gateway.proxy.principals import principal_of
from firnline_gateway.proxy.relay import (
    FAILURES,
    NOTHING_SENT,
    authorization_of,
    header_text,
    refusal_for,
    refusal_response,
    relay_answer,
    reply_with_body,
    to_upstream,
)
from firnline_gateway.proxy.upstream import TooLong, Upstream, read_whole
from firnline_gateway.reads.scans import HEARD, Scans
from firnline_gateway.reads.table_loads import client_of
from firnline_gateway.rest.call import Call, Names
from firnline_gateway.rest.config_response import (
    Ways,
    prefix_of,
    rewrite_uris,
    separator_in,
    with_prefix,
)
from firnline_gateway.rest.outcomes import CommitOutcome, outcome_of
from firnline_gateway.rest.routes import (
    SPEC_SEPARATOR,
    CallKind,
    CatalogRoute,
    OutsideCatalog,
    TableRoute,
    check_target,
    config_base,
    mount_in,
    reported_table,
    route_of,
    table_loaded,
    table_names,
)
from firnline_gateway.rest.scan_report import MAX_REPORT_BYTES

CONFIG_BYTES = 1 << 20
MAX_SIGNS = 1024  # of a header that is remembered
# Frameworks behind a catalog may take a method from these, and read a GET as a commit.
WRITES = frozenset({CallKind.COMMIT, CallKind.TRANSACTION})
SNAPSHOTS, ALL = "snapshots", "all"  # REST spec: what a load may leave out, and its default
LOADED = frozenset({200, 304})  # 304: the client has kept the table, and may read it all the same
STRANGERS = frozenset({401, 403})  # the catalog's answer to who may not do what they asked for
OVERRIDES = frozenset({"x-http-method-override", "x-http-method", "x-method-override"})


class Gateway:
    """The handler of every call. `separator` is the catalog's, as its last config said it."""

    def __init__(
        self,
        upstream: Upstream,
        capture: Capture,
        read_holds: ReadHolds,
        commit_holds: Holds,
        scans: Scans | None,
        now_ms: Callable[[], int],
        budget: MemoryBudget,
        max_bytes: int,
        sizes: MetadataSizes,
        catalog: str = CATALOG,
        mount: str = "",
        callers: Callers | None = None,
    ) -> None:
        """`catalog`: its name. `mount`: the path below which it is served; "" for none. `scans`:
        None where nobody wants to know how often tables are read. `max_bytes`: of a body that is
        kept to be looked into, if the `budget` has room for it. `sizes`: the `capture`'s, too.
        `callers`: of whom a call is, where it is signed; then a body that is not kept is refused
        with BodyTooLong or NoRoom."""
        self._upstream = upstream
        self._capture = capture
        self._read_holds = read_holds
        self._commit_holds = commit_holds
        self._scans = scans
        self._now_ms = now_ms
        self._budget = budget
        self._max_bytes = max_bytes
        self._sizes = sizes
        self._catalog = catalog
        self._mounts = (mount,)
        self._callers = callers
        self._ways = Ways()
        self.separator = SPEC_SEPARATOR

    async def learn_separator(self) -> None:
        """Load the config for the separator: clients that started before this gateway do not load
        it again."""
        with contextlib.suppress(RetryLater):  # some catalogs want a warehouse; clients name it
            target, config = await self._upstream.read_config()
            self.separator = separator_in(config)
            self._ways.learn_target(target, config)

    async def __call__(self, request: BaseRequest) -> StreamResponse:
        """Answer one call."""
        answer = await self._answer_request(request)
        metrics.count("gateway_calls", status=str(answer.status))
        return answer

    async def _answer_request(self, request: BaseRequest) -> StreamResponse:
        path = self._raw_target(request)
        try:
            check_target(path)
        except OutsideCatalog as error:
            return refusal_response(400, f"{error}; nothing was sent to the catalog")
        if not OVERRIDES.isdisjoint(map(str.lower, request.headers)):
            return refusal_response(
                400, "a call's method is the one in its first line; nothing was sent"
            )
        if (base := config_base(request.method, path)) is not None:
            return await self._pass_config(request, base)
        if (route := route_of(request.method, path)) is not None:
            return await self._pass_change(request, route)
        if (loaded := table_loaded(request.method, path)) is not None:
            return await self._pass_read(request, loaded)
        if (reported := reported_table(request.method, path)) is not None and self._scans:
            return await self._pass_report(request, reported, self._scans)
        return await self._pass_on(request)

    # A call that may change a table: kept, sent, and recorded when the catalog has answered.

    async def _pass_change(self, request: BaseRequest, route: CatalogRoute) -> StreamResponse:
        """Pass on a call that changes a table. A committer's commit ends its hold, whatever the
        catalog answers, unless it rejects the caller; a writer's commit ends its statement."""
        table, by_committer = self._table_names(route), HEADER in request.headers
        if route.kind is CallKind.COMMIT and not by_committer:
            await self._commit_holds.wait_for_release(table)
        answer: StreamResponse | None = None
        try:
            answer = await self._keep_and_send(request, route)
            return answer
        finally:
            if self._scans and route.kind in WRITES and OURS not in request.headers:
                self._scans.note_commit(client_of(request), table)
            if table is not None:
                if self._scans and route.kind is not CallKind.COMMIT:
                    self._scans.forget_table(table)
                if by_committer:
                    if answer is None or answer.status not in STRANGERS:
                        self._release_holds(table)
                else:
                    self._read_holds.end_statement(table, _client_connection(request))

    async def _keep_and_send(self, request: BaseRequest, route: CatalogRoute) -> StreamResponse:
        """A body that can be kept is read whole before any of it is sent: a client that hangs up
        half-way then leaves the catalog untouched."""
        reservation = self._budget.create_reservation(self._caller_name(request))
        try:
            body = await body_of(request, self._max_bytes, reservation)
            if self._callers is not None:
                whole_of(body, reservation, self._max_bytes)
        except ClientGone as gone:
            reservation.release()
            return _broken_off(gone)
        except (BodyTooLong, NoRoom):
            reservation.release()
            raise
        call = self._build_call(request, body)
        pending = await self._capture.begin_call(call, route, body, reservation)
        try:
            return await self._send_change(request, route, pending)
        finally:
            self._capture.end_call(pending)

    async def _send_change(
        self, request: BaseRequest, route: CatalogRoute, pending: PendingCall
    ) -> StreamResponse:
        headers, body = to_upstream(request.raw_headers), pending.body.sent
        try:
            target = pending.call.path
            upstream = await self._upstream.send_call(request.method, target, headers, body)
        except NOTHING_SENT as failure:
            self._capture.settle_refused(pending)
            return refusal_for(failure)
        except FAILURES as failure:
            self._capture.doubt_call(pending)
            await self._capture.wait_until_durable(pending)
            return refusal_for(failure)
        async with upstream:
            match outcome_of(upstream.status):
                case CommitOutcome.REFUSED:
                    self._capture.settle_refused(pending)
                    return await relay_answer(request, upstream)
                case CommitOutcome.UNKNOWN:
                    self._capture.doubt_call(pending)
                    await self._capture.wait_until_durable(pending)
                    return await relay_answer(request, upstream)
                case CommitOutcome.ACCEPTED:
                    await self._capture.wait_until_durable(pending)
                    length = self._answer_length(route, upstream)
                    return await self._relay_and_record(request, upstream, pending, length)

    async def _relay_and_record(
        self,
        request: BaseRequest,
        upstream: ClientResponse,
        pending: PendingCall,
        length: AnswerLength | None,
    ) -> StreamResponse:
        """Relay the answer and record the call; a short call is recorded before the client has its
        answer."""
        if self._capture.record_at_once(pending):
            return await relay_answer(request, upstream, length=length)
        copy = BodyCopy(self._max_bytes, pending.reservation)
        try:
            return await relay_answer(request, upstream, copy, length)
        finally:
            encoding = upstream.headers.get(hdrs.CONTENT_ENCODING, "")
            self._capture.record_later(pending, Body(None, copy.whole, encoding))

    def _answer_length(self, route: CatalogRoute, upstream: ClientResponse) -> AnswerLength | None:
        """Return the length counter of an answer to a commit, which has the table's metadata; None
        for a transaction's."""
        names = self._table_names(route)
        if route.kind is not CallKind.COMMIT or names is None or upstream.status != 200:
            return None
        return self._sizes.of_answer(names, upstream)

    def _build_call(self, request: BaseRequest, body: Body) -> Call:
        return Call(
            call_id=uuid.uuid4().hex,
            method=request.method,
            path=self._raw_target(request),
            catalog=self._catalog,
            body=body.at_once,
            received_ms=self._now_ms(),
            separator=self.separator,
            user_agent=header_text(request.raw_headers, hdrs.USER_AGENT, MAX_SIGNS),
            principal=self._principal(request),
            idempotency_key=header_text(request.raw_headers, "Idempotency-Key", MAX_SIGNS),
        )

    def _principal(self, request: BaseRequest) -> str | None:
        return (
            self._caller_name(request) if self._callers else principal_of(authorization_of(request))
        )

    def _caller_name(self, request: BaseRequest) -> str | None:
        """Return the caller whose share of the memory a body takes; None if the gateway knows no
        callers."""
        return self._callers.name_of(authorization_of(request)) if self._callers else None

    def _table_names(self, route: CatalogRoute) -> tuple[str, ...] | None:
        """Return the names of the one table that a call is about; None if it is about none or
        several."""
        if route.namespace and route.table:
            return table_names(route.root, route.namespace, route.table, self.separator)
        return None

    # Calls that change no table.

    async def _pass_read(self, request: BaseRequest, route: TableRoute) -> StreamResponse:
        """Pass on a load of a table; a client other than Firnline may be about to read it."""
        answer = await self._pass_load(request, route.names(self.separator))
        if self._scans and answer.status in LOADED and OURS not in request.headers:
            headers = to_upstream(request.raw_headers)
            self._scans.note_load(route, self.separator, client_of(request), headers)
        return answer

    async def _pass_load(self, request: BaseRequest, table: tuple[str, ...]) -> StreamResponse:
        """Pass on a load. A committer's load may begin or end a hold once the catalog has let it
        read the table, because any client can send the header. Another client's load may have to
        wait for the end of the hold."""
        said = request.headers.get(HEADER)
        whole = all(one == ALL for one in request.query.getall(SNAPSHOTS, ()))
        sized = table if whole else None
        if said is None:
            await self._read_holds.wait_to_read(table, _client_connection(request))
        ways: dict[str | None, Callable[[tuple[str, ...]], None]] = {
            RELEASE: self._release_holds,
            HOLD_READS: self._read_holds.begin_hold,
            HOLD_COMMITS: self._commit_holds.begin_hold,
        }
        accepted = partial(ways[said], table) if said in ways else None
        return await self._pass_on(request, accepted=accepted, sized=sized)

    def _release_holds(self, table: tuple[str, ...]) -> None:
        self._read_holds.release_hold(table)
        self._commit_holds.release_hold(table)

    async def _pass_report(
        self, request: BaseRequest, table: TableRoute, scans: Scans
    ) -> StreamResponse:
        """Pass on a client's scan report and count a copy of it."""
        headers = to_upstream(request.raw_headers)
        with self._budget.create_reservation(self._caller_name(request)) as reservation:
            copy = BodyCopy(MAX_REPORT_BYTES, reservation)
            answer = await self._pass_on(request, copy)
            if answer.status in HEARD:
                client = client_of(request)
                scans.note_report(table, self.separator, copy.whole, client, headers)
            return answer

    async def _pass_on(
        self,
        request: BaseRequest,
        copy: BodyCopy | None = None,
        accepted: Callable[[], None] | None = None,
        sized: Names | None = None,
    ) -> StreamResponse:
        """Pass on a call. `accepted`: called if the catalog has returned what was requested.
        `sized`: the table whose whole metadata that is."""
        with self._budget.create_reservation(self._caller_name(request)) as reservation:
            try:
                body = await self._body_to_pass(request, copy, reservation)
            except ClientGone as gone:
                return _broken_off(gone)
            return await self._sent_on(request, body, accepted, sized)

    async def _body_to_pass(
        self, request: BaseRequest, copy: BodyCopy | None, reservation: Reservation
    ) -> bytes | AsyncIterator[bytes] | None:
        """Return the body to send on: in pieces as they arrive, or whole if the call is signed.
        Raises BodyTooLong, NoRoom, ClientGone."""
        if not request.can_read_body:
            return None
        if self._callers is None:
            pieces = stream_of(request)
            return pieces if copy is None else copy.copy_stream(pieces)
        body = await body_of(request, self._max_bytes, reservation)
        whole = whole_of(body, reservation, self._max_bytes)
        if copy is not None:
            copy.add_piece(whole)
        return whole

    async def _sent_on(
        self,
        request: BaseRequest,
        body: bytes | AsyncIterator[bytes] | None,
        accepted: Callable[[], None] | None,
        sized: Names | None,
    ) -> StreamResponse:
        headers = to_upstream(request.raw_headers)
        try:
            target = self._raw_target(request)
            upstream = await self._upstream.send_call(request.method, target, headers, body)
        except FAILURES as failure:
            return refusal_for(failure)
        async with upstream:
            if accepted is not None and upstream.status in LOADED:
                accepted()
            length = None
            if sized is not None and upstream.status == 200:
                length = self._sizes.of_answer(sized, upstream)
            return await relay_answer(request, upstream, length=length)

    async def _pass_config(self, request: BaseRequest, base: str) -> StreamResponse:
        """Pass on a config call, the one answer that is changed: the catalog's URIs become the
        gateway's, and a client that requests a prefix is directed to it."""
        headers, target = to_upstream(request.raw_headers), self._raw_target(request)
        wanted = canonical_prefix(request.headers.get(PREFIX_HEADER, ""))
        way = (self._ways.target_for(wanted) if wanted else None) or target
        wants_gzip = "gzip" in headers.get(hdrs.ACCEPT_ENCODING, "").lower()
        headers[hdrs.ACCEPT_ENCODING] = "gzip" if wants_gzip else "identity"
        try:
            upstream = await self._upstream.send_call(request.method, way, headers, None)
            async with upstream:
                body = await read_whole(upstream, CONFIG_BYTES)
        except FAILURES as failure:
            return refusal_for(failure)
        except TooLong:
            return refusal_response(
                502, f"the catalog's config is longer than {CONFIG_BYTES} bytes"
            )
        encoding = upstream.headers.get(hdrs.CONTENT_ENCODING, "")
        plain = decode_body(body, encoding, CONFIG_BYTES)
        if upstream.status == 200 and plain is not None:
            self.separator = separator_in(plain)
            self._ways.learn_target(way, plain)
            mount = mount_in(request.raw_path, self._mounts)
            origin = _client_origin(request)
            ours = rewrite_uris(plain, self._upstream.base, f"{origin}{mount}{base}", mount)
            if wanted and wanted != prefix_of(plain):
                ours = with_prefix(ours, wanted)
            body = body if ours == plain else encode_body(ours, encoding)
        return await reply_with_body(request, upstream, body)

    def _raw_target(self, request: BaseRequest) -> str:
        """Return the request's target as the catalog knows it."""
        return request.raw_path.removeprefix(mount_in(request.raw_path, self._mounts))


def _broken_off(gone: ClientGone) -> StreamResponse:
    answer = refusal_response(400, f"the request broke off {gone}; nothing was sent to the catalog")
    answer.force_close()
    return answer


def _client_connection(request: BaseRequest) -> object:
    """Return the client's connection."""
    return request.transport.get_extra_info("peername") if request.transport else None


def _client_origin(request: BaseRequest) -> str:
    """Return the origin that the client uses: behind a TLS terminator the `X-Forwarded` headers
    count."""
    scheme = request.headers.get("X-Forwarded-Proto", request.scheme).partition(",")[0].strip()
    host = request.headers.get("X-Forwarded-Host", request.host).partition(",")[0].strip()
    return f"{scheme}://{host}"
