"""Rows of a rewrite in the order of a key, in bounded memory: an external merge sort in Arrow.

Rows are gathered into runs; each is sorted and put on disk as plain Arrow. In the end the runs are
memory-mapped and cut at the same keys, quantiles of a sample. What lies between two cuts is sorted
and handed on: so much is in memory, whatever the size of the group. Rows that equal a cut are
handed on as they are, so that a key of which there are many needs no more.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import total_ordering
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firnline_deletes.columns.packing import decode_dictionary
from firnline_deletes.files.writer import RollingWriter

RUN_BYTES = 256 << 20  # decoded; twice as much is in memory while a run is sorted
_SAMPLED = 64  # keys of each run: a cut is off by a 64th of a run for each run at the most
_PIECE_ROWS = 1 << 16


@dataclass(frozen=True)
class SortKey:
    """A top-level column of the rows."""

    column: str
    descending: bool = False
    nulls_first: bool = True


@dataclass
class Runs:
    """Gathers rows of one schema. What its owner takes and spills lies in `folder`, as plain Arrow
    files that begin with `name`."""

    schema: pa.Schema
    folder: Path
    name: str
    paths: list[Path] = field(default_factory=list)
    spilled_bytes: int = 0
    _batches: list[pa.RecordBatch] = field(default_factory=list)
    _bytes: int = 0

    def add_batch(self, batch: pa.RecordBatch) -> int:
        """Add a batch, whose text may be dictionaries; return the bytes that are gathered by
        now."""
        if batch.num_rows:
            columns = [decode_dictionary(column) for column in batch.columns]
            self._batches.append(pa.RecordBatch.from_arrays(columns, schema=self.schema))
            self._bytes += self._batches[-1].nbytes
        return self._bytes

    def take_all(self) -> pa.Table:
        """Return all that is gathered, and no more."""
        table = pa.Table.from_batches(self._batches, schema=self.schema)
        self._batches, self._bytes = [], 0
        return table

    def spill_run(self, run: pa.Table) -> None:
        """Write a sorted run to disk. Raises OSError if the disk is full."""
        path = self.folder / f"{self.name}-{len(self.paths)}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, run.schema) as out:
            out.write_table(run)
            self.spilled_bytes += run.nbytes
        self.paths.append(path)


@dataclass
class SortingWriter:
    """Takes the rows of a `RollingWriter`, and hands them on in order when it is closed. Runs lie
    in `folder`, which its owner removes."""

    writer: RollingWriter
    keys: Sequence[SortKey]
    folder: Path
    run_bytes: int = RUN_BYTES
    runs: Runs = field(init=False)

    def __post_init__(self) -> None:
        self.runs = Runs(self.writer.schema, self.folder, "run")

    def expect_rows(self, rows: float) -> None:
        """Pass the number of rows on (`RollingWriter.expect`)."""
        self.writer.expect_rows(rows)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Take rows; text may be dictionaries."""
        if self.runs.add_batch(batch) >= self.run_bytes:
            self.runs.spill_run(self._sorted_run())

    def finish(self) -> None:
        """Pass all rows on to the writer, which is still to be closed. Raises OSError if the disk
        is full."""
        rest = self._sorted_run()
        if not self.runs.paths:
            self._hand_on(rest)
            return
        if rest.num_rows:
            self.runs.spill_run(rest)
        runs = [_map_run(path) for path in self.runs.paths]
        for piece in _merge_runs(runs, self.keys, self.run_bytes):
            self._hand_on(piece)

    def _sorted_run(self) -> pa.Table:
        return _sort_table(self.runs.take_all(), self.keys)

    def _hand_on(self, table: pa.Table) -> None:
        """Write sorted rows to the next writer, in batches of at most _PIECE_ROWS."""
        for batch in table.to_batches(max_chunksize=_PIECE_ROWS):
            self.writer.write_batch(batch)


def _sort_table(table: pa.Table, keys: Sequence[SortKey]) -> pa.Table:
    """Sort with each key's nulls at its own end, for which PyArrow's one option is not enough."""
    columns, names = dict[str, Any](), list[tuple[str, str]]()
    for number, key in enumerate(keys):
        values = table.column(key.column)
        if values.null_count:
            columns[f"null{number}"] = pc.cast(pc.is_null(values), pa.int8())
            names.append((f"null{number}", "descending" if key.nulls_first else "ascending"))
        columns[f"key{number}"] = values
        names.append((f"key{number}", "descending" if key.descending else "ascending"))
    order = pc.sort_indices(pa.table(columns), sort_keys=names)
    return table.take(order).combine_chunks()


def _map_run(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _merge_runs(
    runs: Sequence[pa.Table], keys: Sequence[SortKey], piece_bytes: int
) -> Iterator[pa.Table]:
    """Merge runs into pieces in order, each of about `piece_bytes`."""
    looked = [_Keys(run, keys) for run in runs]
    starts = [0] * len(runs)
    for cut in _choose_cuts(looked, sum(run.nbytes for run in runs) // max(piece_bytes, 1)):
        before = [bisect_left(one, cut, start) for one, start in zip(looked, starts, strict=True)]
        yield _sort_table(_rows_between(runs, starts, before), keys)
        starts = [bisect_right(one, cut, start) for one, start in zip(looked, before, strict=True)]
        yield _rows_between(runs, before, starts)
    yield _sort_table(_rows_between(runs, starts, [run.num_rows for run in runs]), keys)


def _rows_between(runs: Sequence[pa.Table], starts: Sequence[int], ends: Sequence[int]) -> pa.Table:
    parts = zip(runs, starts, ends, strict=True)
    return pa.concat_tables([run.slice(start, end - start) for run, start, end in parts])


def _choose_cuts(runs: Sequence[_Keys], count: int) -> list[tuple[_KeyPart, ...]]:
    """Choose at most `count` keys, ascending, with about as many rows between each two, by a
    sample."""
    sample = sorted(
        run[number * len(run) // _SAMPLED]
        for run in runs
        for number in range(min(_SAMPLED, len(run)))
    )
    chosen = [sample[number * len(sample) // (count + 1)] for number in range(1, count + 1)]
    return list(dict.fromkeys(chosen))


@total_ordering
@dataclass(frozen=True)
class _KeyPart:
    """One column's value of a key, in the order that it is sorted by."""

    value: Any
    descending: bool
    nulls_first: bool

    def __lt__(self, other: _KeyPart) -> bool:
        if self.value is None or other.value is None:
            absent = other.value is not None if self.nulls_first else self.value is not None
            return absent and (self.value is None) != (other.value is None)
        return bool(other.value < self.value if self.descending else self.value < other.value)


class _Keys(Sequence[tuple[_KeyPart, ...]]):
    """The keys of a sorted run, each made when it is asked for."""

    def __init__(self, run: pa.Table, keys: Sequence[SortKey]) -> None:
        self._rows, self._keys = int(run.num_rows), keys
        self._columns = [run.column(key.column) for key in keys]

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, row: Any) -> Any:
        return tuple(
            _KeyPart(_comparable_value(column[row]), key.descending, key.nulls_first)
            for column, key in zip(self._columns, self._keys, strict=True)
        )


def _comparable_value(value: pa.Scalar) -> Any:
    """Return a value that compares; of a time its number, because Python has no nanoseconds."""
    return value.value if pa.types.is_temporal(value.type) else value.as_py()
