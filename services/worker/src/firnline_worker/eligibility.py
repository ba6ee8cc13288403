"""What is rewritten natively; the rest is handed to Iceberg's own action, with a reason code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from firnline_iceberg.files import FileEntry
from firnline_iceberg.tables import LoadedTable
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import IdentityTransform, UnknownTransform
from pyiceberg.types import (
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    UnknownType,
)

from firnline_worker.columns import find_type, name_mapping
from firnline_worker.planning import Plan
from firnline_worker.reasons import Unfit

_UNSERVED: dict[type, Unfit] = {
    UnknownType: "type_unknown",
    GeometryType: "type_geometry",
    GeographyType: "type_geography",
}


def reasons(table: LoadedTable, plan: Plan) -> Iterator[Unfit]:
    """Reason codes for which this plan is not served natively; none = it is."""
    if table.format_version == 1:
        yield "format_version_1"
    if table.form.encrypted:
        yield "encrypted"
    if table.properties.get("write.format.default", "parquet").lower() != "parquet":
        yield "write_format"
    if not _mapping_is_read(table):
        yield "name_mapping"
    stored = (f for f in table.schema.fields if not isinstance(f.field_type, UnknownType))
    yield from _of_types(stored)
    for spec_id in sorted({file.spec_id for file in plan.taken}):
        yield from _of_spec(table, table.spec(spec_id))
    for file in (*plan.taken, *plan.deletes):
        yield from _of_file(file)
    if table.format_version >= 3 and any(file.first_row_id is None for file in plan.inputs):
        yield "row_ids_unknown"


def _mapping_is_read(table: LoadedTable) -> bool:
    try:
        name_mapping(table)
    except ValueError:
        return False
    return True


def _of_file(file: FileEntry) -> Iterator[Unfit]:
    if file.encrypted:
        yield "encrypted"
    if file.format == "AVRO":
        yield "avro_file"
    if file.format == "ORC":
        yield "orc_file"


def _of_types(fields: Iterable[NestedField]) -> Iterator[Unfit]:
    for field in fields:
        yield from _of_type(field.field_type)


def _of_type(kind: IcebergType) -> Iterator[Unfit]:
    if isinstance(kind, StructType):
        yield from _of_types(kind.fields)
    elif isinstance(kind, ListType):
        yield from _of_type(kind.element_type)
    elif isinstance(kind, MapType):
        yield from _of_type(kind.key_type)
        yield from _of_type(kind.value_type)
    elif unserved := _UNSERVED.get(type(kind)):
        yield unserved


def _of_spec(table: LoadedTable, spec: PartitionSpec) -> Iterator[Unfit]:
    for field in spec.fields:
        if isinstance(field.transform, UnknownTransform):
            yield "unknown_transform"
        source = find_type(table, field.source_id)
        if isinstance(field.transform, IdentityTransform) and isinstance(
            source, FloatType | DoubleType
        ):
            yield "float_partition"  # NaN has no JSON form, -0.0 no text of its own
