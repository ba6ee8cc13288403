"""The catalog behind us: calls passed on as they came, and a few reads of our own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
    TraceConfig,
)
from firnline_domain.errors import CatalogRefused, CatalogUnreachable, RetryLater
from firnline_iceberg.connection.auth import identity_of, tls_context
from firnline_iceberg.connection.call_metrics import count_call, declare_catalogs
from firnline_iceberg.connection.connection import CatalogConnection
from multidict import CIMultiDict
from yarl import URL

from firnline_gateway.rest.routes import OutsideCatalog, check_target
from firnline_gateway.rest.spec import UNREADABLE, Listing, LoadTableResponse, read_known
from firnline_gateway.rest.table_layout import Loaded, loaded_table

CONNECT_S = 10.0
OWN_READ_S = 30.0
# Idle connections are dropped before common servers drop them (Node and uvicorn: 5 s): a commit
# sent into a closing connection would end in an unknown state for nothing.
IDLE_S = 4.0
HEADER_BYTES = 64 * 1024  # tokens of large identity providers exceed aiohttp's 8 kB
DNS_S = 10
ANSWER_BYTES = 32 << 20  # of an answer to ourselves: parsed, it takes ten times as much
PAGE = 1000  # names in one page of a listing
# aiohttp must not add what the client did not send.
# Headers of a call that are of no use to another one, or wrong with it.
_OF_ITS_CALL = frozenset(
    {
        "accept",
        "accept-encoding",
        "content-encoding",
        "content-length",
        "content-md5",
        "content-type",
        "digest",
        "idempotency-key",
        "if-none-match",
        "x-iceberg-access-delegation",  # or we were sent keys to the storage
    }
)
_NOTHING_ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


SignHeaders = Callable[[str, str, Mapping[str, str], bytes | None], Awaitable[CIMultiDict[str]]]


class TooLong(RetryLater):
    """The catalog has answered with more than we read of one answer."""


class NotSigned(OSError):
    """There are no keys to sign with, so nothing was sent."""


class Upstream:
    """One catalog. Reads may be tried twice on a connection that just closed, as any client
    would; whatever may change something is sent once.

    With `sign_headers` every call goes out as our own, so whoever calls must have been judged
    before, and every body must be whole.
    """

    def __init__(self, catalog: CatalogConnection, timeout_s: float) -> None:
        self.base = catalog.uri.rstrip("/")
        self.name = catalog.name
        self.identity = identity_of(catalog)
        self.sign_headers: SignHeaders | None = None
        self._headers = own_headers(catalog)
        self._warehouse = catalog.warehouse
        # No limit: a queue here would slow the writers.
        self._connector = TCPConnector(
            limit=0,
            keepalive_timeout=IDLE_S,
            ttl_dns_cache=DNS_S,
            ssl=tls_context(catalog) or True,
        )
        patience = ClientTimeout(total=None, connect=CONNECT_S, sock_read=timeout_s)
        declare_catalogs([self.name])
        self._reads = self._create_session(patience)
        self._writes = self._create_session(patience)
        self._writes._retry_connection = False  # else a lost DELETE is sent again (aiohttp 3.14)

    def _create_session(self, timeout: ClientTimeout) -> ClientSession:
        return ClientSession(
            connector=self._connector,
            connector_owner=False,
            timeout=timeout,
            auto_decompress=False,
            cookie_jar=DummyCookieJar(),  # one client's cookies are not another's
            max_line_size=HEADER_BYTES,
            max_field_size=HEADER_BYTES,
            trace_configs=[_trace_calls(self.name)],
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._reads.close()
        await self._writes.close()
        await self._connector.close()

    async def send_call(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | AsyncIterator[bytes] | None,
    ) -> ClientResponse:
        """Pass one call on; `path` is raw. Headers are sent as given, plus Host, and signed if the
        catalog is signed for. Raises aiohttp.ClientConnectorError, ConnectionTimeoutError and
        NotSigned if nothing was sent; other ClientError, OSError or TimeoutError if the outcome is
        unknown; OutsideCatalog if the path could lead outside the base, and nothing was sent."""
        session = self._reads if method in ("GET", "HEAD", "OPTIONS") else self._writes
        url = self._url_below_base(path)
        in_pieces = body is not None and "Content-Length" not in headers
        if self.sign_headers is not None:
            assert body is None or isinstance(body, bytes)
            in_pieces = False
            try:
                headers = await self.sign_headers(method, str(url), headers, body)
            except RetryLater as error:
                raise NotSigned(str(error)) from error
        return await session.request(
            method,
            url,
            headers=headers,
            data=body,
            chunked=True if in_pieces else None,
            allow_redirects=False,
            skip_auto_headers=_NOTHING_ADDED,
        )

    def _url_below_base(self, path: str) -> URL:
        """Return the URL of a path, from a client's target or a body. No credential, and least of
        all the gateway's, is sent anywhere but below the base."""
        check_target(path)
        return URL(self.base + path, encoded=True)

    async def read_metadata(self, path: str, refs_only: bool = False) -> dict[str, Any] | None:
        """Return the fields of `rest_spec` in the metadata JSON of the table at this raw path; None
        if there is no table. `refs_only`: only the snapshots that a branch or tag points to. Reads
        with the gateway's own credential. Raises RetryLater if the catalog does not return the
        table, TooLong."""
        body = await self._get_or_none(f"{path}?snapshots=refs" if refs_only else path)
        if body is None:
            return None
        try:
            return dict((await asyncio.to_thread(read_known, body, LoadTableResponse))["metadata"])
        except UNREADABLE as error:
            raise CatalogUnreachable(f"GET {path}: no table: {error!r}") from error

    async def read_page(self, path: str, what: str, token: str) -> tuple[list[Any], str]:
        """Return a page of a listing, and the token of the next one, "" after the last. Reads with
        the gateway's own credential. Raises RetryLater if the catalog does not return it."""
        mark = "&" if "?" in path else "?"
        body = await self._get_or_none(
            f"{path}{mark}pageToken={quote(token, safe='')}&pageSize={PAGE}"
        )
        try:
            page = await asyncio.to_thread(read_known, body or b"{}", Listing)
            return list(page.get(what) or ()), page.get("next-page-token") or ""
        except UNREADABLE as error:
            raise CatalogUnreachable(f"GET {path}: no listing: {error!r}") from error

    async def _get_or_none(self, path: str) -> bytes | None:
        status, body = await self._get_with_retry(path)
        if status == 404:
            return None
        if status != 200:
            raise self._unreachable_error(path, status)
        return body

    async def load_as_client(self, path: str, headers: Mapping[str, str]) -> Loaded | None:
        """Load the table at this raw path as the client that sent these headers; None if there is
        no table. Raises RetryLater if the catalog does not return it."""
        theirs = [(name, one) for name, one in headers.items() if name.lower() not in _OF_ITS_CALL]
        status, body = await self._get_with_retry(path, CIMultiDict(theirs))
        if status == 404:
            return None
        if status != 200:
            raise CatalogUnreachable(f"GET {path}: {status}")
        return await asyncio.to_thread(loaded_table, body)

    async def read_config(self) -> tuple[str, bytes]:
        """Return the target that was read, and the catalog's config for a client with the gateway's
        settings. Raises RetryLater if the catalog does not return it."""
        path = "/v1/config"
        if self._warehouse:
            path += f"?warehouse={quote(self._warehouse, safe='')}"
        status, body = await self._get_with_retry(path)
        if status != 200:
            raise self._unreachable_error(path, status)
        return path, body

    def _unreachable_error(self, path: str, status: int) -> RetryLater:
        text = f"GET {path}: {status}"
        if status not in (401, 403):
            return CatalogUnreachable(text)
        refused = "does not take who we are" if status == 401 else "does not let us"
        text = f"catalog {self.name} {refused}: {text}; see [catalogs.{self.name}]"
        return CatalogRefused(text, self.name if status == 401 else path)

    async def _get_with_retry(
        self, path: str, credential: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Read a path. `credential`: headers to read with, None = the gateway's own."""
        if credential is not None or self.sign_headers is not None:
            return await self._get_once(path, self._headers if credential is None else credential)
        # In threads: a token may have to be asked for.
        who = await asyncio.to_thread(self.identity.auth_headers, "GET", self.base + path)
        status, body = await self._get_once(path, {**self._headers, **who})
        if status == 401 and await asyncio.to_thread(self.identity.renew_after, who):
            who = await asyncio.to_thread(self.identity.auth_headers, "GET", self.base + path)
            status, body = await self._get_once(path, {**self._headers, **who})
        return status, body

    async def _get_once(self, path: str, credential: Mapping[str, str]) -> tuple[int, bytes]:
        headers = CIMultiDict(credential)
        headers["Accept"] = "application/json"
        try:
            async with (
                asyncio.timeout(OWN_READ_S),
                await self.send_call("GET", path, headers, None) as answer,
            ):
                return answer.status, await read_whole(answer, ANSWER_BYTES)
        except OutsideCatalog as error:  # its name leads elsewhere, so no catalog has that table
            return 404, str(error).encode()
        except TooLong as error:
            raise TooLong(f"GET {path}: {error}") from error
        except (ClientError, OSError, TimeoutError) as error:
            raise CatalogUnreachable(f"GET {path}: {error!r}") from error


def _trace_calls(catalog: str) -> TraceConfig:
    """Return a trace that adds each call to the metrics of a catalog."""

    async def on_start(_: ClientSession, call: Any, __: Any) -> None:
        call.began_s = time.monotonic()

    async def on_answer(_: ClientSession, call: Any, found: Any) -> None:
        status = found.response.status
        count_call(catalog, found.method, time.monotonic() - call.began_s, status)

    async def on_failure(_: ClientSession, call: Any, found: Any) -> None:
        if not isinstance(found.exception, asyncio.CancelledError):  # the client has gone
            count_call(catalog, found.method, time.monotonic() - call.began_s, None)

    counting = TraceConfig()
    counting.on_request_start.append(on_start)
    counting.on_request_end.append(on_answer)
    counting.on_request_exception.append(on_failure)
    return counting


def own_headers(catalog: CatalogConnection) -> dict[str, str]:
    """Return the gateway's own headers for a catalog, without a request for storage credentials."""
    found = catalog.request_headers()
    return {name: one for name, one in found.items() if name.lower() not in _OF_ITS_CALL}


async def read_whole(answer: ClientResponse, max_bytes: int) -> bytes:
    """Read an answer's whole body. Raises TooLong."""
    found = bytearray()
    async for piece in answer.content.iter_any():
        found += piece
        if len(found) > max_bytes:
            answer.close()
            raise TooLong(f"an answer of more than {max_bytes} bytes")
    return bytes(found)
