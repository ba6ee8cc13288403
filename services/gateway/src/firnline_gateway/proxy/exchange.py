"""One call of a client and its answer, from the first line to the last byte."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cached_property

from aiohttp import ClientResponse
from aiohttp.web import BaseRequest, StreamResponse
from firnline_domain.commits.hold_header import HEADER
from firnline_domain.commits.load_header import OURS
from multidict import CIMultiDict

from firnline_gateway.proxy.bodies import Body, BodyCopy, Refused, body_of, stream_of
from firnline_gateway.proxy.body_memory import MemoryBudget, Reservation
from firnline_gateway.proxy.metadata_sizes import AnswerLength
from firnline_gateway.proxy.relay import to_upstream
from firnline_gateway.rest.call import Names
from firnline_gateway.rest.routes import (
    SPEC_SEPARATOR,
    config_base,
    reported_table,
    route_of,
    table_loaded,
    table_names,
)

LOADED = frozenset({200, 304})  # 304: the client has kept the table, and may read it all the same


class Exchange:
    """A call and its answer. Before the call is sent, middlewares change `target`, `headers` and
    `body`; after the catalog's `upstream` or a `failure` they may set the `answer`.

    `mount`: the beginning of the path that names the catalog. At most one is set of `config_base`,
    `change`, `load` and `report`: what the call is about. `is_by_committer`, `is_ours`: the client
    says so. `caller`: its name, if the gateway knows callers; `is_signed`: the body is sent whole
    or not at all. `is_read_later`: the reader of the body releases the reservation.
    """

    def __init__(
        self, request: BaseRequest, mount: str, budget: MemoryBudget, max_bytes: int
    ) -> None:
        """Classify a request by its method and target. `max_bytes`: of a body that is kept to be
        read, if the `budget` has room for it."""
        method, target = request.method, request.raw_path.removeprefix(mount)
        self.request = request
        self.mount = mount
        self.target = target
        self.config_base = config_base(method, target)
        self.change = route_of(method, target)
        self.load = table_loaded(method, target)
        self.report = None if self.change else reported_table(method, target)
        self.is_by_committer = HEADER in request.headers
        self.is_ours = OURS in request.headers
        self.separator = SPEC_SEPARATOR
        self.caller: str | None = None
        self.is_signed = False
        self.body: Body | None = None
        self.body_copy: BodyCopy | None = None  # of one that is passed on
        self.upstream: ClientResponse | None = None
        self.failure: BaseException | None = None
        self.answer: StreamResponse | None = None
        self.answer_copy: BodyCopy | None = None
        self.answer_length: AnswerLength | None = None
        self.is_read_later = False
        self._budget = budget
        self._max_bytes = max_bytes

    @cached_property
    def headers(self) -> CIMultiDict[str]:
        """Return the headers to send to the catalog."""
        return to_upstream(self.request.raw_headers)

    @cached_property
    def reservation(self) -> Reservation:
        """Return the memory that the bodies take, out of the share of the caller."""
        return self._budget.create_reservation(self.caller)

    @cached_property
    def table(self) -> Names | None:
        """Return the names of the one table that the call is about; None for none or several."""
        route = self.change or self.load or self.report
        if route is None or not route.namespace or not route.table:
            return None
        return table_names(route.root, route.namespace, route.table, self.separator)

    @property
    def is_loaded(self) -> bool:
        """Return whether the catalog has let the client read a table."""
        upstream = self.upstream
        return self.load is not None and upstream is not None and upstream.status in LOADED

    async def keep_body(self) -> Body:
        """Return the body, read whole before any of it is sent: a client that hangs up half-way
        then leaves the catalog untouched. Raises ClientGone, and Refused if it has to be signed
        and is too long."""
        if self.body is None:
            self.body = await body_of(self.request, self._max_bytes, self.reservation)
            if self.is_signed and self.body.kept is None:
                raise self._refuse_body()
        return self.body

    def _refuse_body(self) -> Refused:
        if self.reservation.is_refused:
            why = "the gateway has no memory for the body now: send the call again"
            return Refused(503, f"{why}; nothing was sent to the catalog")
        why = f"the body is longer than the {self._max_bytes:,} bytes that the gateway signs"
        return Refused(413, f"{why}; nothing was sent to the catalog")

    async def body_to_send(self) -> bytes | AsyncIterator[bytes] | None:
        """Return the body: in pieces as they arrive, unless it is kept or signed. Raises as
        `keep_body`."""
        copy = self.body_copy
        if self.body is None and not self.is_signed and self.request.can_read_body:
            pieces = stream_of(self.request)
            return pieces if copy is None else copy.copy_stream(pieces)
        sent = (await self.keep_body()).sent
        if copy is not None and isinstance(sent, bytes):
            copy.add_piece(sent)
        return sent

    def copy_answer(self) -> None:
        """Keep a copy of the answer's body, which is read to its end even if the client leaves."""
        self.answer_copy = BodyCopy(self._max_bytes, self.reservation)
