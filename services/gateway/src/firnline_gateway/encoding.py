"""Content encodings, where a body must be read and not only passed on."""

from __future__ import annotations

import gzip
import zlib


def decoded(body: bytes, encoding: str) -> bytes | None:
    """The body without its Content-Encoding; None if we cannot undo that one.

    `deflate` comes with a zlib header (RFC 9110) or, from some, without.
    """
    try:
        match encoding.strip().lower():
            case "" | "identity":
                return body
            case "gzip" | "x-gzip":
                return gzip.decompress(body)
            case "deflate":
                return zlib.decompress(body, zlib.MAX_WBITS if body[:1] == b"\x78" else -15)
    except (OSError, EOFError, zlib.error):
        return None
    return None


def encoded(body: bytes, encoding: str) -> bytes:
    """The body in `gzip` or as it is: the two that the gateway asks a catalog for."""
    return gzip.compress(body, mtime=0) if encoding.strip().lower() == "gzip" else body
