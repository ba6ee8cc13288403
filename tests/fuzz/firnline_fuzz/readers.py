"""What readers see: the oracle."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from firnline_domain.identity import MAIN

from firnline_fuzz.tables import Table

LINEAGE = ("_row_id", "_last_updated_sequence_number")
Seen = list[str]


def by_spark(spark: Any, table: Table, ref: str = MAIN, lineage: bool = False) -> Seen:
    """Every row of a ref as Spark reads it."""
    name = f"lake.{table.name.namespace[0]}.{table.name.name}"
    columns = ", ".join(("*", *LINEAGE)) if lineage else "*"
    version = "" if ref == MAIN else f" VERSION AS OF '{ref}'"
    return shown(spark.sql(f"SELECT {columns} FROM {name}{version}").collect())


def by_generics(table: Table, ref: str, scratch: Path, lineage: bool = False) -> Seen:
    """The same through Iceberg's generic reader, for types that Spark has not: Java copies the
    live rows into a plain file."""
    iceberg, java = table.jvm.org.apache.iceberg, table.java
    if java.snapshot(ref) is None:
        return []
    schema = java.schema()
    if lineage:
        schema = iceberg.MetadataColumns.schemaWithRowLineage(schema)
    rows = iceberg.data.IcebergGenerics.read(java).project(schema)
    rows = rows.useSnapshot(java.snapshot(ref).snapshotId()).build()
    path = scratch / f"{uuid.uuid4().hex}.parquet"
    out = iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(
        java.io().newOutputFile(str(path))
    )
    factory = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(java)
    factory = factory.dataSchema(schema).build()
    writer = factory.newDataWriter(out, iceberg.PartitionSpec.unpartitioned(), None)
    each, project = rows.iterator(), iceberg.util.StructProjection.create
    while each.hasNext():  # what deletes need comes along, at places of its own
        row = each.next()
        writer.write(project(iceberg.Schema(row.struct().fields()), schema).wrap(row))
    writer.close()
    rows.close()
    if not path.exists():  # no row, no file
        return []
    found = pq.read_table(path)
    path.unlink()
    columns = [_plain(column).to_pylist() for column in found.columns]
    return shown(zip(*columns, strict=True))


def _plain(column: Any) -> Any:
    """Times as numbers at every level: Python's datetime has no place for nanoseconds and far
    years."""
    wanted = _numbers(column.type)
    return column if wanted == column.type else column.cast(wanted)


def _numbers(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        members = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([member.with_type(_numbers(member.type)) for member in members])
    if pa.types.is_map(kind):
        return pa.map_(_numbers(kind.key_type), _numbers(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_numbers(kind.value_type)))
    return kind


def shown(rows: Any) -> Seen:
    """Rows as text, in an order of their own: NaN and -0.0 keep their faces."""
    return sorted(repr(tuple(row)) for row in rows)


def has_lineage(table: Table, ref: str) -> bool:
    """Rows of a v3 table have ids; those of an upgraded one from its next commit on."""
    snapshot = table.java.snapshot(ref)
    return table.version == 3 and snapshot is not None and snapshot.firstRowId() is not None
