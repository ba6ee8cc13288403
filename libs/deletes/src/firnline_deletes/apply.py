"""Applies delete sets and positions to data files: key columns first, then only what lives."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from firnline_deletes.columns.checksums import NO_SUMS, KeySums, key_sums
from firnline_deletes.columns.hashing import index_values
from firnline_deletes.columns.keys import KeyReader, checksum_fields
from firnline_deletes.columns.packing import Mask
from firnline_deletes.columns.target_schema import TargetSchema
from firnline_deletes.deletes.delete_set import open_mapped
from firnline_deletes.deletes.masks import (
    Deletes,
    GroupMask,
    Input,
    Masks,
    PartMasks,
    masks_of_parts,
)
from firnline_deletes.deletes.row_map import MaskedRows
from firnline_deletes.files.parquet import Open, ParquetSource, SequencedFile, rows_within
from firnline_deletes.files.projection import Projection, plan_projection

_BATCH_BYTES = 64 * 1024 * 1024  # decoded bytes per batch: bounds a task's memory


class RowWriter(Protocol):
    """Takes living rows: a `RollingWriter`, or what sorts them before."""

    def expect_rows(self, rows: float) -> None:
        """Set how many rows there will be in all, as far as is known."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Take some rows."""


@dataclass(frozen=True)
class RewriteTally:
    """The proof of a rewrite: rows_in - rows_masked = rows_out.

    `keys` the same by checksums (`TargetSchema.proved`), modulo 2^64: `read_group` - `masked` is
    what the outputs' are. Rows of a row group that died without a look at its keys are in
    neither."""

    rows_in: int = 0
    rows_masked: int = 0
    rows_out: int = 0
    groups_skipped: int = 0  # row groups wholly dead, never decoded beyond their keys
    keys: KeySums = NO_SUMS
    key_bytes: int = 0  # read of key columns by `find_dead_rows`, as they are stored

    def __add__(self, other: RewriteTally) -> RewriteTally:
        return RewriteTally(
            self.rows_in + other.rows_in,
            self.rows_masked + other.rows_masked,
            self.rows_out + other.rows_out,
            self.groups_skipped + other.groups_skipped,
            self.keys + other.keys,
            self.key_bytes + other.key_bytes,
        )


def write_live_rows(
    files: Sequence[SequencedFile],
    deletes: Deletes,
    target: TargetSchema,
    open_file: Open,
    writer: RowWriter,
    threads: int = 1,
    masked: MaskedRows | None = None,
) -> RewriteTally:
    """Write every living row of `files`, in order, in the table's `target`; the writer stays open.

    Rows that are left out are added to `masked`.

    Each input is masked by its own sequence number, so inputs of different age may share an
    output (spec rules 4.1). With several threads, row groups are read and masked at once, as many
    as there are threads, of one file or of several. Raises Refused for what must be handed over.
    """
    total, records = RewriteTally(), sum(file.records for file in files)
    inputs = [(file, ParquetSource(file.path, open_file)) for file in files]
    source = _RowGroupReader(deletes, target, masks_of_parts(inputs, deletes, target))
    read = source.in_turn(inputs) if threads == 1 else source.read_ahead(inputs, threads)
    for group in read:
        total += group.tally
        writer.expect_rows(total.rows_out / max(1, total.rows_in) * records)
        for part in group.parts:
            total += RewriteTally(keys=part.sums)
            if part.rows is not None:
                writer.write_batch(part.rows)
        if masked is not None:
            masked.add_group(group.path, group.start, group.keep)
    return total


def find_dead_rows(
    files: Sequence[SequencedFile],
    deletes: Deletes,
    target: TargetSchema,
    open_file: Open,
    masked: MaskedRows,
) -> RewriteTally:
    """Add every dead row to `masked`; only key columns are read. Raises Refused."""
    unproved, total = replace(target, proved=()), RewriteTally()
    inputs = [(file, ParquetSource(file.path, open_file)) for file in files]
    known = masks_of_parts(inputs, deletes, unproved)
    for file, source in inputs:
        with source.open_parquet(encoded=True) as parquet:
            masks = Masks(parquet, file, deletes, unproved, known)
            parts = [Deletes([open_mapped(part)]) for part in deletes.parts]
            read = [masks, *(Masks(parquet, file, part, unproved) for part in parts)]
            for group, start in enumerate(_first_rows(parquet)):
                rows = parquet.metadata.row_group(group).num_rows
                keep = masks.mask_group(group, start, rows).keep
                kept = rows if keep is None else int(keep.sum())
                masked.add_group(file.path, start, keep)
                key_bytes = sum(one.key_bytes(group) for one in read)
                total += RewriteTally(rows, rows - kept, kept, key_bytes=key_bytes)
        source.drop_bytes()
    return total


@dataclass(frozen=True)
class Part:
    """Living rows, None = no one lives; and the sums of all rows that they were picked from, if
    these are not in the row group's tally already."""

    rows: pa.RecordBatch | None
    sums: KeySums = NO_SUMS


@dataclass(frozen=True)
class LiveRows:
    """One row group: what became of its rows, and those that live, in the table's schema."""

    path: str
    start: int  # position of its first row in the file
    keep: Mask | None  # None = all live
    tally: RewriteTally
    parts: Iterable[Part]


