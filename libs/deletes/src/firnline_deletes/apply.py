"""Applies delete sets and positions to data files: key columns first, then only what lives."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from firnline_deletes.files import Open, ParquetSource, SequencedFile, rows_within
from firnline_deletes.masks import Deletes, Input, Known, Living, Masks, premasked
from firnline_deletes.output import RollingWriter
from firnline_deletes.packing import Mask
from firnline_deletes.projection import Projection, plan
from firnline_deletes.row_map import Masked
from firnline_deletes.shape import Shape

_BATCH_BYTES = 64 * 1024 * 1024  # decoded bytes per batch: bounds a task's memory


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


def rewrite(
    files: Sequence[SequencedFile],
    deletes: Deletes,
    shape: Shape,
    open_file: Open,
    writer: RollingWriter,
    threads: int = 1,
    masked: Masked | None = None,
) -> Tally:
    """Write every living row of `files`, in order, in the table's `shape`; the writer stays open.

    `masked` is told of every row that is left out.

    Each input is masked by its own sequence number, so inputs of different age may share an
    output (spec rules 4.1). With several threads, row groups are read and masked at once, as many
    as there are threads, of one file or of several. Raises Refused for what must be handed over.
    """
    total, records = Tally(), sum(file.records for file in files)
    inputs = [(file, ParquetSource(file.path, open_file)) for file in files]
    source = _Reading(deletes, shape, premasked(inputs, deletes, shape))
    read = source.in_turn(inputs) if threads == 1 else source.ahead(inputs, threads)
    for group in read:
        total += group.tally
        writer.expect(total.rows_out / max(1, total.rows_in) * records)
        for batch in group.batches:
            writer.write(batch)
        if masked is not None:
            masked.add(group.path, group.start, group.keep)
    return total


@dataclass(frozen=True)
class Read:
    """One row group: what became of its rows, and those that live, in the table's shape."""

    path: str
    start: int  # position of its first row in the file
    keep: Mask | None  # None = all live
    tally: Tally
    batches: Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class _Reading:
    """Reads data files, a row group at a time, in order."""

    deletes: Deletes
    shape: Shape
    known: Known

    def in_turn(self, inputs: Iterable[Input]) -> Iterator[Read]:
        """Batches are decoded as they are asked for."""
        for file, source in inputs:
            with closing(source), source.open(encoded=True) as parquet:
                reader = self._reader(file, parquet)
                for group, start in enumerate(_starts(parquet)):
                    yield reader.read(group, start)

    def ahead(self, inputs: Iterable[Input], threads: int) -> Iterator[Read]:
        """Whole row groups, decoded by threads while earlier ones are written."""
        waiting: deque[Future[Read]] = deque()
        with ThreadPoolExecutor(threads) as pool:
            for file, source in inputs:
                with closing(source):
                    with source.open() as parquet:
                        starts = _starts(parquet)
                    for group, start in enumerate(starts):
                        job = replace(source)  # what it fetched stays until its last job has ended
                        waiting.append(pool.submit(self._decoded, file, job, group, start))
                        if len(waiting) > threads:
                            yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _decoded(self, file: SequencedFile, source: ParquetSource, group: int, start: int) -> Read:
        """In a handle of its own: a Parquet reader belongs to one thread."""
        with source.open(encoded=True) as parquet:
            read = self._reader(file, parquet).read(group, start)
            return replace(read, batches=list(read.batches))

    def _reader(self, file: SequencedFile, parquet: pq.ParquetFile) -> _Reader:
        masks = Masks(parquet, file, self.deletes, self.shape, self.known)
        return _Reader(file.path, parquet, plan(parquet, self.shape, file), masks)


def _starts(parquet: pq.ParquetFile) -> list[int]:
    """Position of the first row of each row group."""
    groups = range(parquet.num_row_groups)
    rows = [parquet.metadata.row_group(group).num_rows for group in groups]
    return [0, *accumulate(rows)][: len(rows)]


@dataclass(frozen=True)
class _Reader:
    """Living rows of one data file, in the table's shape."""

    path: str
    parquet: pq.ParquetFile
    projection: Projection
    masks: Masks

    def read(self, group: int, start: int) -> Read:
        """The row group whose first row is row `start` of the file."""
        rows = self.parquet.metadata.row_group(group).num_rows
        living = self.masks.of(group, start, rows)
        kept = rows if living.keep is None else int(living.keep.sum())
        batches = self._batches(group, start, living) if kept else ()
        tally = Tally(rows, rows - kept, kept, int(not kept))
        return Read(self.path, start, living.keep, tally, batches)

    def _batches(self, group: int, start: int, living: Living) -> Iterator[pa.RecordBatch]:
        at = 0
        for batch in self._whole(group, living):
            mask = None if living.keep is None else living.keep[at : at + batch.num_rows]
            first = start + at
            at += batch.num_rows
            if mask is not None and not mask.any():
                continue
            kept = batch if mask is None or mask.all() else batch.filter(pa.array(mask))
            yield self.projection.apply(kept, partial(_positions, first, batch.num_rows, mask))

    def _whole(self, group: int, living: Living) -> Iterator[pa.RecordBatch]:
        """All projected columns; those that were read for the mask are not read again."""
        wanted = list(self.projection.columns)
        known = _known(living.read, wanted)
        rest = [name for name in wanted if name not in known]
        size = rows_within(self.parquet, group, _BATCH_BYTES)
        if not known:
            yield from self.parquet.iter_batches(size, [group], columns=rest, use_threads=False)
        elif not rest:
            yield from pa.Table.from_batches(living.read).select(known).to_batches()
        else:
            table = pa.Table.from_batches(living.read).select(known)
            batches = self.parquet.iter_batches(size, [group], columns=rest, use_threads=False)
            yield from _beside(table, batches)


def _known(read: Sequence[pa.RecordBatch], wanted: Sequence[str]) -> list[str]:
    """Top-level columns that are there already; of a struct there is only the key."""
    fields = read[0].schema if read else ()
    return [f.name for f in fields if f.name in wanted and not pa.types.is_struct(f.type)]


def _beside(table: pa.Table, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch, with the columns of the table's same rows."""
    at = 0
    for batch in batches:
        same = table.slice(at, batch.num_rows).combine_chunks()
        at += batch.num_rows
        columns = [column.chunk(0) for column in same.columns]
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, *columns], schema=pa.schema([*batch.schema, *same.schema])
        )


def _positions(first: int, rows: int, mask: Mask | None) -> npt.NDArray[np.int64]:
    every = np.arange(first, first + rows)
    return every if mask is None else every[mask]
