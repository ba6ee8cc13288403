"""Project a file's columns to the table's current schema, by field id and never by name.

Renamed, reordered, added and dropped columns at every level, and the spec's type promotions. What a
file lacks gets the value that `TargetSchema` knows, else NULL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firnline_deletes.columns.fields import (
    arrow_schema,
    child_fields,
    field_id,
    indices_by_id,
    is_list,
    normal_field,
    plain_type,
)
from firnline_deletes.columns.keys import as_kind, is_promotion
from firnline_deletes.columns.target_schema import LAST_UPDATED, ROW_ID, TargetSchema
from firnline_deletes.files.parquet import SequencedFile
from firnline_deletes.unsupported_files import UnsupportedFile

Positions = Callable[[], npt.NDArray[np.int64]]
"""The positions, in their file, of the rows of a batch."""
Make = Callable[[pa.RecordBatch, Positions], pa.Array]


@dataclass(frozen=True)
class Projection:
    """Plan that turns one file's batches into table batches. `columns` are what is to be read of
    it."""

    schema: pa.Schema
    columns: tuple[str, ...]
    makers: tuple[Make, ...]

    def apply(self, batch: pa.RecordBatch, positions: Positions) -> pa.RecordBatch:
        """Return the same rows with the table's columns; what was read as a dictionary stays one.
        `batch` was read with `columns`; `positions` is asked only for rows whose ids are not
        stored.

        Refused: missing_required."""
        arrays = [make(batch, positions) for make in self.makers]
        fields = [
            _require_values(field, array) for field, array in zip(self.schema, arrays, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _require_values(field: pa.Field, array: pa.Array) -> pa.Field:
    if not field.nullable and array.null_count:
        raise UnsupportedFile("missing_required", f"NULL in {field.name}")
    return field if array.type == field.type else field.with_type(array.type)


def table_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of outputs: 32-bit offsets, ids kept, uuid annotated. Columns of unknown
    type, whose values are all NULL, are not stored (spec, "Primitive Types")."""
    return pa.schema([_without_id(field) for field in schema if not pa.types.is_null(field.type)])


def plan_projection(
    parquet: pq.ParquetFile, target: TargetSchema, file: SequencedFile
) -> Projection:
    """Match a file to the table.

    Refused: no_field_ids, duplicate_field_ids, type_differs, missing_required,
    missing_partition_column, row_ids_unknown.
    """
    read = _ColumnPlan(parquet, target, file)
    makers = [read.plan_column(field) for field in target.columns]
    if target.lineage:
        makers += [read.row_ids(), read.last_updated()]
    return Projection(target.output_schema, tuple(read.columns), tuple(makers))


class _ColumnPlan:
    """Collects the columns of one file that are needed."""

    def __init__(self, parquet: pq.ParquetFile, target: TargetSchema, file: SequencedFile) -> None:
        plain = arrow_schema(parquet)
        self._schema = target.with_ids(plain)
        mapped = self._schema is not plain
        self._at = indices_by_id(self._schema, file.path, partly=mapped)
        self._file = file
        self._matcher = Matcher(target, file.path, mapped)
        self.columns: list[str] = []

    def plan_column(self, field: pa.Field) -> Make:
        number = field_id(field)
        if number is None:
            raise UnsupportedFile("no_field_ids", f"table column {field.name}")
        if number not in self._at:
            value = self._matcher.default_values(field)
            return lambda batch, _: value(batch.num_rows)
        mine = self._schema.field(self._at[number])
        return _read_stored(self._take_column(number), _converter(self._matcher, mine, field))

    def row_ids(self) -> Make:
        first = self._file.first_row_id
        if first is None:
            raise UnsupportedFile("row_ids_unknown", self._file.path)

        def count_up(positions: Positions) -> pa.Array:
            return pa.array(positions() + first)

        return self._inherit(ROW_ID, count_up)

    def last_updated(self) -> Make:
        number = pa.scalar(self._file.sequence_number, pa.int64())
        return self._inherit(LAST_UPDATED, lambda _: number)

    def _inherit(self, number: int, value: Callable[[Positions], pa.Array | pa.Scalar]) -> Make:
        """Use the stored number where there is one, else the inherited one."""
        name = self._take_column(number) if number in self._at else None

        def make(batch: pa.RecordBatch, positions: Positions) -> pa.Array:
            stored = pa.nulls(batch.num_rows, pa.int64()) if name is None else batch.column(name)
            return stored if not stored.null_count else pc.coalesce(stored, value(positions))

        return make

    def _take_column(self, number: int) -> str:
        name: str = self._schema.field(self._at[number]).name
        self.columns.append(name)
        return name


def _read_stored(name: str, convert: Convert) -> Make:
    return lambda batch, _: convert(batch.column(name))


def _converter(matcher: Matcher, mine: pa.Field, table: pa.Field) -> Convert:
    if same_shape(mine.type, table.type):
        return lambda column: as_kind(column, table.type)
    return matcher.converter(mine, table)


def _without_id(field: pa.Field) -> pa.Field:
    return (
        field.with_type(_annotated_type(field.type))
        if child_fields(field.type)
        else _plain_leaf(field)
    )


def _plain_leaf(field: pa.Field) -> pa.Field:
    if isinstance(field.type, pa.UuidType):  # keeps Parquet's UUID annotation on FLBA(16)
        return field
    return normal_field(field)


def _annotated_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_without_id(member) for member in child_fields(kind)])
    if pa.types.is_map(kind):
        return pa.map_(_without_id(kind.key_field), _without_id(kind.item_field))
    return pa.list_(_without_id(kind.value_field))


