"""Bytes through, in both directions, as they came.

What is not passed on is what HTTP defines as belonging to one connection (RFC 9110, 7.6.1), and
`Host`, which must name the catalog. Nothing is added.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Sequence

from aiohttp import ClientConnectorError, ClientError, ClientResponse, ConnectionTimeoutError, hdrs
from aiohttp.web import BaseRequest, Response, StreamResponse
from firnline_domain.identity import PREFIX_HEADER
from multidict import CIMultiDict

from firnline_gateway.proxy.bodies import BodyCopy
from firnline_gateway.proxy.metadata_sizes import AnswerLength
from firnline_gateway.proxy.principals import MAX_TOKEN
from firnline_gateway.proxy.upstream import NotSigned

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# We answer `Expect: 100-continue` ourselves, and questions for a prefix.
_OURS_ALONE = frozenset({"host", "expect", PREFIX_HEADER.lower()})
NOTHING_SENT = (ClientConnectorError, ConnectionTimeoutError, NotSigned)
FAILURES = (ClientError, OSError, TimeoutError)


RawHeaders = Sequence[tuple[bytes, bytes]]


def end_to_end(raw: RawHeaders) -> CIMultiDict[str]:
    """Return the headers to pass on, in their spelling and order, repeated ones too."""
    headers = CIMultiDict((_decode_header(name), _decode_header(value)) for name, value in raw)
    named = ",".join(headers.getall(hdrs.CONNECTION, [])).lower().split(",")
    stay = _HOP_BY_HOP.union(name.strip() for name in named)
    return CIMultiDict((name, text) for name, text in headers.items() if name.lower() not in stay)


def to_upstream(raw: RawHeaders) -> CIMultiDict[str]:
    """Return the headers of a request to the catalog."""
    headers = end_to_end(raw)
    return CIMultiDict((n, text) for n, text in headers.items() if n.lower() not in _OURS_ALONE)


def _decode_header(raw: bytes) -> str:
    """Decode a header. aiohttp writes headers as strict UTF-8; a stray byte must not cost a commit
    its answer."""
    return raw.decode(errors="replace")


def header_text(raw: RawHeaders, name: str, max_signs: int) -> str | None:
    """Return a header's text as an event can carry it: stray bytes replaced, at most `max_signs`
    characters. None without the header."""
    wanted = name.lower().encode()
    found = next((value for spelt, value in raw if spelt.lower() == wanted), None)
    return None if found is None else _decode_header(found[: 4 * max_signs])[:max_signs]


def authorization_of(request: BaseRequest) -> str | None:
    """Return the `Authorization` header of a call."""
    return header_text(request.raw_headers, hdrs.AUTHORIZATION, MAX_TOKEN)


class ProxiedResponse(StreamResponse):
    """A response with the catalog's headers and no others."""

    async def _prepare_headers(self) -> None:
        sent = self.headers.copy()
        await super()._prepare_headers()
        for added in (hdrs.CONTENT_TYPE, hdrs.DATE, hdrs.SERVER):
            if added not in sent:
                self.headers.popall(added, None)
        if hdrs.CONTENT_LENGTH in sent:  # aiohttp takes it out of a 304
            self.headers.setdefault(hdrs.CONTENT_LENGTH, sent[hdrs.CONTENT_LENGTH])


def answer_to(upstream: ClientResponse) -> ProxiedResponse:
    """Build the gateway's answer with the status and headers of the catalog's."""
    headers = end_to_end(upstream.raw_headers)
    return ProxiedResponse(status=upstream.status, reason=upstream.reason, headers=headers)


async def relay_answer(
    request: BaseRequest,
    upstream: ClientResponse,
    copy: BodyCopy | None = None,
    length: AnswerLength | None = None,
) -> StreamResponse:
    """Pass the catalog's answer on as it arrives. `length` counts it, if the client stays. With
    `copy` the body is read to its end even if the client has disconnected, and kept there. If the
    catalog breaks off, the client's connection is closed: half a body must not look complete."""
    answer = answer_to(upstream)
    try:
        listening = await _client_accepts(answer.prepare(request))
        async for piece in upstream.content.iter_any():
            if copy is not None:
                copy.add_piece(piece)
            elif not listening:
                return answer
            if length is not None:
                length.add_piece(piece)
            listening = listening and await _client_accepts(answer.write(piece))
        if length is not None:
            length.mark_complete()
    except FAILURES:
        if request.transport is not None:
            request.transport.abort()
    return answer


async def reply_with_body(
    request: BaseRequest, upstream: ClientResponse, body: bytes
) -> StreamResponse:
    """Return the catalog's answer with a body of the gateway."""
    answer = answer_to(upstream)
    answer.content_length = len(body)
    if await _client_accepts(answer.prepare(request)):
        await _client_accepts(answer.write(body))
    return answer


async def _client_accepts(step: Awaitable[object]) -> bool:
    """Run a step of the answer. Return False if the client has disconnected."""
    try:
        await step
    except ConnectionError:
        return False
    return True


def refusal_response(status: int, why: str) -> Response:
    """Return an answer of the gateway, in the form of the REST spec's ErrorModel. 503 only if
    nothing was sent to the catalog: with Retry-After, every client may then send the call again.
    502 and 504 mean that the outcome is unknown, and clients check before they retry."""
    error = {"message": f"Firnline gateway: {why}", "type": "GatewayException", "code": status}
    headers = {hdrs.RETRY_AFTER: "1"} if status == 503 else {}
    body = json.dumps({"error": error}).encode()
    return Response(status=status, body=body, content_type="application/json", headers=headers)


def refusal_for(failure: BaseException) -> Response:
    """Return the response for a call if the catalog could not be reached or did not answer."""
    if isinstance(failure, NotSigned):
        return refusal_response(503, f"{failure}; nothing was sent to it")
    if isinstance(failure, NOTHING_SENT):
        return refusal_response(503, "the catalog cannot be reached; nothing was sent to it")
    if isinstance(failure, TimeoutError):
        return refusal_response(504, "the catalog did not answer in time; the outcome is unknown")
    return refusal_response(502, "the catalog's connection broke; the outcome is unknown")
