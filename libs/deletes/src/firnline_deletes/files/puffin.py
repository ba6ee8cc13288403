"""Puffin files: blobs one after another, and a footer that says what they are.

Puffin specification: magic, blobs, magic, footer payload (JSON), its size and the flags (4 bytes
each, little-endian), magic. Nothing is compressed here: vectors never are, and maps are small.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

MAGIC = b"PFA1"
MAX_FOOTER = 64 << 20  # bytes: 300,000 blobs
_TAIL = struct.Struct("<iI4s")  # payload size, flags, magic
_UNKNOWN = -1  # snapshot and sequence number of a blob are known only after the commit


@dataclass(frozen=True)
class Blob:
    """A blob to write. `fields`: ids of the columns that it describes."""

    kind: str
    payload: bytes
    fields: tuple[int, ...]
    properties: Mapping[str, str]


@dataclass(frozen=True)
class Written:
    """A file's size, and where each blob lies, in order: (offset, bytes)."""

    bytes: int
    places: tuple[tuple[int, int], ...]


def write_puffin(sink: Any, blobs: Iterable[Blob], created_by: str) -> Written:
    """Write all blobs and the footer; `sink` stays open."""
    at = _write_bytes(sink, MAGIC)
    places: list[tuple[int, int]] = []
    described: list[dict[str, Any]] = []
    for blob in blobs:
        places.append((at, len(blob.payload)))
        described.append(_describe_blob(blob, at))
        at += _write_bytes(sink, blob.payload)
    footer = {"blobs": described, "properties": {"created-by": created_by}}
    payload = json.dumps(footer, separators=(",", ":")).encode()
    tail = _TAIL.pack(len(payload), 0, MAGIC)
    return Written(at + _write_bytes(sink, MAGIC + payload + tail), tuple(places))


def _write_bytes(sink: Any, data: bytes) -> int:
    sink.write(data)
    return len(data)


def _describe_blob(blob: Blob, offset: int) -> dict[str, Any]:
    return {
        "type": blob.kind,
        "fields": list(blob.fields),
        "snapshot-id": _UNKNOWN,
        "sequence-number": _UNKNOWN,
        "offset": offset,
        "length": len(blob.payload),
        "properties": dict(blob.properties),
    }


def read_footer(source: Any, place: str) -> list[dict[str, Any]]:
    """Read the descriptions of a Puffin file's blobs. Raises ValueError if the file is no Puffin
    file, or its footer is longer than `MAX_FOOTER`."""
    end = source.seek(0, 2)
    source.seek(max(end - _TAIL.size, 0))
    size, flags, magic = _TAIL.unpack(source.read().rjust(_TAIL.size))
    start = end - _TAIL.size - size - len(MAGIC)
    if magic != MAGIC or flags or not 0 <= size <= MAX_FOOTER or start < 0:
        raise ValueError(f"{place}: cut off, or its footer is compressed")
    source.seek(start)
    footer = source.read(len(MAGIC) + size)
    if not footer.startswith(MAGIC):
        raise ValueError(f"{place}: cut off, or its footer is compressed")
    return list(json.loads(footer[len(MAGIC) :])["blobs"])


def read_blobs(data: bytes, place: str) -> Iterator[Blob]:
    """Read the blobs of a whole file of path `place`, as `write` leaves them. ValueError if
    it is none."""
    if len(data) < len(MAGIC) + _TAIL.size or not data.startswith(MAGIC):
        raise ValueError(f"{place}: {len(data)} bytes, no magic in front")
    for one in read_footer(BytesIO(data), place):
        payload = data[one["offset"] : one["offset"] + one["length"]]
        yield Blob(one["type"], payload, tuple(one["fields"]), one["properties"])
