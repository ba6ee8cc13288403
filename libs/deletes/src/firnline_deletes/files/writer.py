"""Writes kept rows to new Parquet files that roll near the target size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firnline_deletes.columns.checksums import SUMS, Leaves
from firnline_deletes.columns.fields import child_fields, field_id
from firnline_deletes.files.parquet import Create
from firnline_deletes.files.pending_batch import (
    PendingBatches,
    dictionary_columns,
    largest_dictionary,
    plain_columns,
    to_table,
)
from firnline_deletes.files.writer_properties import ParquetProperties

_SLACK = 1 / 32  # of the target: a file that lacks no more is full
_MIN_SHRUNK = 0.02  # a row group of one value says nothing of the next one
_OUTGROWN = 4  # times the dictionary limit
MAX_GROUP_ROWS = 1 << 20  # 1 M rows: measured best of 128 K .. 4 M for write cost against size


Footer = bytes


@dataclass(frozen=True)
class WrittenFile:
    """One closed output. `nan_counts`: field id -> NaN values of a float column, which a Parquet
    footer does not carry. `footer`: a Parquet file of this one's metadata alone, so that nobody
    has to fetch it back. `keys`: checksum of its rows, as they were given to Parquet."""

    path: str
    bytes: int
    rows: int
    split_offsets: tuple[int, ...]
    nan_counts: Mapping[int, int]
    footer: Footer = field(repr=False)
    keys: int = 0


@dataclass
class RollingWriter:
    """Rows in, files out. A file is closed once a row group takes it to the target size.

    `paths` names the files in order; the last one takes all that is left, so that every name can
    be on a write-ahead list before the first byte. A file is made only for a row to write.
    `proved`: ids of the columns of `schema` of which rows are summed up.
    """

    schema: pa.Schema
    properties: ParquetProperties
    target_bytes: int
    paths: Sequence[str]
    create: Create
    proved: Sequence[int] = ()
    files: list[WrittenFile] = field(default_factory=list)
    _pending: PendingBatches = field(default_factory=PendingBatches)
    _expected: float = 0.0  # rows in all
    _flushed: int = 0  # rows
    _per_row: float = 0.0  # bytes in the last row group
    _shrunk: float = 0.5  # bytes in the file per byte pending, as the last row group had it
    _open: _OpenFile | None = None

    def expect_rows(self, rows: float) -> None:
        """Set how many rows there will be in all, as far as is known: from it follows what is
        still to come, so that the last file is not left far below the target."""
        self._expected = rows

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Take rows; they reach the file a row group at a time. Text may be dictionaries."""
        if not batch.num_rows:
            return
        self._pending.add_batch(batch)
        while self._pending.rows >= self._group_rows():
            self._flush_rows(self._group_rows())

    def close(self) -> list[WrittenFile]:
        """Write what is left; return the files, in the order written."""
        self._expected = 0.0
        while self._pending.rows:
            self._flush_rows(min(self._group_rows(), self._pending.rows))
        self._roll_file()
        return self.files

    def abort(self) -> None:
        """Drop an unfinished file; what it holds is not a Parquet file. Raises no OSError: it would
        hide why the file is dropped, and the output list removes what a storage has kept."""
        if self._open is not None:
            with suppress(OSError):
                self._open.abort()
            self._open = None

    def _group_rows(self) -> int:
        """Return how many rows fill a row group, at most MAX_GROUP_ROWS.

        By decoded bytes, which are never fewer than encoded ones in any column that Parquet is good
        for. A group fills half a file of the target size, because every group repeats its
        dictionaries (with eight in a file it was 23 % larger), or brings the open file to its
        goal."""
        per_row = max(1, self._pending.bytes // max(1, self._pending.rows))
        room = max(self._goal_bytes() - self._file_bytes, _SLACK * self.target_bytes)
        wanted = int(min(room, self.target_bytes / 2) / self._shrunk)
        budget = min(self.properties.row_group_bytes, wanted)
        return max(1, min(MAX_GROUP_ROWS, budget // per_row))

    def _flush_rows(self, rows: int) -> None:
        decoded = self._pending.bytes
        self._flushed += rows
        batches = self._pending.take_rows(rows)
        written = self._write_group(batches)
        self._per_row = written / rows
        self._shrunk = max(_MIN_SHRUNK, written / max(1, decoded - self._pending.bytes))
        is_last = len(self.files) + 1 == len(self.paths)
        if self._file_bytes >= self._goal_bytes() - _SLACK * self.target_bytes and not is_last:
            self._roll_file()

    def _write_group(self, batches: Sequence[pa.RecordBatch]) -> int:
        """Write one more row group, perhaps in a new file; return its bytes."""
        before = self._file_bytes
        if self._open is None or not self._open.add_group(batches):
            self._roll_file()
            path = self.paths[len(self.files)]
            leaves = Leaves.from_ids(self.schema, self.proved)
            self._open = _OpenFile(path, self.schema, self.properties, self.create, leaves, batches)
            before = 0
        return self._file_bytes - before

    @property
    def _file_bytes(self) -> int:
        return self._open.written_bytes() if self._open else 0

    def _goal_bytes(self) -> float:
        """Return the bytes at which the open file is closed: an even share of it and all that
        follows, which is 80 % to 160 % of the target, once there is a target's worth."""
        to_come = max(self._pending.rows, self._expected - self._flushed)
        expected = self._file_bytes + to_come * self._bytes_per_row()
        files = max(1, int(expected / self.target_bytes + 0.4))
        return max(expected / files, 0.75 * self.target_bytes) if files > 1 else math.inf

    def _bytes_per_row(self) -> float:
        """Return bytes per row in files, as the last row group had it or, before the first, as is
        supposed."""
        supposed = self._pending.bytes * self._shrunk / max(1, self._pending.rows)
        return self._per_row or supposed

    def _roll_file(self) -> None:
        if self._open is not None:
            self.files.append(self._open.close())
            self._open = None


class _OpenFile:
    """One Parquet file being written. Its first row group decides how columns are encoded."""

    def __init__(
        self,
        path: str,
        schema: pa.Schema,
        properties: ParquetProperties,
        create: Create,
        leaves: Leaves,
        batches: Sequence[pa.RecordBatch],
    ) -> None:
        self._path, self._schema, self._leaves, self._keys = path, schema, leaves, 0
        self._most = _OUTGROWN * properties.dictionary_bytes
        self._dictionaries = dictionary_columns(batches, schema, properties.dictionary_bytes)
        self._dictionaries -= properties.no_dictionary
        first = to_table(batches, schema, self._dictionaries)
        self._sink = create(path)
        self._footer: list[Any] = []
        self._nan: dict[int, int] = {}
        self._writer = pq.ParquetWriter(
            self._sink,
            first.schema,
            version="2.6",
            store_schema=False,
            store_decimal_as_integer=True,
            write_page_index=True,
            metadata_collector=self._footer,
            **properties.writer_options(leaf_types(schema), plain_columns(first)),
        )
        self._write_table(first)

    def add_group(self, batches: Sequence[pa.RecordBatch]) -> bool:
        """Write one more row group; False, and nothing is written, if a dictionary has outgrown
        what Arrow should put on a page: it does not fall back to plain values by itself."""
        table = to_table(batches, self._schema, self._dictionaries)
        if largest_dictionary(table) > self._most:
            return False
        self._write_table(table)
        return True

    def _write_table(self, table: pa.Table) -> None:
        self._keys = (self._keys + self._leaves.checksum(table)) % SUMS
        self._writer.write_table(table, row_group_size=table.num_rows)
        for number, count in nan_counts(table).items():
            self._nan[number] = self._nan.get(number, 0) + count

    def written_bytes(self) -> int:
        return int(self._sink.tell())

    def abort(self) -> None:
        self._sink.close()

    def close(self) -> WrittenFile:
        self._writer.close()
        size = self.written_bytes()
        self._sink.close()
        footer = self._footer[0]
        rows, starts = footer.num_rows, _split_offsets(footer)
        return WrittenFile(
            self._path, size, rows, starts, self._nan, _single_footer(footer), self._keys
        )


def _single_footer(footer: Any) -> Footer:
    sink = pa.BufferOutputStream()
    footer.write_metadata_file(sink)
    alone: Footer = sink.getvalue().to_pybytes()
    return alone


def _split_offsets(footer: Any) -> tuple[int, ...]:
    """Return the row-group starts that parquet-java's `BlockMetaData.getStartingPos` gives."""
    starts = []
    for group in range(footer.num_row_groups):
        first = footer.row_group(group).column(0)
        page, dictionary = first.data_page_offset, first.dictionary_page_offset
        starts.append(min(page, dictionary) if dictionary else page)
    return tuple(starts)


def leaf_types(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the types of all leaf columns by their dotted Parquet paths."""
    return {name: kind for member in schema for name, kind in _leaf_types(member, member.name)}


def _leaf_types(member: pa.Field, path: str) -> Iterator[tuple[str, pa.DataType]]:
    kind = member.type
    if pa.types.is_struct(kind):
        for sub in child_fields(kind):
            yield from _leaf_types(sub, f"{path}.{sub.name}")
    elif pa.types.is_map(kind):
        yield from _leaf_types(kind.key_field, f"{path}.key_value.key")
        yield from _leaf_types(kind.item_field, f"{path}.key_value.value")
    elif child_fields(kind):
        yield from _leaf_types(kind.value_field, f"{path}.list.element")
    else:
        yield path, kind


def nan_counts(table: pa.Table) -> dict[int, int]:
    """Return the number of NaN values per float column by field id, also inside structs; not in
    lists or maps, for which Iceberg keeps no metrics."""
    found: dict[int, int] = {}
    for member, column in zip(table.schema, table.columns, strict=True):
        _count_nans(member, column, found)
    return found


def _count_nans(member: pa.Field, column: pa.ChunkedArray, found: dict[int, int]) -> None:
    number = field_id(member)
    if pa.types.is_floating(member.type) and number is not None:
        found[number] = pc.sum(pc.is_nan(column)).as_py() or 0
    elif pa.types.is_struct(member.type):
        for index, sub in enumerate(child_fields(member.type)):
            _count_nans(sub, pc.struct_field(column, [index]), found)