@dataclass(frozen=True)
class _RowGroupReader:
    """Reads data files, a row group at a time, in order."""

    deletes: Deletes
    target: TargetSchema
    known: PartMasks

    def in_turn(self, inputs: Iterable[Input]) -> Iterator[LiveRows]:
        """Yield the live rows of each row group in order. A batch is decoded when it is
        requested."""
        for file, source in inputs:
            with closing(source), source.open_parquet(encoded=True) as parquet:
                reader = self._open_reader(file, parquet)
                for group, start in enumerate(_first_rows(parquet)):
                    yield reader.read_group(group, start)

    def read_ahead(self, inputs: Iterable[Input], threads: int) -> Iterator[LiveRows]:
        """Read whole row groups, decoded by threads while earlier ones are written."""
        waiting: deque[Future[LiveRows]] = deque()
        with ThreadPoolExecutor(threads) as pool:
            for file, source in inputs:
                with closing(source):
                    with source.open_parquet() as parquet:
                        starts = _first_rows(parquet)
                    for group, start in enumerate(starts):
                        job = replace(source)  # what it fetched stays until its last job has ended
                        waiting.append(pool.submit(self._decode, file, job, group, start))
                        if len(waiting) > threads:
                            yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _decode(
        self, file: SequencedFile, source: ParquetSource, group: int, start: int
    ) -> LiveRows:
        """Read one row group by a handle of its own: a Parquet reader belongs to one thread."""
        with source.open_parquet(encoded=True) as parquet:
            read = self._open_reader(file, parquet).read_group(group, start)
            return replace(read, parts=list(read.parts))

    def _open_reader(self, file: SequencedFile, parquet: pq.ParquetFile) -> _Reader:
        masks = Masks(parquet, file, self.deletes, self.target, self.known)
        keys = KeyReader(parquet, checksum_fields(self.target), file.path, self.target)
        projection = plan_projection(parquet, self.target, file)
        return _Reader(file.path, parquet, projection, masks, keys, self.target.proved)


def _first_rows(parquet: pq.ParquetFile) -> list[int]:
    """Return the position of the first row of each row group."""
    groups = range(parquet.num_row_groups)
    rows = [parquet.metadata.row_group(group).num_rows for group in groups]
    return [0, *accumulate(rows)][: len(rows)]


@dataclass(frozen=True)
class _Reader:
    """Living rows of one data file, in the table's schema."""

    path: str
    parquet: pq.ParquetFile
    projection: Projection
    masks: Masks
    proved: KeyReader
    ids: Sequence[int]  # of its columns, as the sums take them

    def read_group(self, group: int, start: int) -> LiveRows:
        """Read the row group whose first row is row `start` of the file."""
        rows = self.parquet.metadata.row_group(group).num_rows
        living = self.masks.mask_group(group, start, rows)
        kept = rows if living.keep is None else int(living.keep.sum())
        parts = self._read_parts(group, start, living) if kept else ()
        tally = RewriteTally(rows, rows - kept, kept, int(not kept), living.sums or NO_SUMS)
        return LiveRows(self.path, start, living.keep, tally, parts)

    def _read_parts(self, group: int, start: int, living: GroupMask) -> Iterator[Part]:
        at = 0
        for batch in self._read_columns(group, living):
            mask = None if living.keep is None else living.keep[at : at + batch.num_rows]
            first = start + at
            at += batch.num_rows
            sums = NO_SUMS if living.sums is not None else self._sum_keys(batch, mask)
            if mask is not None and not mask.any():
                yield Part(None, sums)
                continue
            kept = batch if mask is None or mask.all() else batch.filter(pa.array(mask))
            where = partial(_live_positions, first, batch.num_rows, mask)
            yield Part(self.projection.apply(kept, where), sums)

    def _sum_keys(self, batch: pa.RecordBatch, mask: Mask | None) -> KeySums:
        if not self.ids:
            return NO_SUMS
        arrays = self.proved.key_arrays(batch)
        return key_sums(index_values([arrays[number] for number in self.ids]), mask)

    def _read_columns(self, group: int, living: GroupMask) -> Iterator[pa.RecordBatch]:
        """Read all projected columns; those that were read for the mask are not read again."""
        wanted = list(self.projection.columns)
        known = _columns_read(living.read, wanted)
        rest = [name for name in wanted if name not in known]
        size = rows_within(self.parquet, group, _BATCH_BYTES)
        if not known:
            yield from self.parquet.iter_batches(size, [group], columns=rest, use_threads=False)
        elif not rest:
            yield from pa.Table.from_batches(living.read).select(known).to_batches()
        else:
            table = pa.Table.from_batches(living.read).select(known)
            batches = self.parquet.iter_batches(size, [group], columns=rest, use_threads=False)
            yield from _add_columns(table, batches)


def _columns_read(read: Sequence[pa.RecordBatch], wanted: Sequence[str]) -> list[str]:
    """Return the top-level columns that were read already; of a struct only the key was."""
    fields = read[0].schema if read else ()
    return [f.name for f in fields if f.name in wanted and not pa.types.is_struct(f.type)]


def _add_columns(table: pa.Table, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each batch, with the columns of the table's same rows."""
    at = 0
    for batch in batches:
        same = table.slice(at, batch.num_rows).combine_chunks()
        at += batch.num_rows
        columns = [column.chunk(0) for column in same.columns]
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, *columns], schema=pa.schema([*batch.schema, *same.schema])
        )


def _live_positions(first: int, rows: int, mask: Mask | None) -> npt.NDArray[np.int64]:
    every = np.arange(first, first + rows)
    return every if mask is None else every[mask]
