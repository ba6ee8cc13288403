"""A request's body: kept while it is short enough, passed on in pieces where it is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiohttp import hdrs
from aiohttp.http import HttpVersion11
from aiohttp.web import BaseRequest
from aiohttp.web_protocol import RequestPayloadError

from firnline_gateway.encoding import decoded, encodings_of
from firnline_gateway.room import SMALL_BYTES, Share

PIECE_S = 60.0  # of silence in the middle of a body: by then the client is gone


class ClientGone(ConnectionError):
    """The client broke off within its body, fell silent, or sent it in no form that HTTP knows."""


@dataclass(frozen=True)
class Body:
    """`kept`: the whole of it, as it was sent; None where it was too long, so that `sent` passes it
    on as it comes. `encoding`: its Content-Encoding."""

    sent: bytes | AsyncIterator[bytes] | None
    kept: bytes | None
    encoding: str = ""

    @property
    def at_once(self) -> bytes | None:
        """What can be read with no work to speak of; None for all that is long or encoded."""
        small = self.kept is not None and len(self.kept) <= SMALL_BYTES
        return self.kept if small and not encodings_of(self.encoding) else None

    def plain(self, most_bytes: int) -> bytes | None:
        """Without its encoding; None if it was not kept, cannot be undone or gets too long."""
        return None if self.kept is None else decoded(self.kept, self.encoding, most_bytes)


async def body_of(request: BaseRequest, most_bytes: int, share: Share) -> Body:
    """The body, kept whole if it has `most_bytes` at the most and there is room for it.

    What is kept has arrived whole before any of it is sent. Raises ClientGone.
    """
    encoding = request.headers.get(hdrs.CONTENT_ENCODING, "")
    if not request.can_read_body:
        return Body(None, b"", encoding)
    pieces = stream_of(request)
    if (request.content_length or 0) > most_bytes:
        return Body(pieces, None, encoding)
    kept: list[bytes] = []
    size = 0
    async for piece in pieces:
        kept.append(piece)
        size += len(piece)
        if size > most_bytes or not share.grow(len(piece)):
            return Body(_all_of(kept, pieces, share), None, encoding)
    whole = b"".join(kept)
    return Body(whole, whole, encoding)


async def _all_of(
    read: list[bytes], rest: AsyncIterator[bytes], share: Share
) -> AsyncIterator[bytes]:
    while read:
        yield read.pop(0)
    share.end()
    async for piece in rest:
        yield piece


async def stream_of(request: BaseRequest) -> AsyncIterator[bytes]:
    """The body in pieces as they arrive. Raises ClientGone."""
    await _go_on(request)
    while True:
        try:
            async with asyncio.timeout(PIECE_S):
                piece = await request.content.readany()
        except (RequestPayloadError, OSError, TimeoutError) as error:
            raise ClientGone(f"within the body: {error!r}") from error
        if not piece:
            return
        yield piece


async def _go_on(request: BaseRequest) -> None:
    expects = request.headers.get(hdrs.EXPECT, "").lower() == "100-continue"
    if expects and request.version == HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
