"""Strings and binaries folded into 64 bits each: the weighed sum of their words and their length.

By content alone, whether all values have one length or not. What uses it mixes it once more.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
_WORD, _MOST_SHIFT = 8, np.uint64(63)
_LONG = 64  # words: above, a value is worth a call of NumPy of its own
_MUL, _MUL2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = (np.uint64(bits) for bits in (30, 27, 31))


def mixed(values: Words) -> Words:
    """splitmix64's finaliser: a bijection, so one word never collides with another."""
    shifted = values >> _30
    values = values ^ shifted
    values *= _MUL
    values ^= np.right_shift(values, _27, out=shifted)
    values *= _MUL2
    values ^= np.right_shift(values, _31, out=shifted)
    return values


_WEIGHTS = mixed(np.arange(1, 1025, dtype=np.uint64)) | np.uint64(1)
_LENGTH, _OF_WORDS = _WEIGHTS[0], _WEIGHTS[1:]  # weights of longer values come round


def folded(offsets: Places, data: Bytes) -> Words:
    """A word per value. Those of one length are read with a stride, 3 x as fast as others, which
    are gathered."""
    lengths = np.diff(offsets)
    width = int(lengths[0]) if len(lengths) else 0
    if width and (lengths == width).all():
        return even(data[offsets[0] : offsets[-1]], len(lengths), width)
    return _ragged(data, offsets[:-1], lengths)


def even(data: Bytes, rows: int, width: int) -> Words:
    """The same of `rows` values of one length, one after another."""
    full, rest = divmod(width, _WORD)
    if not full:
        starts = width * np.arange(rows)
        return _ragged(data, starts, np.full(rows, width))
    state = np.full(rows, width, dtype=np.uint64)
    state *= _LENGTH
    for number in range(full):
        state += _strided(data, rows, width, number * _WORD) * _weight(number)
    if rest:
        last = _strided(data, rows, width, width - _WORD) >> np.uint64(8 * (_WORD - rest))
        state += last * _weight(full)
    return state


def _strided(data: Bytes, rows: int, width: int, at: int) -> Words:
    """The 8 bytes at one place of every value."""
    return np.ndarray((rows,), "<u8", data, offset=at, strides=(width,))


def _weight(number: int) -> np.uint64:
    weight: np.uint64 = _OF_WORDS[number % len(_OF_WORDS)]
    return weight


def _ragged(data: Bytes, starts: Places, lengths: Places) -> Words:
    full, rest = lengths >> 3, lengths & 7
    state = lengths.astype(np.uint64)
    state *= _LENGTH
    _add_words(state, data, starts, np.minimum(full, _LONG))
    for row in np.flatnonzero(full > _LONG):
        state[row : row + 1] += _rest_of_long(data, int(starts[row]), int(full[row]))
    state += _last_words(data, starts + lengths, rest) * _OF_WORDS.take(full, mode="wrap")
    return state


def _last_words(data: Bytes, ends: Places, rest: Places) -> Words:
    """The `rest` (0..7) bytes before each end as a little-endian number."""
    if not len(ends) or ends[0] < _WORD:  # a window of 8 bytes would begin before the first value
        data, ends = np.concatenate([np.zeros(_WORD, np.uint8), data]), ends + _WORD
    found: Words = _windows(data)[ends - _WORD]
    shift = (8 * (_WORD - rest)).astype(np.uint64)
    found >>= np.minimum(shift, _MOST_SHIFT)
    return found * (rest > 0)


def _windows(data: Bytes) -> Words:
    """Every unaligned 8 bytes."""
    return np.ndarray((len(data) - _WORD + 1,), "<u8", data, strides=(1,))


def _add_words(state: Words, data: Bytes, starts: Places, full: Places) -> None:
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
