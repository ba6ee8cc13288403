"""Measure the metadata of tables. Answers to loads and commits contain all of it and pass by here.
Nothing is parsed or decoded."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import ClientResponse, hdrs
from cachetools import LRUCache

from firnline_gateway.proxy.bodies import encodings_of
from firnline_gateway.rest.call import Names

MAX_TABLES = 10_000  # 1 kB each
MAX_LENGTH = 1 << 40  # a terabyte; what a header says beyond that is nonsense
GZIP = frozenset({"gzip", "x-gzip"})
SIZE_BYTES = 4  # at a gzip body's end: how long it is without its encoding (RFC 1952, ISIZE)


class AnswerLength:
    """Counts an answer as it goes by."""

    def __init__(self, encoding: str, told: Callable[[int], None]) -> None:
        """Measure an answer. `told`: called with the answer's length without its `encoding`, if
        that is known."""
        self._encodings = encodings_of(encoding)
        self._told = told
        self._bytes = 0
        self._end = b""

    def add_piece(self, piece: bytes) -> None:
        """Add one more piece."""
        self._bytes += len(piece)
        self._end = (self._end + piece[-SIZE_BYTES:])[-SIZE_BYTES:]

    def mark_complete(self) -> None:
        """Note that the answer is complete."""
        if not self._encodings:
            self._told(self._bytes)
        elif len(self._encodings) == 1 and self._encodings[0] in GZIP:
            plain = int.from_bytes(self._end, "little")
            if plain >= self._bytes > SIZE_BYTES:  # else of the last of several pieces, or no gzip
                self._told(plain)


class MetadataSizes:
    """Metadata sizes of the most recently seen tables of one catalog, by the tables' names."""

    def __init__(self, max_tables: int = MAX_TABLES) -> None:
        self._sizes = LRUCache[Names, int](max_tables)

    def size_in_bytes(self, names: Names) -> int | None:
        """Return the size in bytes from the newest answer; None = none was seen."""
        return self._sizes.get(names)

    def forget_table(self, names: Names) -> None:
        """Forget the size: another table has the name now, or none."""
        self._sizes.pop(names, None)

    def of_answer(self, names: Names, upstream: ClientResponse) -> AnswerLength:
        """Measure an answer that contains a table's whole metadata. A length in its headers is set
        before the answer has passed."""
        encoding = upstream.headers.get(hdrs.CONTENT_ENCODING, "")
        if upstream.content_length is not None and not encodings_of(encoding):
            self._set_size(names, upstream.content_length)
        return AnswerLength(encoding, lambda length: self._set_size(names, length))

    def _set_size(self, names: Names, length: int) -> None:
        if 0 < length <= MAX_LENGTH:
            self._sizes[names] = length
