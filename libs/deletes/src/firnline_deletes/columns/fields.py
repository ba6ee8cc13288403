"""Arrow fields by Iceberg field id (`PARQUET:field_id`), and types in one normal form."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from firnline_deletes.unsupported_files import UnsupportedFile

ID_KEY = b"PARQUET:field_id"
UUID_STORAGE = pa.binary(16)
_INSTANT = pa.timestamp("us", "UTC")


def field_id(field: pa.Field) -> int | None:
    """Return the Iceberg id that a Parquet reader or PyIceberg put on the field, else None."""
    raw = (field.metadata or {}).get(ID_KEY)
    return None if raw is None else int(raw)


def with_id(field: pa.Field, number: int) -> pa.Field:
    return field.with_metadata({ID_KEY: str(number).encode()})


def indices_by_id(fields: Iterable[pa.Field], place: str, partly: bool = False) -> dict[int, int]:
    """Return id -> position among siblings; `partly`: fields without an id are no columns.

    Refused: no_field_ids, duplicate_field_ids."""
    found: dict[int, int] = {}
    for index, field in enumerate(fields):
        number = field_id(field)
        if number is None and partly:
            continue
        if number is None:
            raise UnsupportedFile("no_field_ids", f"{place}: column {field.name}")
        if number in found:
            raise UnsupportedFile("duplicate_field_ids", f"{place}: id {number}")
        found[number] = index
    return found


def child_fields(kind: pa.DataType) -> list[pa.Field]:
    """Return the fields one level below a nested type: struct members, list element, map key and
    value."""
    if pa.types.is_struct(kind):
        return [kind.field(i) for i in range(kind.num_fields)]
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if is_list(kind):
        return [kind.value_field]
    return []


def is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def arrow_schema(file: pq.ParquetFile) -> pa.Schema:
    """Return a file's columns. Arrow shows INT96, in which Hive, Impala and old Sparks kept
    instants, without its zone; Iceberg's readers take it for UTC."""
    schema = file.schema_arrow
    for place in range(len(file.schema)):
        column = file.schema.column(place)
        if column.physical_type == "INT96" and "." not in column.path:
            index = schema.get_field_index(column.name)
            schema = schema.set(index, schema.field(index).with_type(_INSTANT))
    return schema


def leaf_path(schema: pa.Schema, number: int) -> tuple[int, ...] | None:
    """Return the positions from the top to the field with this id, walking structs only; None if
    absent.

    Refused key_in_collection if the id lies under a list or map (spec: equality fields may be
    nested in structs, never in lists or maps)."""
    return _find_path(list(schema), number)


def _find_path(fields: list[pa.Field], number: int) -> tuple[int, ...] | None:
    for index, field in enumerate(fields):
        if field_id(field) == number:
            return (index,)
        below = _find_path(child_fields(field.type), number)
        if below is not None:
            if not pa.types.is_struct(field.type):
                raise UnsupportedFile("key_in_collection", f"field id {number} under {field.name}")
            return (index, *below)
    return None


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the same logical type in one Arrow spelling: 32-bit offsets, uuid as 16 bytes, no
    views."""
    if isinstance(kind, pa.UuidType):
        return UUID_STORAGE
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([normal_field(f) for f in child_fields(kind)])
    if pa.types.is_map(kind):
        return pa.map_(normal_field(kind.key_field), normal_field(kind.item_field))
    if is_list(kind):
        return pa.list_(normal_field(kind.value_field))
    return kind


def normal_field(field: pa.Field) -> pa.Field:
    return field.with_type(plain_type(field.type))
