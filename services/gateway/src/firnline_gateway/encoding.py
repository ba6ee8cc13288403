"""Content encodings, where a body must be read and not only passed on."""

from __future__ import annotations

import gzip
import zlib

MOST_ENCODINGS = 2  # one within the other; nobody who is served well sends more
MOST_MEMBERS = 16  # of one gzip body: each costs a copy of what is behind it
_NONE = frozenset({"", "identity"})


def encodings_of(header: str) -> list[str]:
    """The encodings that a Content-Encoding names, in the order in which they were done."""
    return [one for part in header.split(",") if (one := part.strip().lower()) not in _NONE]


def decoded(body: bytes, header: str, most_bytes: int) -> bytes | None:
    """The body without its Content-Encoding; None if we cannot undo that one, or if more than
    `most_bytes` come out of it, of which no more are made.

    A megabyte takes 2 ms, so much that is longer belongs in a thread; zlib lets the others go on.
    """
    encodings = encodings_of(header)
    if len(encodings) > MOST_ENCODINGS:
        return None
    found: bytes | None = body
    for encoding in reversed(encodings):
        if found is None:
            return None
        found = _undone(found, encoding, most_bytes)
    return found if found is not None and len(found) <= most_bytes else None


def _undone(body: bytes, encoding: str, most_bytes: int) -> bytes | None:
    """`deflate` comes with a zlib header (RFC 9110) or, from some, without; gzip in one piece or,
    from some, in several."""
    match encoding:
        case "gzip" | "x-gzip":
            window = zlib.MAX_WBITS | 16
        case "deflate":
            window = zlib.MAX_WBITS if body[:1] == b"\x78" else -zlib.MAX_WBITS
        case _:
            return None
    out = bytearray()
    try:
        for _ in range(MOST_MEMBERS):
            stream = zlib.decompressobj(window)
            out += stream.decompress(body, most_bytes + 1 - len(out))
            if not stream.eof or len(out) > most_bytes:
                return None  # broken off, or too much
            body = stream.unused_data.lstrip(b"\0") if window > zlib.MAX_WBITS else b""
            if not body:
                return bytes(out)
    except zlib.error:
        pass
    return None


def encoded(body: bytes, encoding: str) -> bytes:
    """The body in `gzip` or as it is: the two that the gateway asks a catalog for."""
    return gzip.compress(body, mtime=0) if encoding.strip().lower() == "gzip" else body
