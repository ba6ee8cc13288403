"""Blocks of Avro files, unpacked up to a size: 0.4 MB of a manifest may unpack to a gigabyte.

fastavro unpacks whatever a block holds. A service that a manifest ends by its size is ended by it
again whenever the manifest is read. Iceberg's writers make blocks of some ten kilobytes."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any

import zstandard
from fastavro.read import BLOCK_READERS

MAX_BLOCK_BYTES = 256 << 20  # a manifest of a million files in one block
_SNAPPY: Callable[[BytesIO], BytesIO] = BLOCK_READERS["snappy"]


def limit_blocks() -> None:
    """Have fastavro unpack no block beyond the limit, for this process. Of codecs that no writer of
    Iceberg has, none is unpacked."""
    for codec in set(BLOCK_READERS) - {"null", "snappy", *_UNPACKED}:
        del BLOCK_READERS[codec]
    BLOCK_READERS["snappy"] = _read_snappy
    for codec, unpack in _UNPACKED.items():
        BLOCK_READERS[codec] = _make_block_reader(unpack)


def _make_block_reader(unpack: Callable[[bytes, int], bytes]) -> Callable[[Any], BytesIO]:
    def read(source: Any) -> BytesIO:
        content = unpack(source.read(_read_long(source)), MAX_BLOCK_BYTES + 1)
        _refuse_above_limit(len(content))
        return BytesIO(content)

    return read


def _read_snappy(source: Any) -> BytesIO:
    """Read a block that begins with how long it is."""
    at = source.tell()
    _read_long(source)
    _refuse_above_limit(_read_unsigned(source))
    source.seek(at)
    return _SNAPPY(source)


def _refuse_above_limit(size: int) -> None:
    if size > MAX_BLOCK_BYTES:
        raise ValueError(f"a block unpacks to more than {MAX_BLOCK_BYTES} bytes")


def _read_long(source: Any) -> int:
    """Read one `long` of Avro: a number of variable length, zigzag-encoded."""
    number = _read_unsigned(source)
    return (number >> 1) ^ -(number & 1)


def _read_unsigned(source: Any) -> int:
    number = shift = 0
    while True:
        byte = int(source.read(1)[0])
        number |= (byte & 0x7F) << shift
        if byte < 0x80 or shift > 63:
            return number
        shift += 7


def _unpack_zstandard(content: bytes, most: int) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(content) as stream:
        return bytes(stream.read(most))


_UNPACKED: dict[str, Callable[[bytes, int], bytes]] = {
    "deflate": lambda content, most: zlib.decompressobj(-15).decompress(content, most),
    "bzip2": lambda content, most: bz2.BZ2Decompressor().decompress(content, most),
    "xz": lambda content, most: lzma.LZMADecompressor().decompress(content, most),
    "zstandard": _unpack_zstandard,
}
