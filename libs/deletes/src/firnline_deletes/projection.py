"""From a file's columns to the table's current schema, by field id and never by name.

Renamed, reordered, added and dropped columns at every level, and the spec's type promotions. What a
file lacks gets the value that `Shape` knows, else NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firnline_deletes.fields import arrow_schema, children, field_id, indices_by_id, normal_field
from firnline_deletes.files import SequencedFile
from firnline_deletes.keys import as_kind
from firnline_deletes.nested import Convert, Matcher, same_shape
from firnline_deletes.refusals import Refused
from firnline_deletes.shape import LAST_UPDATED, ROW_ID, Shape

Positions = Callable[[], npt.NDArray[np.int64]]
"""The positions, in their file, of the rows of a batch."""
Make = Callable[[pa.RecordBatch, Positions], pa.Array]


@dataclass(frozen=True)
class Projection:
    """How one file's batches become table batches. `columns` are what is to be read of it."""

    schema: pa.Schema
    columns: tuple[str, ...]
    makers: tuple[Make, ...]

    def apply(self, batch: pa.RecordBatch, positions: Positions) -> pa.RecordBatch:
        """Same rows, table columns; what was read as a dictionary stays one. `batch` was read
        with `columns`; `positions` is asked only for rows whose ids are not stored.

        Refused: missing_required."""
        arrays = [make(batch, positions) for make in self.makers]
        fields = [_made(field, array) for field, array in zip(self.schema, arrays, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _made(field: pa.Field, array: pa.Array) -> pa.Field:
    if not field.nullable and array.null_count:
        raise Refused("missing_required", f"NULL in {field.name}")
    return field if array.type == field.type else field.with_type(array.type)


def table_schema(schema: pa.Schema) -> pa.Schema:
    """The schema that outputs are written with: 32-bit offsets, ids kept, uuid annotated. Columns
    of unknown type, whose values are all NULL, are not stored (spec, "Primitive Types")."""
    return pa.schema([_written(field) for field in schema if not pa.types.is_null(field.type)])


def plan(parquet: pq.ParquetFile, shape: Shape, file: SequencedFile) -> Projection:
    """Match a file to the table.

    Refused: no_field_ids, duplicate_field_ids, type_differs, missing_required,
    missing_partition_column, row_ids_unknown.
    """
    read = _Reading(parquet, shape, file)
    makers = [read.column(field) for field in shape.columns]
    if shape.lineage:
        makers += [read.row_ids(), read.last_updated()]
    return Projection(shape.written, tuple(read.columns), tuple(makers))


class _Reading:
    """Collects the columns of one file that are needed."""

    def __init__(self, parquet: pq.ParquetFile, shape: Shape, file: SequencedFile) -> None:
        plain = arrow_schema(parquet)
        self._schema = shape.identified(plain)
        mapped = self._schema is not plain
        self._at = indices_by_id(self._schema, file.path, partly=mapped)
        self._file = file
        self._matcher = Matcher(shape, file.path, mapped)
        self.columns: list[str] = []

    def column(self, field: pa.Field) -> Make:
        number = field_id(field)
        if number is None:
            raise Refused("no_field_ids", f"table column {field.name}")
        if number not in self._at:
            value = self._matcher.absent(field)
            return lambda batch, _: value(batch.num_rows)
        mine = self._schema.field(self._at[number])
        return _stored(self._take(number), _convert(self._matcher, mine, field))

    def row_ids(self) -> Make:
        first = self._file.first_row_id
        if first is None:
            raise Refused("row_ids_unknown", self._file.path)

        def counted(positions: Positions) -> pa.Array:
            return pa.array(positions() + first)

        return self._inherited(ROW_ID, counted)

    def last_updated(self) -> Make:
        number = pa.scalar(self._file.sequence_number, pa.int64())
        return self._inherited(LAST_UPDATED, lambda _: number)

    def _inherited(self, number: int, value: Callable[[Positions], pa.Array | pa.Scalar]) -> Make:
        """The stored number where there is one, else the inherited one."""
        name = self._take(number) if number in self._at else None

        def make(batch: pa.RecordBatch, positions: Positions) -> pa.Array:
            stored = pa.nulls(batch.num_rows, pa.int64()) if name is None else batch.column(name)
            return stored if not stored.null_count else pc.coalesce(stored, value(positions))

        return make

    def _take(self, number: int) -> str:
        name: str = self._schema.field(self._at[number]).name
        self.columns.append(name)
        return name


def _stored(name: str, convert: Convert) -> Make:
    return lambda batch, _: convert(batch.column(name))


def _convert(matcher: Matcher, mine: pa.Field, table: pa.Field) -> Convert:
    if same_shape(mine.type, table.type):
        return lambda column: as_kind(column, table.type)
    return matcher.convert(mine, table)


def _written(field: pa.Field) -> pa.Field:
    return field.with_type(_annotated(field.type)) if children(field.type) else _leaf(field)


def _leaf(field: pa.Field) -> pa.Field:
    if isinstance(field.type, pa.UuidType):  # keeps Parquet's UUID annotation on FLBA(16)
        return field
    return normal_field(field)


def _annotated(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_written(member) for member in children(kind)])
    if pa.types.is_map(kind):
        return pa.map_(_written(kind.key_field), _written(kind.item_field))
    return pa.list_(_written(kind.value_field))