Convert = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True)
class Matcher:
    """Matches the fields of one file, whose place is named in refusals, to those of the table.

    `mapped`: the file's ids come from a name mapping, so members without one are not columns.
    """

    target: TargetSchema
    place: str
    mapped: bool

    def default_values(self, field: pa.Field) -> Callable[[int], pa.Array]:
        """Return rows -> the values of a column that the file lacks."""
        number = field_id(field)
        if number in self.target.unknown:
            raise UnsupportedFile(
                "missing_partition_column", f"{self.place}: id {number} {field.name}"
            )
        value = self.target.absent.get(number) if number is not None else None
        if value is not None:
            one = value[0]
            return lambda rows: _cast_column(pa.repeat(one, rows), field.type)
        if not field.nullable:
            raise UnsupportedFile("missing_required", f"{self.place}: id {number} {field.name}")
        return lambda rows: pa.nulls(rows, field.type)

    def converter(self, mine: pa.Field, table: pa.Field) -> Convert:
        """Return a function that makes a column of the table's type out of one of the file's.

        Refused: type_differs, missing_required, no_field_ids, duplicate_field_ids."""
        old, new = mine.type, table.type
        if pa.types.is_struct(old) and pa.types.is_struct(new):
            return _convert_from(old, self._convert_struct(old, new))
        if pa.types.is_map(old) and pa.types.is_map(new):
            return _convert_from(old, self._convert_map(old, new))
        if is_list(old) and is_list(new):
            return _convert_from(old, self._convert_list(old, new))
        self._check_leaf(mine, table)
        return lambda column: _cast_column(column, new)

    def _check_leaf(self, mine: pa.Field, table: pa.Field) -> None:
        old, new = plain_type(mine.type), plain_type(table.type)
        nested = child_fields(mine.type) or child_fields(table.type)
        if nested or (old != new and not is_promotion(old, new)):
            raise UnsupportedFile("type_differs", f"{self.place}: {table.name} is {old}, not {new}")

    def _convert_struct(self, old: pa.DataType, new: pa.DataType) -> Convert:
        members = child_fields(old)
        at = indices_by_id(members, self.place, partly=self.mapped)
        wanted = child_fields(new)
        parts = [self._convert_member(members, at, field) for field in wanted]

        def make(column: pa.Array) -> pa.Array:
            mask = column.is_null() if column.null_count else None
            made = [part(column) for part in parts]
            return pa.StructArray.from_arrays(made, fields=wanted, mask=mask)

        return make

    def _convert_member(
        self, members: list[pa.Field], at: dict[int, int], field: pa.Field
    ) -> Convert:
        number = field_id(field)
        if number is None or number not in at:
            value = self.default_values(field)
            return lambda column: value(len(column))
        index = at[number]
        self._check_nulls(members[index], field)
        convert = self.converter(members[index], field)
        return lambda column: convert(column.field(index))

    def _convert_list(self, old: pa.DataType, new: pa.DataType) -> Convert:
        convert = self._convert_child(old.value_field, new.value_field)
        return lambda column: _with_child(column, new, convert(column.values))

    def _convert_map(self, old: pa.DataType, new: pa.DataType) -> Convert:
        key = self._convert_child(old.key_field, new.key_field)
        item = self._convert_child(old.item_field, new.item_field)
        fields = [new.key_field, new.item_field]

        def make(column: pa.Array) -> pa.Array:
            pairs = [key(column.keys), item(column.items)]
            return _with_child(column, new, pa.StructArray.from_arrays(pairs, fields=fields))

        return make

    def _convert_child(self, mine: pa.Field, table: pa.Field) -> Convert:
        """Convert the child of a list or map, which no evolution can replace."""
        if field_id(mine) is None:
            raise UnsupportedFile("no_field_ids", f"{self.place}: {mine.name} of {table.name}")
        if field_id(mine) != field_id(table):
            raise UnsupportedFile("type_differs", f"{self.place}: another {table.name}")
        self._check_nulls(mine, table)
        return self.converter(mine, table)

    def _check_nulls(self, mine: pa.Field, table: pa.Field) -> None:
        if mine.nullable and not table.nullable:
            raise UnsupportedFile("missing_required", f"{self.place}: {table.name} may be NULL")


def same_shape(mine: pa.DataType, table: pa.DataType) -> bool:
    """Return True if kind, members, ids, names and leaf types agree; a member may be stricter about
    NULL."""
    below, wanted = child_fields(mine), child_fields(table)
    if not below and not wanted:
        return bool(plain_type(mine) == plain_type(table))
    if plain_type(mine).id != plain_type(table).id or len(below) != len(wanted):
        return False
    return all(_same_member(a, b, mine) for a, b in zip(below, wanted, strict=True))


def _same_member(mine: pa.Field, table: pa.Field, parent: pa.DataType) -> bool:
    named = not pa.types.is_struct(parent) or mine.name == table.name
    nulls = table.nullable or not mine.nullable
    ids = field_id(mine) is not None and field_id(mine) == field_id(table)
    return named and nulls and ids and same_shape(mine.type, table.type)


def _convert_from(old: pa.DataType, convert: Convert) -> Convert:
    """Convert dictionaries, views and 64-bit offsets first, as Arrow's own schema may bring
    them."""
    plain = plain_type(old)
    return lambda column: convert(_cast_column(column, plain))


def _cast_column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)


def _with_child(column: pa.Array, kind: pa.DataType, child: pa.Array) -> pa.Array:
    """Return the same lists or maps over another child; `column.values` ignores the slice."""
    buffers = column.buffers()[:2]
    return pa.Array.from_buffers(
        kind, len(column), buffers, column.null_count, column.offset, [child]
    )
