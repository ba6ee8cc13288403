"""Parse the layout of a loaded table to count its scans (`LoadTableResult`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile

import msgspec
from firnline_domain.base.values import Value
from firnline_domain.records.events import PartitionClock, TableLayout

from firnline_gateway.rest.commit_body import uuid_in
from firnline_gateway.rest.scan_report import keeps_order


class Loaded(Value):
    """Its uuid, and how its files are laid out; None = it does not say so."""

    uuid: str
    layout: TableLayout | None = None


class _Nested(msgspec.Struct):
    fields: tuple[_Field, ...] = ()  # of a struct; what is in lists and maps has no bounds


class _Field(msgspec.Struct):
    id: int
    name: str
    type: str | _Nested


class _Schema(msgspec.Struct, rename="kebab"):
    schema_id: int = 0
    fields: tuple[_Field, ...] = ()


class _Source(msgspec.Struct, rename="kebab"):
    transform: str
    source_id: int | None = None  # None = of several columns


class _Order(msgspec.Struct, rename="kebab"):
    order_id: int
    fields: tuple[_Source, ...] = ()


class _Spec(msgspec.Struct, rename="kebab"):
    spec_id: int
    fields: tuple[_Source, ...] = ()


class _LayoutMetadata(msgspec.Struct, rename="kebab"):
    table_uuid: str
    current_schema_id: int = 0
    schemas: tuple[_Schema, ...] = ()
    default_spec_id: int = 0
    partition_specs: tuple[_Spec, ...] = ()
    default_sort_order_id: int = 0
    sort_orders: tuple[_Order, ...] = ()


class _Answer(msgspec.Struct):
    metadata: _LayoutMetadata


_FINENESS = ("hour", "day", "month", "year")
_IDENTITY = {"date": "day", "timestamp": "hour", "string": "day"}  # units of values as they are
_read = msgspec.json.Decoder(_Answer).decode  # snapshots are passed over


def loaded_table(answer: bytes) -> Loaded | None:
    """Return the table of an answer; None if the answer names none. An unknown part of a layout
    hides only the layout."""
    try:
        metadata = _read(answer).metadata
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        uuid = uuid_in(answer)
        return None if uuid is None else Loaded(uuid)
    return Loaded(metadata.table_uuid, _build_layout(metadata))


def _build_layout(metadata: _LayoutMetadata) -> TableLayout | None:
    schemas = {schema.schema_id: schema.fields for schema in metadata.schemas}
    specs = {spec.spec_id: spec.fields for spec in metadata.partition_specs}
    orders = {order.order_id: order.fields for order in metadata.sort_orders}
    fields, spec = schemas.get(metadata.current_schema_id), specs.get(metadata.default_spec_id)
    if fields is None or spec is None:
        return None
    names: dict[int | None, str] = dict(_column_names(fields))
    order = orders.get(metadata.default_sort_order_id, ())  # 0 = none, and need not be there
    # After a field that scatters values the others order nothing that a filter could use.
    leading = takewhile(lambda one: keeps_order(one.transform) and one.source_id in names, order)
    parts = (one for one in spec if one.transform != "void")
    clock = _partition_clock(metadata.default_spec_id, spec, fields, names)
    return TableLayout(_source_names(leading, names), _source_names(parts, names), clock)


def _partition_clock(
    spec_id: int,
    spec: tuple[_Source, ...],
    fields: tuple[_Field, ...],
    names: Mapping[int | None, str],
) -> PartitionClock | None:
    """Return the finest of a spec's time fields; of text fields, which may be dates, the first.
    None if it has neither."""
    types = {one.id: one.type for one in fields}
    found = []
    for position, field in enumerate(spec):
        unit = field.transform
        if unit == "identity":
            kind = types.get(field.source_id or 0)
            unit = next((_IDENTITY[one] for one in _IDENTITY if str(kind).startswith(one)), "")
        if unit in _FINENESS and field.source_id in names:
            is_text = types.get(field.source_id or 0) == "string"
            column = names[field.source_id]
            found.append((is_text, _FINENESS.index(unit), position, unit, column))
    if not found:
        return None
    _, _, position, unit, column = min(found)
    return PartitionClock(spec_id, position, unit, column)


def _source_names(fields: Iterable[_Source], names: Mapping[int | None, str]) -> tuple[str, ...]:
    return tuple(names[field.source_id] for field in fields if field.source_id in names)


def _column_names(fields: Iterable[_Field], before: str = "") -> Iterator[tuple[int | None, str]]:
    for field in fields:
        yield field.id, before + field.name
        if isinstance(field.type, _Nested):
            yield from _column_names(field.type.fields, f"{before}{field.name}.")
