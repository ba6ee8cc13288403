"""Describes a table's columns for the kernel: types, defaults, partition values, names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from uuid import UUID

import pyarrow as pa
from firnline_deletes.columns.fields import plain_type
from firnline_deletes.columns.keys import KeyField, is_key_type
from firnline_deletes.columns.name_mapping import NameMapping, parse_mapping
from firnline_deletes.columns.target_schema import TargetSchema
from firnline_deletes.files.projection import table_schema
from firnline_domain.identity import Scope
from firnline_iceberg.metadata.entries import DeleteFileEntry
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.write_format import NAME_MAPPING
from pyiceberg.conversions import from_json
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IcebergType, NestedField, PrimitiveType, StructType


def target_schema(table: LoadedTable, scope: Scope) -> TargetSchema:
    """Return the schema for reading the files of a scope and for writing the outputs. Raises
    ValueError if the table's name mapping cannot be read (see `name_mapping`)."""
    fields = _known_fields(table)
    given, unknown = _of_partition(table, scope, fields)
    defaults = {
        number: _single_value(field.initial_default, field.field_type)
        for number, field in fields.items()
        if field.initial_default is not None
    }
    return TargetSchema(
        columns=table_schema(schema_to_pyarrow(table.schema)),
        absent=defaults | given,
        unknown=unknown,
        structs={number: around[-1] for number, around in _structs_around(table).items() if around},
        names=name_mapping(table),
        lineage=table.format_version >= 3,
    )


def name_mapping(table: LoadedTable) -> NameMapping | None:
    """Return the table's name mapping, if it has one. Raises ValueError if it cannot be read."""
    text = table.properties.get(NAME_MAPPING)
    try:
        return None if text is None else parse_mapping(text)
    except ValueError as error:
        raise ValueError(f"{NAME_MAPPING}: {error}") from error


def _known_fields(table: LoadedTable) -> dict[int, NestedField]:
    """Return every field of any schema, in the form of the newest one (Iceberg #15268)."""
    found: dict[int, NestedField] = {}
    for schema in _newest_first(table):
        found = index_by_id(schema) | found
    return found


def _newest_first(table: LoadedTable) -> Iterator[Schema]:
    yield table.schema
    yield from sorted(table.metadata.schemas, key=lambda s: s.schema_id, reverse=True)


def _of_partition(
    table: LoadedTable, scope: Scope, fields: dict[int, NestedField]
) -> tuple[dict[int, pa.Array], frozenset[int]]:
    """Return values of the identity partitions by source id, and the ids whose value cannot be
    represented."""
    values: dict[int, pa.Array] = {}
    unknown = set()
    spec = table.spec(scope.spec_id)
    for part, value in zip(spec.fields, json.loads(scope.partition), strict=False):
        field = fields.get(part.source_id)
        if isinstance(part.transform, IdentityTransform) and field is not None:
            try:
                values[part.source_id] = _parse_constant(value, field.field_type)
            except (ValueError, OverflowError):
                unknown.add(part.source_id)
    return values, frozenset(unknown)


def _parse_constant(value: object, kind: IcebergType) -> pa.Array:
    """Parse a partition's value in Iceberg's JSON form into an array of one value; None is null.
    Raises ValueError, OverflowError."""
    assert isinstance(kind, PrimitiveType)
    return _single_value(None if value is None else from_json(kind, value), kind)


def _single_value(value: object, kind: IcebergType) -> pa.Array:
    """Return an array of one value, in Arrow's plain type."""
    plain = value.bytes if isinstance(value, UUID) else value
    return pa.array([plain], plain_type(schema_to_pyarrow(kind)))


def find_type(table: LoadedTable, field_id: int) -> IcebergType | None:
    """Return the type of a field in the newest schema that has it, beginning with the current one;
    None if none has it (Iceberg #15268)."""
    for schema in _newest_first(table):
        with suppress(ValueError):
            return schema.find_type(field_id)
    return None


def key_fields(table: LoadedTable, equality_ids: tuple[int, ...]) -> tuple[KeyField, ...]:
    """Return key columns in Arrow's types, and the structs around them. A field that is in no
    schema has the null type, which the kernel refuses."""
    columns = [KeyField(number, _arrow_type(find_type(table, number))) for number in equality_ids]
    around = _structs_around(table)
    structs = {struct for number in equality_ids for struct in around.get(number, ())}
    return (*columns, *(KeyField.of_struct(number) for number in sorted(structs)))


def proving_ids(table: LoadedTable, deletes: Iterable[DeleteFileEntry]) -> tuple[int, ...]:
    """Return the columns whose checksum proves a rewrite: the key columns of the deletes that it
    applies, else the table's identifier fields; none if both are unknown, or only of dropped
    columns."""
    of_deletes = {number for delete in deletes for number in delete.equality_ids}
    found = _present_ids(table, of_deletes) or _present_ids(
        table, table.schema.identifier_field_ids
    )
    return tuple(found)


def _present_ids(table: LoadedTable, ids: Iterable[int]) -> list[int]:
    """Return the ids that outputs have, outside lists and maps, in a type that keys may have."""
    reached = dict(_fields_in_structs(table.schema.fields, ()))
    kinds = {n: table.schema.find_type(n) for n in sorted(ids) if n in reached}
    return [
        n
        for n, kind in kinds.items()
        if kind.is_primitive and is_key_type(plain_type(_arrow_type(kind)))
    ]


def _structs_around(table: LoadedTable) -> dict[int, tuple[int, ...]]:
    """Return, by id of every field within structs only, the ids of these, from the outermost."""
    found: dict[int, tuple[int, ...]] = {}
    for schema in _newest_first(table):
        found = dict(_fields_in_structs(schema.fields, ())) | found
    return found


def _fields_in_structs(
    fields: Sequence[NestedField], around: tuple[int, ...]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    for field in fields:
        yield field.field_id, around
        if isinstance(field.field_type, StructType):
            yield from _fields_in_structs(field.field_type.fields, (*around, field.field_id))


def _arrow_type(kind: IcebergType | None) -> pa.DataType:
    return pa.null() if kind is None else schema_to_pyarrow(kind)
