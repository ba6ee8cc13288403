"""From a file's columns to the table's current schema, by field id and never by name.

Renamed, reordered, added (NULL) and dropped columns, and the spec's v2 promotions. A nested column
must have the table's shape: same ids, names, order and types at every level; anything else is
refused and the table is handed to Iceberg's own action.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from firnline_deletes.fields import children, field_id, indices_by_id, normal, normal_field
from firnline_deletes.keys import promotes
from firnline_deletes.refusals import Refused


@dataclass(frozen=True)
class Projection:
    """How one file's batches become table batches. `ids[i]` is the file's id for column i, or None
    where the file has no such column."""

    schema: pa.Schema
    ids: tuple[int | None, ...]
    columns: tuple[str, ...]

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Same rows, table columns. `batch` was read with `columns`."""
        at = indices_by_id(batch.schema, "batch") if batch.num_columns else {}
        arrays = [
            pa.nulls(batch.num_rows, field.type)
            if number is None
            else _as(batch.column(at[number]), field.type)
            for number, field in zip(self.ids, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def table_schema(schema: pa.Schema) -> pa.Schema:
    """The schema that outputs are written with: 32-bit offsets, ids kept, uuid annotated."""
    return pa.schema([_written(field) for field in schema])


def plan(
    file: pq.ParquetFile, table: pa.Schema, place: str, identity_ids: Collection[int] = ()
) -> Projection:
    """Match a file to the table. `table` comes from `table_schema`; `identity_ids` are the source
    ids of the identity transforms of the file's partition spec: their values live in metadata if
    the file lacks the column, so that is refused.

    Refused: no_field_ids, duplicate_field_ids, type_differs, nested_differs, missing_required,
    missing_partition_column.
    """
    schema = file.schema_arrow
    at = indices_by_id(schema, place)
    ids: list[int | None] = []
    for field in table:
        number = field_id(field)
        if number is None:
            raise Refused("no_field_ids", f"table column {field.name}")
        if number in at:
            _check(schema.field(at[number]), field, place)
            ids.append(number)
        else:
            _absent(field, number, identity_ids, place)
            ids.append(None)
    columns = tuple(schema.field(at[number]).name for number in ids if number is not None)
    return Projection(table, tuple(ids), columns)


def _absent(field: pa.Field, number: int, identity_ids: Collection[int], place: str) -> None:
    if number in identity_ids:
        raise Refused("missing_partition_column", f"{place}: id {number} {field.name}")
    if not field.nullable:
        raise Refused("missing_required", f"{place}: id {number} {field.name}")


def _check(mine: pa.Field, table: pa.Field, place: str) -> None:
    if children(table.type) or children(mine.type):
        if not _same_shape(mine.type, table.type):
            raise Refused("nested_differs", f"{place}: {table.name}: {mine.type}")
        return
    old, new = normal(mine.type), normal(table.type)
    if old != new and not promotes(old, new):
        raise Refused("type_differs", f"{place}: {table.name} is {old}, not {new}")


def _same_shape(mine: pa.DataType, table: pa.DataType) -> bool:
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
    return named and nulls and ids and _same_shape(mine.type, table.type)


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)


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
