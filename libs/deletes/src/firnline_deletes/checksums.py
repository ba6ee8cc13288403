"""Checksums of rows by their key columns, whatever the order of the rows.

Of each row a 64-bit hash, of all rows the sum modulo 2^64: what is read, less what is masked, is
what is written. The hash is of the values alone: a column may be a dictionary or plain, of 32 or
64 bits, of one length or of several. It is no index value (`hashing`): a multiplication a word and
one round of mixing a row are enough here, at half the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from firnline_deletes.fields import leaf_path
from firnline_deletes.hashing import BLOCK_ROWS, Hashes, integers, is_narrow, mixed, parts
from firnline_deletes.packing import Mask

Places = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
_WORD, _MOST_SHIFT = 8, np.uint64(63)
SUMS = 1 << 64  # they are modulo this
_MUL, _32, _29 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(32), np.uint64(29)
_WEIGHTS = mixed(np.arange(1, 1025, dtype=np.uint64)) | np.uint64(1)
_NULL, _LENGTH, _OF_WORDS = _WEIGHTS[0], _WEIGHTS[1], _WEIGHTS[2:]
_LONG = 64  # words: above, a value is worth a call of NumPy of its own


@dataclass(frozen=True)
class KeySums:
    """Of the rows that were read, and of those among them that were left out."""

    read: int = 0
    masked: int = 0

    def __add__(self, other: KeySums) -> KeySums:
        return KeySums((self.read + other.read) % SUMS, (self.masked + other.masked) % SUMS)


NO_SUMS = KeySums()


def checksum(columns: Sequence[pa.Array]) -> int:
    """Of all rows of these columns; 0 without columns."""
    return key_sums(columns, None).read


def key_sums(columns: Sequence[pa.Array], keep: Mask | None) -> KeySums:
    """Of all rows, and of those that are not kept; None = all are."""
    distinct = [_distinct(column) for column in columns]
    read = masked = 0
    for start in range(0, len(columns[0]) if columns else 0, BLOCK_ROWS):
        hashes = _hashes([column.slice(start, BLOCK_ROWS) for column in columns], distinct)
        read += _sum(hashes)
        if keep is not None:
            dead = np.flatnonzero(~keep[start : start + BLOCK_ROWS])
            masked += _sum(hashes[dead])
    return KeySums(read % SUMS, masked % SUMS)


@dataclass(frozen=True)
class Leaves:
    """The columns with certain field ids in tables of one schema; they may lie in structs."""

    paths: Sequence[tuple[int, ...]]

    @classmethod
    def of(cls, schema: pa.Schema, ids: Sequence[int]) -> Leaves:
        """Raises ValueError where the schema has no such field."""
        paths = [path for number in ids if (path := leaf_path(schema, number)) is not None]
        if len(paths) < len(ids):
            raise ValueError(f"a column of {list(ids)} is not in the schema")
        return cls(paths)

    def checksum(self, table: pa.Table) -> int:
        """Of all rows of a table; its columns may be dictionaries."""
        tops = sorted({path[0] for path in self.paths})
        found = (
            checksum([_leaf(batch.column(tops.index(path[0])), path[1:]) for path in self.paths])
            for batch in table.select(tops).to_batches()
        )
        return sum(found) % SUMS if tops else 0


def _leaf(column: pa.Array, path: Sequence[int]) -> pa.Array:
    """NULL where a struct on the way is; of an extension type what it is stored as."""
    if path:
        column = pc.struct_field(column, list(path))
    return column.storage if isinstance(column.type, pa.BaseExtensionType) else column


def _sum(hashes: Hashes) -> int:
    return int(hashes.sum(dtype=np.uint64))


def _hashes(columns: Sequence[pa.Array], distinct: Sequence[Hashes | None]) -> Hashes:
    """One per row."""
    state = _folded(columns[0], distinct[0])
    for place in range(1, len(columns)):
        state *= _MUL
        state += _folded(columns[place], distinct[place])
    _mix(state)
    return state


def _mix(values: Hashes) -> None:
    """In place. Not linear: sums of linear hashes would not see that two rows have exchanged the
    values of one of two columns."""
    shifted = values >> _32
    values ^= shifted
    values *= _MUL
    np.right_shift(values, _29, out=shifted)
    values ^= shifted


def _distinct(column: pa.Array) -> Hashes | None:
    """Of a dictionary: each value is folded once, and NULL at the end."""
    if not pa.types.is_dictionary(column.type):
        return None
    return np.append(_folded(column.dictionary, None), _NULL)


def _folded(column: pa.Array, distinct: Hashes | None) -> Hashes:
    """A fresh array: each value as one word."""
    if distinct is not None:
        codes = pc.fill_null(column.indices, len(distinct) - 1)
        found: Hashes = distinct.take(codes.to_numpy(zero_copy_only=False))
        return found
    kind = column.type
    if is_narrow(kind):
        values: Hashes = integers(column) * _OF_WORDS[0]
    elif pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind):
        values = _fixed(column, kind.byte_width)
    else:
        values = _bytes(*parts(column))
    if column.null_count:
        values[column.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return values


def _fixed(column: pa.Array, width: int) -> Hashes:
    raw = np.frombuffer(column.buffers()[1], dtype=np.uint8)
    return _bytes(width * (column.offset + np.arange(len(column) + 1)), raw)


def _bytes(offsets: Places, data: Bytes) -> Hashes:
    """Values of one length are read with a stride, 3 x as fast as others, which are gathered."""
    lengths = np.diff(offsets)
    width = int(lengths[0]) if len(lengths) else 0
    if width >= _WORD and (lengths == width).all():
        return _even(data[offsets[0] : offsets[-1]], len(lengths), width)
    return _ragged(data, offsets[:-1], lengths)


def _even(data: Bytes, rows: int, width: int) -> Hashes:
    full, rest = divmod(width, _WORD)
    state = np.full(rows, width, dtype=np.uint64)
    state *= _LENGTH
    for number in range(full):
        state += _strided(data, rows, width, number * _WORD) * _weight(number)
    if rest:
        last = _strided(data, rows, width, width - _WORD) >> np.uint64(8 * (_WORD - rest))
        state += last * _weight(full)
    return state


def _strided(data: Bytes, rows: int, width: int, at: int) -> Hashes:
    """The 8 bytes at one place of every value."""
    return np.ndarray((rows,), "<u8", data, offset=at, strides=(width,))


def _weight(number: int) -> np.uint64:
    weight: np.uint64 = _OF_WORDS[number % len(_OF_WORDS)]
    return weight


def _ragged(data: Bytes, starts: Places, lengths: Places) -> Hashes:
    full, rest = lengths >> 3, lengths & 7
    state = lengths.astype(np.uint64)
    state *= _LENGTH
    _add_words(state, data, starts, np.minimum(full, _LONG))
    for row in np.flatnonzero(full > _LONG):
        state[row : row + 1] += _rest_of_long(data, int(starts[row]), int(full[row]))
    state += _last_words(data, starts + lengths, rest) * _OF_WORDS.take(full, mode="wrap")
    return state


def _last_words(data: Bytes, ends: Places, rest: Places) -> Hashes:
    """The `rest` (0..7) bytes before each end as a little-endian number."""
    if not len(ends) or ends[0] < _WORD:  # a window of 8 bytes would begin before the first value
        data, ends = np.concatenate([np.zeros(_WORD, np.uint8), data]), ends + _WORD
    found: Hashes = _windows(data)[ends - _WORD]
    shift = (8 * (_WORD - rest)).astype(np.uint64)
    found >>= np.minimum(shift, _MOST_SHIFT)
    return found * (rest > 0)


def _windows(data: Bytes) -> Hashes:
    """Every unaligned 8 bytes."""
    return np.ndarray((len(data) - _WORD + 1,), "<u8", data, strides=(1,))


def _add_words(state: Hashes, data: Bytes, starts: Places, full: Places) -> None:
    """The weighed words of each value. By falling length, for then those that have an n-th word are
    the first ones."""
    order = np.argsort(_LONG - full.astype(np.uint8), kind="stable")  # a radix sort
    at, active = starts[order], np.searchsorted(-full[order], -np.arange(_LONG), side="left")
    found = np.zeros(len(state), dtype=np.uint64)
    for number, rows in enumerate(active):
        if not rows:
            break
        values = _windows(data)[at[:rows] + _WORD * number]
        values *= _weight(number)
        found[:rows] += values
    state[order] += found


def _rest_of_long(data: Bytes, start: int, full: int) -> np.uint64:
    """What is left of a value whose first words are in already."""
    number = np.arange(_LONG, full)
    found = np.frombuffer(data, "<u8", len(number), start + _WORD * _LONG)
    total: np.uint64 = (found * _OF_WORDS.take(number, mode="wrap")).sum(dtype=np.uint64)
    return total
