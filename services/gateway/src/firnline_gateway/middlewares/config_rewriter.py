"""Change the one answer that a transparent proxy must change, `/v1/config`, and learn from it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiohttp import hdrs
from aiohttp.web import BaseRequest, StreamResponse
from firnline_domain.errors import RetryLater
from firnline_domain.identity import PREFIX_HEADER, canonical_prefix

from firnline_gateway.middlewares.middleware import Middleware, Parts, background_tasks
from firnline_gateway.proxy.bodies import Body, decode_body, encode_body
from firnline_gateway.proxy.exchange import Exchange
from firnline_gateway.proxy.relay import FAILURES, refusal_for, refusal_response, reply_with_body
from firnline_gateway.proxy.upstream import TooLong, Upstream, read_whole
from firnline_gateway.rest.config_response import (
    Ways,
    prefix_of,
    rewrite_uris,
    separator_in,
    with_prefix,
)
from firnline_gateway.rest.routes import SPEC_SEPARATOR

CONFIG_BYTES = 1 << 20


class ConfigRewriter(Middleware):
    """The catalog's URIs become the gateway's, and a client that requests a prefix is directed to
    it. `separator` is the catalog's, as its last config said it."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._ways = Ways()
        self.separator = SPEC_SEPARATOR

    @classmethod
    @asynccontextmanager
    async def open(cls, parts: Parts) -> AsyncIterator[ConfigRewriter]:
        found = cls(parts.upstream)
        async with background_tasks(found.learn_separator()):
            yield found

    async def learn_separator(self) -> None:
        """Load the config for the separator: clients that started before this gateway do not load
        it again."""
        with suppress(RetryLater):  # some catalogs want a warehouse; clients name it
            target, config = await self._upstream.read_config()
            self.separator = separator_in(config)
            self._ways.learn_target(target, config)

    async def before(self, exchange: Exchange) -> None:
        exchange.separator = self.separator
        if exchange.config_base is None:
            return
        wants_gzip = "gzip" in exchange.headers.get(hdrs.ACCEPT_ENCODING, "").lower()
        exchange.headers[hdrs.ACCEPT_ENCODING] = "gzip" if wants_gzip else "identity"
        exchange.body = Body(None, b"")
        if way := self._ways.target_for(_wanted_prefix(exchange.request)):
            exchange.target = way

    async def after(self, exchange: Exchange) -> None:
        if exchange.config_base is not None and exchange.upstream is not None:
            exchange.answer = await self._answer_config(exchange, exchange.config_base)

    async def _answer_config(self, exchange: Exchange, base: str) -> StreamResponse:
        request, upstream = exchange.request, exchange.upstream
        assert upstream is not None
        try:
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
            self._ways.learn_target(exchange.target, plain)
            client = f"{_client_origin(request)}{exchange.mount}{base}"
            ours = rewrite_uris(plain, self._upstream.base, client, exchange.mount)
            wanted = _wanted_prefix(request)
            if wanted and wanted != prefix_of(plain):
                ours = with_prefix(ours, wanted)
            body = body if ours == plain else encode_body(ours, encoding)
        return await reply_with_body(request, upstream, body)


def _wanted_prefix(request: BaseRequest) -> str:
    return canonical_prefix(request.headers.get(PREFIX_HEADER, ""))


def _client_origin(request: BaseRequest) -> str:
    """Return the origin that the client uses: behind a TLS terminator the `X-Forwarded` headers
    count."""
    scheme = request.headers.get("X-Forwarded-Proto", request.scheme).partition(",")[0].strip()
    host = request.headers.get("X-Forwarded-Host", request.host).partition(",")[0].strip()
    return f"{scheme}://{host}"
