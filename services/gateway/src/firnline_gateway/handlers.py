"""An HTTP call in, the catalog's answer out: through a chain of middlewares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from aiohttp.web import BaseRequest, StreamResponse
from firnline_adapters.observability import metrics
from firnline_adapters.observability.traces import HEADER as TRACEPARENT
from firnline_adapters.observability.traces import following, new_trace, parse_traceparent

from firnline_gateway.middlewares.middleware import Middleware
from firnline_gateway.proxy.bodies import ClientGone, Refused
from firnline_gateway.proxy.body_memory import MemoryBudget
from firnline_gateway.proxy.exchange import Exchange
from firnline_gateway.proxy.relay import FAILURES, refusal_for, refusal_response, relay_answer
from firnline_gateway.proxy.upstream import Upstream
from firnline_gateway.rest.routes import mount_in


class Gateway:
    """The handler of every call to one catalog."""

    def __init__(
        self, upstream: Upstream, chain: Sequence[Middleware], budget: MemoryBudget, max_bytes: int
    ) -> None:
        """Serve one catalog. `chain`: a call passes it in this order, an answer in reverse.
        `max_bytes`: of a body that is kept to be read, if the `budget` has room for it."""
        self._upstream = upstream
        self._chain = chain
        self._budget = budget
        self._max_bytes = max_bytes

    async def answer_call(self, request: BaseRequest, mount: str) -> StreamResponse:
        """Answer one call. `mount`: the beginning of its path that names the catalog."""
        trace = parse_traceparent(request.headers.get(TRACEPARENT)) or new_trace()
        with following(trace):
            return await self._answer_followed(request, mount)

    async def _answer_followed(self, request: BaseRequest, mount: str) -> StreamResponse:
        try:
            answer = await self._run_chain(Exchange(request, mount, self._budget, self._max_bytes))
        except Refused as refused:
            answer = refusal_response(refused.status, str(refused))
        except ClientGone as gone:
            why = f"the request broke off {gone}; nothing was sent to the catalog"
            answer = refusal_response(400, why)
            answer.force_close()
        metrics.count("gateway_calls", status=str(answer.status))
        return answer

    async def _run_chain(self, exchange: Exchange) -> StreamResponse:
        with ExitStack() as entered:  # none of them keeps the others from their end
            entered.callback(_release_memory, exchange)
            for middleware in self._chain:
                entered.callback(middleware.finish, exchange)
                await middleware.before(exchange)
            exchange.answer = await self._send_call(exchange)
            return exchange.answer

    async def _send_call(self, exchange: Exchange) -> StreamResponse:
        request, body = exchange.request, await exchange.body_to_send()
        try:
            upstream = await self._upstream.send_call(
                request.method, exchange.target, exchange.headers, body
            )
        except FAILURES as failure:
            exchange.failure = failure
            await self._handle_answer(exchange)
            return refusal_for(failure)
        async with upstream:
            exchange.upstream = upstream
            await self._handle_answer(exchange)
            return exchange.answer or await relay_answer(
                request, upstream, exchange.answer_copy, exchange.answer_length
            )

    async def _handle_answer(self, exchange: Exchange) -> None:
        for middleware in reversed(self._chain):
            await middleware.after(exchange)


def _release_memory(exchange: Exchange) -> None:
    if not exchange.is_read_later:
        exchange.reservation.release()


class Gateways:
    """The handler of every call. `/archive/v1/...` is for the catalog `archive`; what names none is
    for the first one, which clients from before there were several reach so."""

    def __init__(self, catalogs: Mapping[str, Gateway], mounted: bool) -> None:
        """Serve several catalogs. `mounted`: False if the first segment of a path is not a
        catalog's name, but part of the catalog's own path."""
        self.catalogs = catalogs
        self._first = next(iter(catalogs))
        self._names = frozenset(catalogs) if mounted else frozenset()

    async def __call__(self, request: BaseRequest) -> StreamResponse:
        """Answer one call."""
        mount = mount_in(request.raw_path, self._names)
        return await self.catalogs[mount.strip("/") or self._first].answer_call(request, mount)
