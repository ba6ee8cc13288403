"""Upserts as Flink and CDC writers commit them: data files with equality deletes, by Iceberg's
Java API (Spark SQL cannot write equality deletes)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from firnline_demo.model import Row


def commit_upsert(
    spark: SparkSession,
    table_name: str,
    key: Sequence[str],
    rows: Sequence[Row],
    properties: Mapping[str, str],
) -> None:
    """Commit one `RowDelta` into an unpartitioned table: delete the keys, add the rows.
    `properties` are added to the snapshot's summary."""
    jvm: Any = spark._jvm
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    iceberg = jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(
        spark._jsparkSession,
        table_name,
    )
    schema, parquet = table.schema(), iceberg.FileFormat.PARQUET
    names = gateway.new_array(jvm.java.lang.String, len(key))
    ids = gateway.new_array(jvm.int, len(key))
    for place, column in enumerate(key):
        names[place] = column
        ids[place] = schema.findField(column).fieldId()
    key_schema = schema.select(names)
    factory = (
        getattr(iceberg.data, "GenericFileWriterFactory$Builder")(table)
        .dataFileFormat(parquet)
        .deleteFileFormat(parquet)
        .equalityFieldIds(ids)
        .equalityDeleteRowSchema(key_schema)
        .build()
    )
    files = (
        iceberg.io.OutputFileFactory.builderFor(table, 0, time.time_ns() // 1000)
        .format(parquet)
        .build()
    )
    frame = spark.createDataFrame(rows, spark.table(table_name).schema)
    deletes = factory.newEqualityDeleteWriter(files.newOutputFile(), table.spec(), None)
    write_all(jvm, deletes, key_schema, frame.select(*key)._jdf)
    data = factory.newDataWriter(files.newOutputFile(), table.spec(), None)
    write_all(jvm, data, schema, frame._jdf)
    delta = table.newRowDelta().addDeletes(deletes.toDeleteFile()).addRows(data.toDataFile())
    for name, value in properties.items():
        delta.set(name, value)
    delta.commit()


def write_all(jvm: Any, writer: Any, schema: Any, frame: Any) -> None:
    """Write all rows as Spark's own: these keep Long and Integer apart, which Python's int
    cannot."""
    convert = jvm.org.apache.iceberg.spark.SparkValueConverter
    for row in frame.collectAsList():
        writer.write(convert.convert(schema, row))
    writer.close()
