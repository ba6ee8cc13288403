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
    children,
    field_id,
    indices_by_id,
    is_list,
    normal,
    normal_field,
)
from firnline_deletes.columns.keys import as_kind, promotes
from firnline_deletes.columns.target_schema import LAST_UPDATED, ROW_ID, TargetSchema
from firnline_deletes.files.parquet import SequencedFile
from firnline_deletes.unsupported_files import Refused

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


def plan(parquet: pq.ParquetFile, target: TargetSchema, file: SequencedFile) -> Projection:
    """Match a file to the table.

    Refused: no_field_ids, duplicate_field_ids, type_differs, missing_required,
    missing_partition_column, row_ids_unknown.
    """
    read = _Reading(parquet, target, file)
    makers = [read.column(field) for field in target.columns]
    if target.lineage:
        makers += [read.row_ids(), read.last_updated()]
    return Projection(target.written, tuple(read.columns), tuple(makers))


class _Reading:
    """Collects the columns of one file that are needed."""

    def __init__(self, parquet: pq.ParquetFile, target: TargetSchema, file: SequencedFile) -> None:
        plain = arrow_schema(parquet)
        self._schema = target.identified(plain)
        mapped = self._schema is not plain
        self._at = indices_by_id(self._schema, file.path, partly=mapped)
        self._file = file
        self._matcher = Matcher(target, file.path, mapped)
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
        """Use the stored number where there is one, else the inherited one."""
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


Convert = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True)
class Matcher:
    """Matches the fields of one file, whose place is named in refusals, to those of the table.

    `mapped`: the file's ids come from a name mapping, so members without one are not columns.
    """

    target: TargetSchema
    place: str
    mapped: bool

    def absent(self, field: pa.Field) -> Callable[[int], pa.Array]:
        """Return rows -> the values of a column that the file lacks."""
        number = field_id(field)
        if number in self.target.unknown:
            raise Refused("missing_partition_column", f"{self.place}: id {number} {field.name}")
        value = self.target.absent.get(number) if number is not None else None
        if value is not None:
            one = value[0]
            return lambda rows: _as(pa.repeat(one, rows), field.type)
        if not field.nullable:
            raise Refused("missing_required", f"{self.place}: id {number} {field.name}")
        return lambda rows: pa.nulls(rows, field.type)

    def convert(self, mine: pa.Field, table: pa.Field) -> Convert:
        """Return a function that makes a column of the table's type out of one of the file's.

        Refused: type_differs, missing_required, no_field_ids, duplicate_field_ids."""
        old, new = mine.type, table.type
        if pa.types.is_struct(old) and pa.types.is_struct(new):
            return _from(old, self._struct(old, new))
        if pa.types.is_map(old) and pa.types.is_map(new):
            return _from(old, self._map(old, new))
        if is_list(old) and is_list(new):
            return _from(old, self._list(old, new))
        self._check_leaf(mine, table)
        return lambda column: _as(column, new)

    def _check_leaf(self, mine: pa.Field, table: pa.Field) -> None:
        old, new = normal(mine.type), normal(table.type)
        nested = children(mine.type) or children(table.type)
        if nested or (old != new and not promotes(old, new)):
            raise Refused("type_differs", f"{self.place}: {table.name} is {old}, not {new}")

    def _struct(self, old: pa.DataType, new: pa.DataType) -> Convert:
        members = children(old)
        at = indices_by_id(members, self.place, partly=self.mapped)
        wanted = children(new)
        parts = [self._member(members, at, field) for field in wanted]

        def make(column: pa.Array) -> pa.Array:
            mask = column.is_null() if column.null_count else None
            made = [part(column) for part in parts]
            return pa.StructArray.from_arrays(made, fields=wanted, mask=mask)

        return make

    def _member(self, members: list[pa.Field], at: dict[int, int], field: pa.Field) -> Convert:
        number = field_id(field)
        if number is None or number not in at:
            value = self.absent(field)
            return lambda column: value(len(column))
        index = at[number]
        self._check_nulls(members[index], field)
        convert = self.convert(members[index], field)
        return lambda column: convert(column.field(index))

    def _list(self, old: pa.DataType, new: pa.DataType) -> Convert:
        convert = self._same(old.value_field, new.value_field)
        return lambda column: _rebuilt(column, new, convert(column.values))

    def _map(self, old: pa.DataType, new: pa.DataType) -> Convert:
        key = self._same(old.key_field, new.key_field)
        item = self._same(old.item_field, new.item_field)
        fields = [new.key_field, new.item_field]

        def make(column: pa.Array) -> pa.Array:
            pairs = [key(column.keys), item(column.items)]
            return _rebuilt(column, new, pa.StructArray.from_arrays(pairs, fields=fields))

        return make

    def _same(self, mine: pa.Field, table: pa.Field) -> Convert:
        """Convert the child of a list or map, which no evolution can replace."""
        if field_id(mine) is None:
            raise Refused("no_field_ids", f"{self.place}: {mine.name} of {table.name}")
        if field_id(mine) != field_id(table):
            raise Refused("type_differs", f"{self.place}: another {table.name}")
        self._check_nulls(mine, table)
        return self.convert(mine, table)

    def _check_nulls(self, mine: pa.Field, table: pa.Field) -> None:
        if mine.nullable and not table.nullable:
            raise Refused("missing_required", f"{self.place}: {table.name} may be NULL")


def same_shape(mine: pa.DataType, table: pa.DataType) -> bool:
    """Kind, members, ids, names and leaf types agree; a member may be stricter about NULL."""
    below, wanted = children(mine), children(table)
    if not below and not wanted:
        return bool(normal(mine) == normal(table))
    if normal(mine).id != normal(table).id or len(below) != len(wanted):
        return False
    return all(_same_member(a, b, mine) for a, b in zip(below, wanted, strict=True))


def _same_member(mine: pa.Field, table: pa.Field, parent: pa.DataType) -> bool:
    named = not pa.types.is_struct(parent) or mine.name == table.name
    nulls = table.nullable or not mine.nullable
    ids = field_id(mine) is not None and field_id(mine) == field_id(table)
    return named and nulls and ids and same_shape(mine.type, table.type)


def _from(old: pa.DataType, convert: Convert) -> Convert:
    """Convert dictionaries, views and 64-bit offsets first, as Arrow's own schema may bring
    them."""
    plain = normal(old)
    return lambda column: convert(_as(column, plain))


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)


def _rebuilt(column: pa.Array, kind: pa.DataType, child: pa.Array) -> pa.Array:
    """Return the same lists or maps over another child; `column.values` ignores the slice."""
    buffers = column.buffers()[:2]
    return pa.Array.from_buffers(
        kind, len(column), buffers, column.null_count, column.offset, [child]
    )
