"""`schema.name-mapping.default`: field ids for files that were written without any.

Spec, "Column Projection" and "Name Mapping Serialization". A field whose name is not in the mapping
keeps no id and so is no column of the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from firnline_deletes.columns.fields import child_fields, field_id, with_id


@dataclass(frozen=True)
class MappedField:
    """A field's id, if it has one, and what is below it, by name."""

    id: int | None
    below: Mapping[str, MappedField]


NameMapping = Mapping[str, MappedField]


def parse_mapping(text: str) -> NameMapping:
    """Parse the property's JSON. Raises ValueError if it is not a mapping, as Java does."""
    try:
        return _parse_fields(json.loads(text))
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(repr(error)) from error


def _parse_fields(listed: list[Mapping[str, Any]]) -> NameMapping:
    if not isinstance(listed, list):
        raise TypeError(f"{listed!r:.100} is no list of fields")
    found: dict[str, MappedField] = {}
    for one in listed:
        number, names = one.get("field-id"), one["names"]
        is_id = number is None or (type(number) is int and 0 <= number < 1 << 31)
        if not is_id or not isinstance(names, list) or not all(type(name) is str for name in names):
            raise TypeError(f"{one!r:.100} is no field with an id and names")
        made = MappedField(number, _parse_fields(one.get("fields") or []))
        for name in names:
            if found.setdefault(name, made) is not made:
                raise ValueError(f"two fields have the name {name[:100]!r}")
    return found


def has_ids(fields: Iterable[pa.Field]) -> bool:
    """Return True if any field at any level has an id; then no mapping is used (`hasIds` in
    Java)."""
    return any(field_id(f) is not None or has_ids(child_fields(f.type)) for f in fields)


def apply_mapping(schema: pa.Schema, mapping: NameMapping) -> pa.Schema:
    """Return the same schema with the ids of the mapping."""
    return pa.schema(_map_fields(list(schema), [f.name for f in schema], mapping))


def _map_fields(
    fields: Sequence[pa.Field], names: Sequence[str], mapping: NameMapping
) -> list[pa.Field]:
    return [_map_field(f, mapping.get(name)) for f, name in zip(fields, names, strict=True)]


def _map_field(field: pa.Field, mapped: MappedField | None) -> pa.Field:
    if mapped is None:
        return field
    made = field.with_type(_map_type(field.type, mapped.below))
    return made if mapped.id is None else with_id(made, mapped.id)


def _map_type(kind: pa.DataType, below: NameMapping) -> pa.DataType:
    """Map a nested type: a list's child is `element`, a map's are `key` and `value`, under any
    names in the file."""
    members = child_fields(kind)
    if pa.types.is_struct(kind):
        return pa.struct(_map_fields(members, [member.name for member in members], below))
    if pa.types.is_map(kind):
        return pa.map_(*_map_fields(members, ["key", "value"], below))
    if not members:
        return kind
    (element,) = _map_fields(members, ["element"], below)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(element, kind.list_size)
    return pa.large_list(element) if pa.types.is_large_list(kind) else pa.list_(element)
