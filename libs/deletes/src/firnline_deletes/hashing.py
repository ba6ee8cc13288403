"""A 64-bit index value per row of key columns, vectorised.

It only *finds* candidates; equality of the key itself is always checked by the caller. A key of one
column of at most 8 bytes indexes as its own bits, so there the value is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes = npt.NDArray[np.uint64]
NULL = np.uint64(0x9E3779B97F4A7C15)  # any constant: a null is told from the value by the check
_MUL = np.uint64(0xBF58476D1CE4E5B9)
_MUL2 = np.uint64(0x94D049BB133111EB)
_WORD = 8


def is_narrow(kind: pa.DataType) -> bool:
    """At most 8 bytes of fixed width: its bits are its index value."""
    if pa.types.is_boolean(kind):
        return True
    fixed = pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_time(kind)
    return bool(fixed or pa.types.is_timestamp(kind))


def index_values(columns: Sequence[pa.Array]) -> Hashes:
    """One uint64 per row; equal keys (NULL = NULL) always give equal values."""
    if len(columns) == 1 and is_narrow(columns[0].type):
        return _with_nulls(_narrow(columns[0]), columns[0])
    state = np.full(len(columns[0]), NULL, dtype=np.uint64)
    for column in columns:
        state = _mix(state * _MUL + _with_nulls(_column(column), column))
    return state


def _with_nulls(values: Hashes, column: pa.Array) -> Hashes:
    if column.null_count == 0:
        return values
    return np.where(column.is_null().to_numpy(zero_copy_only=False), NULL, values)


def _column(column: pa.Array) -> Hashes:
    kind = column.type
    if is_narrow(kind):
        return _mix(_narrow(column))
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind):
        return _wide(column, kind.byte_width)
    return _varlen(column)


def _narrow(column: pa.Array) -> Hashes:
    kind = column.type
    if pa.types.is_boolean(kind):
        whole = column.cast(pa.uint8())
    else:
        whole = column.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    if whole.null_count:
        whole = pc.fill_null(whole, 0)
    numbers: npt.NDArray[Any] = whole.to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64, copy=False).view(np.uint64)


def _wide(column: pa.Array, width: int) -> Hashes:
    """Fixed-width bytes (decimal, fixed, uuid), padded to whole words."""
    rows = len(column)
    raw = np.frombuffer(column.buffers()[1], dtype=np.uint8)
    raw = raw[column.offset * width : (column.offset + rows) * width].reshape(rows, width)
    words = -(-width // _WORD)
    padded = np.zeros((rows, words * _WORD), dtype=np.uint8)
    padded[:, :width] = raw
    state = np.zeros(rows, dtype=np.uint64)
    for word in padded.view(np.uint64).T:
        state = _mix(state ^ word)
    return state


def _varlen(column: pa.Array) -> Hashes:
    """Strings and binaries, 8 bytes at a time; later words touch only the rows that have them."""
    offsets, data = _parts(column)
    lengths = np.diff(offsets)
    state = lengths.astype(np.uint64)
    starts = offsets[:-1]
    active = np.flatnonzero(lengths > 0)
    taken = 0
    while len(active):
        left = np.minimum(lengths[active] - taken, _WORD)
        state[active] = _mix(state[active] ^ _words(data, starts[active] + taken, left))
        taken += _WORD
        active = active[lengths[active] > taken]
    return state


def _parts(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offset_buffer, data_buffer = column.buffers()
    raw = np.frombuffer(offset_buffer, dtype=np.int64 if large else np.int32)
    offsets = raw[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
    return offsets, data


def _words(
    data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], size: npt.NDArray[np.int64]
) -> Hashes:
    """The `size` (1..8) bytes at each offset as a little-endian number."""
    last = len(data) - _WORD
    if last < 0:
        data = np.concatenate([data, np.zeros(_WORD - len(data), dtype=np.uint8)])
        last = 0
    view: Hashes = np.ndarray(
        shape=(last + 1,), dtype="<u8", buffer=data, strides=(1,)
    )  # every unaligned 8-byte window
    back = np.maximum(at - last, 0).astype(np.uint64)  # windows past the end start earlier
    words = view[np.minimum(at, last)] >> (back * np.uint64(8))
    drop = (_WORD - size).astype(np.uint64) * np.uint64(8)
    kept: Hashes = (words << drop) >> drop
    return kept


def _mix(values: Hashes) -> Hashes:
    """splitmix64's finaliser: a bijection, so one word never collides with another."""
    values = (values ^ (values >> np.uint64(30))) * _MUL
    values = (values ^ (values >> np.uint64(27))) * _MUL2
    return values ^ (values >> np.uint64(31))
