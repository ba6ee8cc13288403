"""Rows on their way to a row group, and the form in which each column is written."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firnline_deletes.columns.packing import decode_dictionary

_PAGE_ROWS = 20_000  # what parquet-java looks at before it keeps a dictionary: its first page


@dataclass
class PendingBatches:
    """Batches of one table; a text column may be a dictionary in some and plain in others."""

    rows: int = 0
    bytes: int = 0
    _batches: list[pa.RecordBatch] = field(default_factory=list)

    def add_batch(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self.rows += batch.num_rows
        self.bytes += _batch_bytes(batch)

    def take_rows(self, rows: int) -> list[pa.RecordBatch]:
        """Remove and return the first `rows` rows."""
        taken, rest, missing = [], [], rows
        for batch in self._batches:
            if missing:
                taken.append(batch.slice(0, missing))
            if batch.num_rows > missing:
                rest.append(batch.slice(missing))
            missing -= min(missing, batch.num_rows)
        self._batches, self.rows = rest, self.rows - rows
        self.bytes = sum(_batch_bytes(batch) for batch in rest)
        return taken


def _batch_bytes(batch: pa.RecordBatch) -> int:
    """Count a batch as a row group does: a dictionary is its indices."""
    return sum(
        (column.indices if pa.types.is_dictionary(column.type) else column).nbytes
        for column in batch.columns
    )


def dictionary_columns(
    batches: Sequence[pa.RecordBatch], schema: pa.Schema, limit_bytes: int
) -> set[str]:
    """Choose the columns to write as the dictionaries that they are: all batches have one, and
    together they are within the limit and pay (fewer values than half the rows)."""
    rows = sum(batch.num_rows for batch in batches)
    found = set()
    for index, column in enumerate(schema):
        parts = [batch.column(index) for batch in batches]
        if all(pa.types.is_dictionary(part.type) for part in parts):
            values = _unify_dictionaries(parts).chunk(0).dictionary
            if values.nbytes <= limit_bytes and 2 * len(values) <= rows:
                found.add(column.name)
    return found


def to_table(
    batches: Sequence[pa.RecordBatch], schema: pa.Schema, dictionaries: Collection[str]
) -> pa.Table:
    """Return one table; columns of `dictionaries` are dictionary arrays over one dictionary."""
    columns, fields = [], []
    for index, member in enumerate(schema):
        parts = [batch.column(index) for batch in batches]
        if member.name in dictionaries:
            parts = [part if _is_encoded(part) else part.dictionary_encode() for part in parts]
            column = _unify_dictionaries(parts)
        else:
            column = pa.chunked_array([decode_dictionary(part) for part in parts], member.type)
        columns.append(column)
        fields.append(member.with_type(column.type))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def largest_dictionary(table: pa.Table) -> int:
    """Return the bytes of the largest dictionary of any column; 0 without one."""
    sizes = [c.chunk(0).dictionary.nbytes for c in table.columns if _is_encoded(c)]
    return max(sizes, default=0)


def plain_columns(table: pa.Table) -> frozenset[str]:
    """Return the top-level columns for which a dictionary does not pay, by parquet-java's test of
    the first page (`DictionaryValuesWriter.isCompressionSatisfying`): indices and dictionary are
    not smaller than the values."""
    return frozenset(
        name
        for name, column in zip(table.schema.names, table.columns, strict=True)
        if not _is_encoded(column) and not _dictionary_pays(column.slice(0, _PAGE_ROWS))
    )


def _dictionary_pays(page: pa.ChunkedArray) -> bool:
    """Return whether a dictionary pays; True for types outside the test, whose leaves are left to
    the writer."""
    if isinstance(page.type, pa.BaseExtensionType):  # uuid
        page = pa.chunked_array([chunk.storage for chunk in page.chunks])
    if pa.types.is_nested(page.type) or pa.types.is_boolean(page.type) or not len(page):
        return True
    distinct: int = pc.count_distinct(page).as_py()
    width = page.nbytes / len(page)
    bits = max(1, (max(distinct, 1) - 1).bit_length())
    return bool(len(page) * bits / 8 + distinct * width < len(page) * width)


def _unify_dictionaries(parts: Sequence[pa.DictionaryArray]) -> pa.ChunkedArray:
    return pa.chunked_array(parts).unify_dictionaries()


def _is_encoded(column: Any) -> bool:
    return bool(pa.types.is_dictionary(column.type))
