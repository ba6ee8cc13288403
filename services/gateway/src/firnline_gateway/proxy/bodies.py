"""Bodies of requests and answers: kept while they are short enough, passed on in pieces where they
are not, and read without their content encodings."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiohttp import hdrs
from aiohttp.http import HttpVersion11
from aiohttp.web import BaseRequest
from aiohttp.web_protocol import RequestPayloadError

from firnline_gateway.proxy.body_memory import SMALL_BYTES, Reservation

PIECE_S = 60.0  # of silence in the middle of a body: by then the client is gone
MAX_ENCODINGS = 2  # one within the other; nobody who is served well sends more
MAX_MEMBERS = 16  # of one gzip body: each costs a copy of what is behind it
_NONE = frozenset({"", "identity"})


class ClientGone(ConnectionError):
    """The client broke off within its body, fell silent, or sent it in no form that HTTP knows."""


class Refused(Exception):
    """The gateway answers a call with this status; nothing was sent to the catalog."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True)
class Body:
    """`kept`: the whole of it, as it was sent; None where it was too long, so that `sent` passes it
    on as it comes. `encoding`: its Content-Encoding."""

    sent: bytes | AsyncIterator[bytes] | None
    kept: bytes | None
    encoding: str = ""

    @property
    def at_once(self) -> bytes | None:
        """Return the body if it can be read with negligible work; None if it is long or encoded."""
        small = self.kept is not None and len(self.kept) <= SMALL_BYTES
        return self.kept if small and not encodings_of(self.encoding) else None

    def decoded_bytes(self, max_bytes: int) -> bytes | None:
        """Return the decoded body; None if it was not kept, cannot be decoded or gets too long."""
        return None if self.kept is None else decode_body(self.kept, self.encoding, max_bytes)


async def body_of(request: BaseRequest, max_bytes: int, reservation: Reservation) -> Body:
    """Read a request's body, and keep it whole if it has at most `max_bytes` and there is room for
    it.

    A kept body has arrived whole before any of it is sent. Raises ClientGone."""
    encoding = request.headers.get(hdrs.CONTENT_ENCODING, "")
    if not request.can_read_body:
        return Body(None, b"", encoding)
    pieces = stream_of(request)
    if (request.content_length or 0) > max_bytes:
        return Body(pieces, None, encoding)
    kept: list[bytes] = []
    size = 0
    async for piece in pieces:
        kept.append(piece)
        size += len(piece)
        if size > max_bytes or not reservation.grow(len(piece)):
            return Body(_replay_pieces(kept, pieces, reservation), None, encoding)
    whole = b"".join(kept)
    return Body(whole, whole, encoding)


async def _replay_pieces(
    read: list[bytes], rest: AsyncIterator[bytes], reservation: Reservation
) -> AsyncIterator[bytes]:
    """Yield the pieces that were read, release their memory, and yield the rest as it arrives."""
    while read:
        yield read.pop(0)
    reservation.release()
    async for piece in rest:
        yield piece


async def stream_of(request: BaseRequest) -> AsyncIterator[bytes]:
    """Yield the body in pieces as they arrive. Raises ClientGone."""
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


class BodyCopy:
    """A copy of a body that passes by, kept while it is short enough and fits in the budget."""

    def __init__(self, max_bytes: int, reservation: Reservation) -> None:
        self._max_bytes = max_bytes
        self._reservation = reservation
        self._pieces: bytearray | None = bytearray()
        self._ended = True

    def add_piece(self, piece: bytes) -> None:
        """Add one more piece."""
        if self._pieces is None:
            return
        fits = len(self._pieces) + len(piece) <= self._max_bytes
        if fits and self._reservation.grow(len(piece)):
            self._pieces += piece
        else:
            self._pieces = None

    async def copy_stream(self, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the pieces of `stream` unchanged as they arrive, and add each to the copy. `whole`
        is None until the stream has ended, if it broke off, and if it was too long."""
        self._ended = False
        async for piece in stream:
            self.add_piece(piece)
            yield piece
        self._ended = True

    @property
    def whole(self) -> bytes | None:
        """Return all pieces; None if they were too long or are incomplete."""
        return bytes(self._pieces) if self._pieces is not None and self._ended else None


def encodings_of(header: str) -> list[str]:
    """Return the encodings in a Content-Encoding, in the order in which they were applied."""
    return [one for part in header.split(",") if (one := part.strip().lower()) not in _NONE]


def decode_body(body: bytes, header: str, max_bytes: int) -> bytes | None:
    """Return the body without its Content-Encoding; None if the gateway cannot decode it, or if it
    has more than `max_bytes`, of which no more are decoded. A megabyte takes 2 ms, so much longer
    bodies belong in a thread; zlib releases the GIL."""
    encodings = encodings_of(header)
    if len(encodings) > MAX_ENCODINGS:
        return None
    found: bytes | None = body
    for encoding in reversed(encodings):
        if found is None:
            return None
        found = _decode_once(found, encoding, max_bytes)
    return found if found is not None and len(found) <= max_bytes else None


def _decode_once(body: bytes, encoding: str, max_bytes: int) -> bytes | None:
    """Decode one encoding. `deflate` comes with a zlib header (RFC 9110) or, from some, without;
    gzip in one piece or, from some, in several."""
    match encoding:
        case "gzip" | "x-gzip":
            window = zlib.MAX_WBITS | 16
        case "deflate":
            window = zlib.MAX_WBITS if body[:1] == b"\x78" else -zlib.MAX_WBITS
        case _:
            return None
    out = bytearray()
    try:
        for _ in range(MAX_MEMBERS):
            stream = zlib.decompressobj(window)
            out += stream.decompress(body, max_bytes + 1 - len(out))
            if not stream.eof or len(out) > max_bytes:
                return None  # broken off, or too much
            body = stream.unused_data.lstrip(b"\0") if window > zlib.MAX_WBITS else b""
            if not body:
                return bytes(out)
    except zlib.error:
        pass
    return None


def encode_body(body: bytes, encoding: str) -> bytes:
    """Return the body in `gzip` or unchanged: the two encodings that the gateway accepts from a
    catalog."""
    return gzip.compress(body, mtime=0) if encoding.strip().lower() == "gzip" else body
