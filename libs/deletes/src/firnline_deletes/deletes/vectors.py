"""Deletion vectors: the dead positions of one data file, as a blob of a Puffin file.

Spec, "Deletion Vectors" and Puffin's `deletion-vector-v1`: the length of magic and vector (4 bytes,
big-endian), the magic, a portable 64-bit Roaring bitmap, and the CRC-32 of magic and vector (4
bytes, big-endian). Never compressed; where it lies stands in the manifest.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from firnline_deletes.files.parquet import Open
from firnline_deletes.unsupported_files import UnsupportedFile

MAGIC = bytes.fromhex("d1d33964")
BLOB_KIND = "deletion-vector-v1"
ROW_POSITION_ID = 2147483645  # reserved id `_pos`, which the blob's metadata names
_LENGTH = _CRC = 4


@dataclass(frozen=True)
class Vector:
    """One deletion vector. `data_file` as the manifest has it; `records`: how many positions."""

    path: str
    offset: int
    size: int
    data_file: str
    sequence_number: int
    records: int


class VectorEntry(Protocol):
    """A manifest's entry of a deletion vector."""

    @property
    def path(self) -> str: ...
    @property
    def sequence_number(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def content_offset(self) -> int | None: ...
    @property
    def content_size(self) -> int | None: ...
    @property
    def referenced_data_file(self) -> str | None: ...


def locate_vector(entry: VectorEntry) -> Vector:
    """Return the vector of an entry. Refused unreadable_vector if the entry lacks its position."""
    where = (entry.content_offset, entry.content_size, entry.referenced_data_file)
    offset, size, data_file = where
    if offset is None or size is None or data_file is None:
        raise UnsupportedFile("unreadable_vector", f"{entry.path}: {where}")
    return Vector(entry.path, offset, size, data_file, entry.sequence_number, entry.records)


def read_positions(vector: Vector, open_file: Open) -> npt.NDArray[np.int64]:
    """Return dead positions, ascending. Reads nothing but the blob. Refused unreadable_vector."""
    with open_file(vector.path) as file:
        file.seek(vector.offset)
        blob = file.read(vector.size)
    positions = decode_positions(blob, f"{vector.path} at {vector.offset}")
    if len(positions) != vector.records:
        text = f"{vector.path}: {len(positions)} positions, not {vector.records}"
        raise UnsupportedFile("unreadable_vector", text)
    return positions


def encode_positions(positions: BitMap64) -> bytes:
    """Return the blob of dead positions."""
    positions.run_optimize()
    body = MAGIC + positions.serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def to_bitmap(positions: npt.NDArray[np.int64]) -> BitMap64:
    """Build a bitmap from positions in any order. An `array` goes in four times as fast as NumPy's
    own."""
    return BitMap64(array("Q", positions.astype(np.uint64).tobytes()))


def decode_positions(blob: bytes, place: str) -> npt.NDArray[np.int64]:
    """Return dead positions, ascending, of the blob at `place`. Refused unreadable_vector."""
    if len(blob) < _LENGTH + len(MAGIC) + _CRC:
        raise UnsupportedFile("unreadable_vector", f"{place}: {len(blob)} bytes")
    (length,) = struct.unpack(">I", blob[:_LENGTH])
    body, end = blob[_LENGTH:-_CRC], blob[-_CRC:]
    if length != len(body) or not body.startswith(MAGIC):
        raise UnsupportedFile("unreadable_vector", f"{place}: length or magic")
    if struct.unpack(">I", end)[0] != zlib.crc32(body):
        raise UnsupportedFile("unreadable_vector", f"{place}: checksum")
    try:
        bitmap = BitMap64.deserialize(body[len(MAGIC) :])
    except (ValueError, IndexError) as error:
        raise UnsupportedFile("unreadable_vector", f"{place}: {error}") from error
    return np.array(bitmap.to_array(), dtype=np.int64)
