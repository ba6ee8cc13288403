"""Tables made by Spark or of Iceberg's own JSON, with deletes by Iceberg's Java API."""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from firnline_adapters.records.signing import keys_here
from firnline_deletes.columns.fields import field_id
from firnline_deletes.files.projection import table_schema
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.summaries import TASK_ID, sign_summary
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.java.api import rest_catalog
from firnline_iceberg.scan.planning import live_files
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_worker.spark.java_api import JavaTables
from pyiceberg.io.pyarrow import schema_to_pyarrow

from tests.kit.lake.table import rewrite_order
from tests.kit.lake.writer import TableWriter

_numbers = itertools.count(1)


def now_ms() -> int:
    return int(time.time() * 1000)


class Lab:
    """Tables made by Spark, upserts written by Iceberg's Java API, results committed by it."""

    def __init__(self, spark: Any, java: JavaTables, tables: Tables, namespace: str) -> None:
        self.spark, self.java, self.tables, self.namespace = spark, java, tables, namespace

    def sql(self, text: str) -> Any:
        return self.spark.sql(text.replace("{t}", f"lake.{self.namespace}.t"))

    def create(self, columns: str, rest: str = "", **properties: str) -> None:
        given = {"format-version": "2", "write.target-file-size-bytes": "1048576", **properties}
        text = ", ".join(f"'{name}'='{value}'" for name, value in given.items())
        self.sql(f"CREATE TABLE {{t}} ({columns}) USING iceberg {rest} TBLPROPERTIES ({text})")

    def insert(self, values: str) -> None:
        """One data file per partition."""
        self.sql(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ * FROM VALUES {values}")

    def rows(self, columns: str = "*", ref: str = "main") -> list[tuple[Any, ...]]:
        branch = "" if ref == "main" else f".branch_{ref}"
        frame = self.sql(f"SELECT {columns} FROM {{t}}{branch}")
        return sorted((tuple(row) for row in frame.collect()), key=repr)

    def seen(self, ref: str = "main") -> list[tuple[Any, ...]]:
        """Rows, in v3 tables with the ids and numbers that follow them through rewrites."""
        lineage = ", _row_id, _last_updated_sequence_number"
        return self.rows("*" + (lineage if self.table().format_version >= 3 else ""), ref)

    @property
    def name(self) -> TableName:
        return self.table().identity

    def table(self) -> LoadedTable:
        return self.tables.load_named((self.namespace,), "t")

    @property
    def writer(self) -> TableWriter:
        return TableWriter(self.spark._jvm, lambda: self.java.load(self.name).java)

    def stored(self) -> set[str]:
        """Every file under the table's location, without Hadoop's checksums."""
        root = Path(self.table().metadata.location.removeprefix("file:"))
        return {str(path) for path in root.rglob("*") if path.is_file() and path.suffix != ".crc"}

    def order(self, scope: Scope | None = None, ref: str = "main") -> RewriteFiles:
        head = self.table().head_id(ref) or 0
        return rewrite_order(self.name, head, scope or self.scopes()[0], ref, reason="test")

    def scopes(self) -> list[Scope]:
        table = self.table()
        return list(live_files(table, table.head_id("main")).scopes)

    def equality_delete(
        self,
        columns: Sequence[str],
        keys: str,
        rows: str | None = None,
        partition: Sequence[Any] | None = None,
    ) -> None:
        """One `RowDelta`: an equality-delete file of `keys` (SQL VALUES in the columns' types of
        the table) and, if given, a data file of `rows`."""
        gateway = self.spark.sparkContext._gateway
        jvm = self.spark._jvm
        iceberg = jvm.org.apache.iceberg
        table = self.java.load(self.name).java
        schema, spec = table.schema(), table.spec()
        ids = gateway.new_array(jvm.int, len(columns))
        names = gateway.new_array(jvm.java.lang.String, len(columns))
        for index, column in enumerate(columns):
            names[index], ids[index] = column, schema.findField(column).fieldId()
        delete_schema = schema.select(names)
        factory = (
            getattr(iceberg.data, "GenericFileWriterFactory$Builder")(table)
            .dataSchema(schema)
            .equalityFieldIds(ids)
            .equalityDeleteRowSchema(delete_schema)
            .build()
        )
        parquet = iceberg.FileFormat.PARQUET
        files = (
            iceberg.io.OutputFileFactory.builderFor(table, 0, next(_numbers))
            .format(parquet)
            .build()
        )
        where = self._partition(iceberg, schema, spec, partition)
        writer = factory.newEqualityDeleteWriter(self._out(files, where), spec, where)
        self._write(writer, delete_schema, list(columns), keys)
        deleted, added = [writer.toDeleteFile()], []
        if rows is not None:
            writer = factory.newDataWriter(self._out(files, where), spec, where)
            self._write(writer, schema, [f.name() for f in schema.columns()], rows)
            added = [writer.toDataFile()]
        self.writer.row_delta(added, deleted)

    @staticmethod
    def _out(files: Any, where: Any) -> Any:
        return files.newOutputFile() if where is None else files.newOutputFile(where)

    @staticmethod
    def _partition(iceberg: Any, schema: Any, spec: Any, values: Sequence[Any] | None) -> Any:
        if values is None:
            return None
        key = iceberg.PartitionKey(spec, schema)
        for index, value in enumerate(values):
            key.set(index, value)
        return key

    def _write(self, writer: Any, schema: Any, names: list[str], values: str) -> None:
        convert = self.java.iceberg.spark.SparkValueConverter.convert
        kinds = self.java.iceberg.spark.SparkSchemaUtil.convert(schema).toDDL()
        listed = ", ".join(names)
        frame = self.spark.sql(f"SELECT * FROM VALUES {values} AS v({listed})")
        casts = [f"CAST({part.split(' ')[0]} AS {part.split(' ')[1]})" for part in kinds.split(",")]
        frame = frame.selectExpr(*casts)
        for row in frame._jdf.collectAsList():
            writer.write(convert(schema, row))
        writer.close()

    def commit(self, result: RewriteFinished) -> None:
        """As plainly as can be: nobody else writes here. Dangling deletes go with it."""
        self.spark.catalog.clearCache()
        table = self.table()
        live = {file.path: file for file in live_files(table, result.start_snapshot_id).data}
        self.writer.rewrite(
            [live[file.path] for group in result.groups for file in group.inputs],
            [file.content_file_json for group in result.groups for file in group.outputs],
            result.start_snapshot_id,
            result.start_sequence_number,
            sign_summary({TASK_ID: result.task_id}, table.identity.uuid, keys_here(), 1),
        )


class Foreign:
    """Tables made of Iceberg's own JSON, and files written by PyArrow: of any type and any shape.

    What Spark cannot show (times, nanoseconds), Iceberg's generic reader does.
    """

    def __init__(self, lab: Lab, catalog_uri: str) -> None:
        self.lab, self.jvm = lab, lab.spark._jvm
        self.iceberg = self.jvm.org.apache.iceberg
        self.catalog = rest_catalog(self.jvm, catalog_uri)

    def create(self, *fields: Mapping[str, Any], partition: Any = None, **properties: str) -> None:
        """`fields` as in Iceberg's schema JSON, ids as it gives them to a new table: a struct's
        members first, then what is below them. `partition` takes a spec builder, returns it."""
        body = {"type": "struct", "schema-id": 0, "fields": [*fields]}
        schema = self.iceberg.SchemaParser.fromJson(json.dumps(body))
        spec = self.iceberg.PartitionSpec.builderFor(schema)
        spec = (partition(spec) if partition else spec).build()
        given = self.jvm.java.util.HashMap()
        defaults = {"format-version": "2", "write.target-file-size-bytes": "1048576"}
        for key, value in {**defaults, **properties}.items():
            given.put(key, value)
        text = json.dumps({"namespace": [self.lab.namespace], "name": "t"})
        identifier = self.iceberg.catalog.TableIdentifierParser.fromJson(text)
        made = self.catalog.createTable(identifier, schema, spec, given).schema()
        assert made.sameSchema(schema), made.toString()

    @property
    def table(self) -> Any:
        return self.lab.java.load(self.lab.name).java

    @property
    def schema(self) -> pa.Schema:
        """The table's, as `projection.table_schema` has it."""
        return table_schema(schema_to_pyarrow(self.lab.table().schema))

    def append(
        self,
        *rows: Mapping[str, Any],
        schema: pa.Schema | None = None,
        scope: Scope | None = None,
        **written: Any,
    ) -> None:
        """One data file of the table's columns, or of those in `schema`; `written`: how."""
        table = self.lab.java.load(self.lab.name)
        builder = self.iceberg.DataFiles.builder(self._spec(table.java, scope))
        built = self._described(builder, table, scope, rows, schema or self.schema, **written)
        self.lab.writer.append(built)

    def delete(
        self,
        ids: Sequence[int],
        *rows: Mapping[str, Any],
        schema: pa.Schema | None = None,
        scope: Scope | None = None,
    ) -> None:
        """One equality-delete file of the columns `ids`, or of whatever is in `schema`."""
        table = self.lab.java.load(self.lab.name)
        schema = schema or pa.schema([f for f in self.schema if field_id(f) in ids])
        numbers = self.lab.spark.sparkContext._gateway.new_array(self.jvm.int, len(ids))
        for index, number in enumerate(ids):
            numbers[index] = number
        spec = self._spec(table.java, scope)
        builder = self.iceberg.FileMetadata.deleteFileBuilder(spec).ofEqualityDeletes(numbers)
        built = self._described(builder, table, scope, rows, schema)
        self.lab.writer.row_delta(deletes=[built])

    @staticmethod
    def _spec(table: Any, scope: Scope | None) -> Any:
        return table.spec() if scope is None else table.specs().get(scope.spec_id)

    def _described(
        self,
        builder: Any,
        table: Any,
        scope: Scope | None,
        rows: Sequence[Any],
        schema: pa.Schema,
        **written: Any,
    ) -> Any:
        path, size, metrics = self._written(table.java, rows, schema, **written)
        builder = builder.withPath(path).withFormat("parquet").withFileSizeInBytes(size)
        builder = builder.withMetrics(metrics)
        if scope is not None:
            builder = builder.withPartition(table._partition_value(scope))
        return builder.build()

    def written(self) -> list[pa.Schema]:
        """The schemas of the live data files."""
        table = self.lab.table()
        files = live_files(table, table.head_id("main")).data
        return [pq.read_schema(file.path.removeprefix("file:")) for file in files]

    def _written(
        self, table: Any, rows: Sequence[Any], schema: pa.Schema, **how: Any
    ) -> tuple[str, int, Any]:
        path = f"{self.lab.table().metadata.location}/data/{uuid.uuid4().hex}.parquet"
        local = Path(path.removeprefix("file:"))
        local.parent.mkdir(parents=True, exist_ok=True)
        arrays = [_array([row.get(f.name) for row in rows], f.type) for f in schema]
        written = pa.Table.from_arrays(arrays, schema=schema)
        pq.write_table(written, local, store_schema=False, store_decimal_as_integer=True, **how)
        config = self.iceberg.MetricsConfig.forTable(table)
        mapping = table.properties().get("schema.name-mapping.default")
        names = mapping and self.iceberg.mapping.NameMappingParser.fromJson(mapping)
        file = table.io().newInputFile(path)
        metrics = self.iceberg.parquet.ParquetUtil.fileMetrics(file, config, names)
        return path, local.stat().st_size, metrics

    def rows(self) -> list[list[str]]:
        """All rows by Iceberg's generic reader, values as text."""
        records = self.iceberg.data.IcebergGenerics.read(self.table).build()
        found, each = [], records.iterator()
        while each.hasNext():
            record = each.next()
            found.append([self._text(record.get(index)) for index in range(record.size())])
        records.close()
        return sorted(found)

    def _text(self, value: Any) -> str:
        if "ByteBuffer" in type(value).__name__ or "HeapByteBuffer" in str(value):
            value = self.iceberg.util.ByteBuffers.toByteArray(value)
        return value.hex() if isinstance(value, bytes) else str(value)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.UuidType):
        return pa.array(values, pa.binary(16)).cast(kind)
    return pa.array(values, kind)
