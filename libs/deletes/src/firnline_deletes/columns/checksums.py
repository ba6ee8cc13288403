"""Checksums of rows by their key columns, whatever the order of the rows.

Of each row a 64-bit hash, of all rows the sum modulo 2^64: what is read, less what is masked, is
what is written. The hash is the row's index value (`hashing`), which the search for its key in a
delete set has found already where there is one set, of just these columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firnline_deletes.columns.fields import leaf_path
from firnline_deletes.columns.hashing import Hashes, index_values
from firnline_deletes.columns.packing import Mask

SUMS = 1 << 64  # they are modulo this


@dataclass(frozen=True)
class KeySums:
    """Checksums of the rows that were read, and of those among them that were left out."""

    read: int = 0
    masked: int = 0

    def __add__(self, other: KeySums) -> KeySums:
        return KeySums((self.read + other.read) % SUMS, (self.masked + other.masked) % SUMS)


NO_SUMS = KeySums()


def checksum(columns: Sequence[pa.Array]) -> int:
    """Return the checksum of all rows of these columns; 0 without columns."""
    return _sum_hashes(index_values(columns)) if columns else 0


def key_sums(hashes: Hashes, keep: Mask | None) -> KeySums:
    """Sum rows by their index values, and those that are not kept; None = all are."""
    dead = hashes[:0] if keep is None else hashes[np.flatnonzero(~keep)]
    return KeySums(_sum_hashes(hashes), _sum_hashes(dead))


@dataclass(frozen=True)
class Leaves:
    """The columns with certain field ids in tables of one schema; they may lie in structs."""

    paths: Sequence[tuple[int, ...]]

    @classmethod
    def from_ids(cls, schema: pa.Schema, ids: Sequence[int]) -> Leaves:
        """Find the leaf columns of these field ids. Raises ValueError if the schema has no such
        field."""
        paths = [path for number in ids if (path := leaf_path(schema, number)) is not None]
        if len(paths) < len(ids):
            raise ValueError(f"a column of {list(ids)} is not in the schema")
        return cls(paths)

    def checksum(self, table: pa.Table) -> int:
        """Return the checksum of all rows of a table; its columns may be dictionaries."""
        tops = sorted({path[0] for path in self.paths})
        found = (
            checksum(
                [_leaf_column(batch.column(tops.index(path[0])), path[1:]) for path in self.paths]
            )
            for batch in table.select(tops).to_batches()
        )
        return sum(found) % SUMS if tops else 0


def _leaf_column(column: pa.Array, path: Sequence[int]) -> pa.Array:
    """Return a leaf's values, NULL where a struct on the way is; of an extension type its
    storage."""
    if path:
        column = pc.struct_field(column, list(path))
    return column.storage if isinstance(column.type, pa.BaseExtensionType) else column


def _sum_hashes(hashes: Hashes) -> int:
    return int(hashes.sum(dtype=np.uint64))
