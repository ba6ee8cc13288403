"""Applies delete sets and positions to data files: key columns first, then only what lives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from firnline_deletes.delete_set import DeleteSet, Mask
from firnline_deletes.files import Open, SequencedFile, open_parquet, rows_within
from firnline_deletes.keys import KeyField, KeyReader
from firnline_deletes.output import RollingWriter
from firnline_deletes.positions import PositionSet
from firnline_deletes.projection import Projection, plan
from firnline_deletes.shape import Shape

_BATCH_BYTES = 64 * 1024 * 1024  # decoded bytes per batch: bounds a task's memory
_KEY_BATCH_ROWS = 1 << 18


@dataclass(frozen=True)
class Tally:
    """The proof of a rewrite: rows_in - rows_masked = rows_out."""

    rows_in: int = 0
    rows_masked: int = 0
    rows_out: int = 0
    groups_skipped: int = 0  # row groups wholly dead, never decoded beyond their keys

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.rows_in + other.rows_in,
            self.rows_masked + other.rows_masked,
            self.rows_out + other.rows_out,
            self.groups_skipped + other.groups_skipped,
        )


@dataclass(frozen=True)
class Deletes:
    """Every delete that may touch a scope: one set per (scope or global, equality-id set)."""

    sets: Sequence[DeleteSet] = ()
    positions: PositionSet | None = None

    def after(self, sequence_number: int) -> list[DeleteSet]:
        """The sets with a key that died after this sequence number."""
        return [chosen for chosen in self.sets if chosen.highest > sequence_number]


def rewrite(
    files: Sequence[SequencedFile],
    deletes: Deletes,
    shape: Shape,
    open_file: Open,
    writer: RollingWriter,
) -> Tally:
    """Write every living row of `files`, in order, in the table's `shape`; the writer stays open.

    Each input is masked by its own sequence number, so inputs of different age may share an
    output (spec rules 4.1). Raises Refused for what must be handed over.
    """
    total = Tally()
    for file in files:
        with open_parquet(open_file, file.path) as parquet:
            projection = plan(parquet, shape, file)
            total += _rewrite_file(parquet, file, deletes, shape, projection, writer)
    return total


def _rewrite_file(
    parquet: pq.ParquetFile,
    file: SequencedFile,
    deletes: Deletes,
    shape: Shape,
    projection: Projection,
    writer: RollingWriter,
) -> Tally:
    masks = Masks(parquet, file, deletes, shape)
    total, start = Tally(), 0
    for group in range(parquet.num_row_groups):
        rows = parquet.metadata.row_group(group).num_rows
        keep = masks.keep(group, start, rows)
        living = rows if keep is None else int(keep.sum())
        if living:
            _copy(parquet, group, start, None if living == rows else keep, projection, writer)
        total += Tally(rows, rows - living, living, int(not living))
        start += rows
    return total


class Masks:
    """Keep masks of one data file, row group by row group."""

    def __init__(
        self, parquet: pq.ParquetFile, file: SequencedFile, deletes: Deletes, shape: Shape
    ) -> None:
        self._file = file
        self._sets = deletes.after(file.sequence_number)
        keys = {key.id: key for chosen in self._sets for key in chosen.keys}
        self._keys = KeyReader(parquet, _sorted(keys), file.path, shape) if keys else None
        none = np.empty(0, dtype=np.int64)
        self._dead = deletes.positions.of(file.path) if deletes.positions else none

    def keep(self, group: int, start: int, rows: int) -> Mask | None:
        """True per living row of the group whose first row is row `start` of the file; None if
        nothing can touch it."""
        first, last = np.searchsorted(self._dead, [start, start + rows])
        if self._keys is None and first == last:
            return None
        keep = np.ones(rows, dtype=np.bool_)
        keep[self._dead[first:last] - start] = False
        if self._keys is not None:
            self._mask_keys(keep, group)
        return keep

    def _mask_keys(self, keep: Mask, group: int) -> None:
        assert self._keys is not None
        at = 0
        for arrays in self._keys.batches(_KEY_BATCH_ROWS, [group]):
            for chosen in self._sets:
                dead = chosen.dead(arrays, self._file.sequence_number)
                keep[at : at + len(dead)] &= ~dead
            at += len(dead)


def _sorted(keys: dict[int, KeyField]) -> list[KeyField]:
    return [keys[number] for number in sorted(keys)]


def _copy(
    parquet: pq.ParquetFile,
    group: int,
    start: int,
    keep: Mask | None,
    projection: Projection,
    writer: RollingWriter,
) -> None:
    """Decode the columns of the group whose first row is row `start`, write the living rows."""
    at = 0
    size = rows_within(parquet, group, _BATCH_BYTES)
    for batch in parquet.iter_batches(size, [group], columns=list(projection.columns)):
        mask = None if keep is None else keep[at : at + batch.num_rows]
        first = start + at
        at += batch.num_rows
        if mask is not None and not mask.any():
            continue
        kept = batch if mask is None or mask.all() else batch.filter(pa.array(mask))
        writer.write(projection.apply(kept, partial(_positions, first, batch.num_rows, mask)))


def _positions(first: int, rows: int, mask: Mask | None) -> npt.NDArray[np.int64]:
    every = np.arange(first, first + rows)
    return every if mask is None else every[mask]
