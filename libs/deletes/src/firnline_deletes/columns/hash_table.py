"""The lookup table of a delete set: linear probing over index values, laid out in sorted order.

Because the values are sorted as well as hashed, a search ends at the first greater value, and the
whole table is made by one pass of NumPy. 1.5 slots a key: 12 bytes for the value, 6 for the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firnline_deletes.columns.hashing import Hashes

Rows = npt.NDArray[np.intp]
Codes = npt.NDArray[np.int32]
EMPTY = 0  # code of a slot without a key
_HIGH = np.uint64(32)
_LAST = np.uint64(2**64 - 1)  # value of an empty slot: greater than, or equal to, any


@dataclass(frozen=True)
class Layout:
    """Slots of sorted distinct keys: key i goes to slot `slots[i]` of `size`; `homes` scales
    values."""

    slots: Rows
    homes: int
    size: int


def laid_out(values: Hashes) -> Layout:
    """Lay out ascending `values` in a hash table: each goes to its home slot or the first free one
    after it."""
    homes = max(1, len(values) + len(values) // 2)
    at = np.arange(len(values), dtype=np.int64)
    slots = at + np.maximum.accumulate(_home_slots(values, homes) - at) if len(values) else at
    end = int(slots[-1]) + 1 if len(values) else 0
    return Layout(slots, homes, max(homes, end) + 1)  # the last slot stays empty: searches end


def _home_slots(values: Hashes, homes: int) -> npt.NDArray[np.int64]:
    return (((values >> _HIGH) * np.uint64(homes)) >> _HIGH).view(np.int64)


@dataclass(frozen=True)
class HashTable:
    """`index`: value per slot. `codes`: 1-based number of the sequence; EMPTY where no key is.

    `unique`: no two keys share a value, so that a search ends at the first equal one.
    """

    index: Hashes
    codes: Codes
    homes: int
    unique: bool

    @classmethod
    def from_values(cls, values: Hashes, codes: Codes, layout: Layout) -> HashTable:
        """Build a table of `values`, ascending, with their codes."""
        index = np.full(layout.size, _LAST, dtype=np.uint64)
        placed = np.zeros(layout.size, dtype=np.int32)
        index[layout.slots], placed[layout.slots] = values, codes
        return cls(index, placed, layout.homes, not (values[1:] == values[:-1]).any())

    def find_pairs(self, values: Hashes) -> tuple[Rows, Rows]:
        """Return (rows, slots): pairs of a row of `values` and a slot that has its value."""
        pairs = list(self._probe_rounds(values))
        return np.concatenate([rows for rows, _ in pairs]), np.concatenate([at for _, at in pairs])

    def _probe_rounds(self, values: Hashes) -> Iterator[tuple[Rows, Rows]]:
        slots = _home_slots(values, self.homes)
        found = self.index[slots]
        rows = np.flatnonzero(found == values)
        yield rows, slots[rows]
        rows = np.flatnonzero(found < values if self.unique else found <= values)
        slots, values = slots[rows], values[rows]
        while len(rows):
            slots = slots + 1
            found = self.index[slots]
            equal = found == values
            yield rows[equal], slots[equal]
            more = found < values if self.unique else self._may_continue(found, values, slots)
            rows, slots, values = rows[more], slots[more], values[more]

    def _may_continue(self, found: Hashes, values: Hashes, slots: Rows) -> npt.NDArray[np.bool_]:
        """Return True for the rows whose next slot is to be probed too: their slot has a key, with
        a value that is not above theirs."""
        is_key = (found != _LAST) | (self.codes[slots] != EMPTY)
        more: npt.NDArray[np.bool_] = (found <= values) & is_key
        return more
