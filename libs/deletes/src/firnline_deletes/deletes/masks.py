"""Keep masks of data files: which rows live, by row group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from firnline_deletes.columns.checksums import NO_SUMS, KeySums, key_sums
from firnline_deletes.columns.hashing import index_values
from firnline_deletes.columns.keys import KeyField, KeyReader
from firnline_deletes.columns.packing import Mask
from firnline_deletes.columns.target_schema import TargetSchema
from firnline_deletes.deletes.delete_set import DeleteSet, open_mapped
from firnline_deletes.deletes.positions import PositionSet
from firnline_deletes.files.parquet import ParquetSource, SequencedFile

_KEY_BATCH_ROWS = 1 << 18


@dataclass(frozen=True)
class Deletes:
    """Every delete that may touch a scope: one set per (scope or global, equality-id set)."""

    sets: Sequence[DeleteSet] = ()
    positions: PositionSet | None = None
    parts: Sequence[Path] = ()  # published sets that do not fit in memory together

    def sets_after(self, sequence_number: int) -> list[DeleteSet]:
        """Return the sets with a key that died after this sequence number."""
        return [chosen for chosen in self.sets if chosen.highest_sequence > sequence_number]


@dataclass(frozen=True)
class GroupMask:
    """Mask of one row group: `keep`, true per living row, None if nothing can touch it; and the key
    columns as they were read for it, so that none is decoded twice. `sums`: of the rows, None if
    not all columns of `TargetSchema.proved` were read for it."""

    keep: Mask | None
    read: Sequence[pa.RecordBatch] = ()
    sums: KeySums | None = None


Packed = npt.NDArray[np.uint8]
PartMasks = Mapping[tuple[str, int], Packed]
"""(path, row group) -> a bit per row, set where the row is dead; eight rows in a byte."""


Input = tuple[SequencedFile, ParquetSource]


def masks_of_parts(inputs: Sequence[Input], deletes: Deletes, target: TargetSchema) -> PartMasks:
    """Return the dead rows of the files by `parts`, with one part in memory at a time.

    The keys of every file are read once per part; its footer only once."""
    found: dict[tuple[str, int], Packed] = {}
    for part in deletes.parts:
        one = Deletes([open_mapped(part)])
        for file, source in inputs:
            if one.sets_after(file.sequence_number):
                _add_part_masks(file, one, target, source, found)
        del one  # unmapped before the next is mapped
    return found


def _add_part_masks(
    file: SequencedFile,
    one: Deletes,
    target: TargetSchema,
    source: ParquetSource,
    found: dict[tuple[str, int], Packed],
) -> None:
    """Add to `found`, by path and row group, the packed mask of the rows that these deletes
    remove."""
    with source.open_parquet(encoded=True) as parquet:
        masks = Masks(parquet, file, one, replace(target, proved=()))  # summed when all is known
        for group in range(parquet.num_row_groups):
            living = masks.mask_group(group, 0, parquet.metadata.row_group(group).num_rows)
            assert living.keep is not None
            dead = np.packbits(~living.keep)
            found[file.path, group] = dead | found.get((file.path, group), np.uint8(0))
    source.drop_bytes()


class Masks:
    """Keep masks of one data file."""

    def __init__(
        self,
        parquet: pq.ParquetFile,
        file: SequencedFile,
        deletes: Deletes,
        target: TargetSchema,
        known: PartMasks | None = None,
    ) -> None:
        self._parquet, self._file, self._known = parquet, file, known or {}
        self._sets = deletes.sets_after(file.sequence_number)
        keys = {key.id: key for chosen in self._sets for key in chosen.keys}
        self._keys = KeyReader(parquet, _by_id(keys), file.path, target) if keys else None
        self._proved = target.proved if keys.keys() >= set(target.proved) else None
        none = np.empty(0, dtype=np.int64)
        self._dead = deletes.positions.positions_in(file.path) if deletes.positions else none

    def mask_group(self, group: int, start: int, rows: int) -> GroupMask:
        """Compute the mask of the group whose first row is row `start` of the file."""
        first, last = np.searchsorted(self._dead, [start, start + rows])
        known = self._known.get((self._file.path, group))
        if self._keys is None and first == last and known is None:
            return GroupMask(None)
        keep = np.ones(rows, dtype=np.bool_)
        if known is not None:
            keep &= np.unpackbits(known, count=rows) == 0
        keep[self._dead[first:last] - start] = False
        if self._keys is None:
            return GroupMask(keep)
        return self._mask_keys(self._keys, keep, group)

    def key_bytes(self, group: int) -> int:
        """Return the stored bytes of the key columns that `of` reads for a group."""
        wanted = set(self._keys.columns) if self._keys else set()
        stored = self._parquet.metadata.row_group(group)
        columns = (stored.column(number) for number in range(stored.num_columns))
        return sum(
            column.total_compressed_size for column in columns if column.path_in_schema in wanted
        )

    def _mask_keys(self, keys: KeyReader, keep: Mask, group: int) -> GroupMask:
        if not keys.columns:
            sums = self._apply_sets(keep, keys.default_batches(_KEY_BATCH_ROWS, len(keep)))
            return GroupMask(keep, [], sums)
        read = list(
            self._parquet.iter_batches(
                _KEY_BATCH_ROWS, [group], columns=keys.columns, use_threads=False
            )
        )
        sums = self._apply_sets(keep, (keys.key_arrays(batch) for batch in read))
        return GroupMask(keep, read, sums)

    def _apply_sets(self, keep: Mask, batches: Iterator[dict[int, pa.Array]]) -> KeySums | None:
        at, sums = 0, NO_SUMS
        for arrays in batches:
            proved = [arrays[number] for number in self._proved or ()]
            values = index_values(proved) if proved else None
            for chosen in self._sets:
                known = values if chosen.probed_columns == self._proved else None
                dead = chosen.find_deleted(arrays, self._file.sequence_number, known)
                keep[at : at + len(dead)] &= ~dead
            if values is not None:
                sums += key_sums(values, keep[at : at + len(values)])
            at += len(dead)
        return None if self._proved is None else sums


def _by_id(keys: dict[int, KeyField]) -> list[KeyField]:
    """Return the key columns in the order of their ids."""
    return [keys[number] for number in sorted(keys)]
