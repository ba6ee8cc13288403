"""Iceberg's Java API in the Spark driver's JVM: locations, metrics, the form of a data file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, lru_cache
from itertools import zip_longest
from typing import Any

from firnline_deletes.files.writer import WrittenFile
from firnline_domain.errors import AccessDenied, TaskRefused
from firnline_domain.identity import Scope, TableName
from firnline_domain.settings.parquet import (
    INFERRED_COLUMNS,
    OF_COMMITS,
    out_of_range,
    unusable_properties,
)
from firnline_iceberg.java import errors as java_errors
from firnline_iceberg.storage.file_io import LOCATION_PROVIDER, unsafe_properties
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from firnline_worker.spark.catalogs import SparkCatalogs

PARQUET_MAGIC = 4  # bytes at a file's begin and end
PARQUET_LENGTH = 4  # bytes of its metadata's length, before the last magic


class SparkJvm:
    """The driver's JVM, for what also runs on a small one without Spark. When it has ended the
    worker ends, too (`spark.Driver`)."""

    def __init__(self, spark: SparkSession) -> None:
        self.jvm: Any = spark._jvm

    def watch(self) -> AbstractContextManager[None]:
        return nullcontext()


class JavaTables:
    """A loader of tables as Java objects, through the same catalog as everything else."""

    def __init__(
        self,
        spark: SparkSession,
        catalogs: SparkCatalogs | str,
        location_providers: frozenset[str] = frozenset(),
    ) -> None:
        """Wrap the session. `catalogs`: or the name of the only one. `location_providers`: classes
        that a table may choose for the names of its files."""
        self.spark = spark
        self._catalogs = catalogs
        self._location_providers = location_providers

    @property
    def jvm(self) -> Any:
        return self.spark._jvm

    @property
    def iceberg(self) -> Any:
        return self.jvm.org.apache.iceberg

    @property
    def session(self) -> Any:
        """Return the Java session, made active in this thread: Spark looks catalogs up in the
        active session's settings, and a task's thread has none of its own."""
        session = self.spark._jsparkSession
        SparkSession._get_j_spark_session_class(self.spark._jvm).setActiveSession(session)
        return session

    def load(self, table: TableName) -> JavaTable:
        """Load a table. Raises py4j.protocol.Py4JJavaError, UnknownCatalog; CatalogRefused,
        StorageRefused; and TaskRefused before Java reads a property that the table owner may not
        set."""
        session = self.session
        several = self._catalogs
        catalog = several if isinstance(several, str) else several.name_of(table)
        parts = (catalog, *table.namespace, table.name)
        quoted = ".".join("`" + part.replace("`", "``") + "`" for part in parts)
        try:
            found = self._load_java(session, quoted)
        except Py4JJavaError as error:
            told = java_errors.catalog_unreachable(error, catalog)
            if isinstance(told, AccessDenied):
                raise told from error
            raise
        self._refuse_unsafe(table, found.properties())
        return JavaTable(self.jvm, found)

    def _load_java(self, session: Any, quoted: str) -> Any:
        load = self.iceberg.spark.Spark3Util.loadIcebergTable
        try:
            return load(session, quoted)
        except Py4JJavaError as error:
            if not java_errors.is_unauthorized(error):
                raise
        # Spark's catalog keeps a token that was taken back; a new one asks for another.
        session.sessionState().catalogManager().reset()
        return load(session, quoted)

    def _refuse_unsafe(self, table: TableName, properties: Any) -> None:
        jvm: Any = self.spark._jvm
        names = jvm.java.lang.String.join("\n", properties.keySet()).split("\n")  # in one call
        chosen = properties.get(LOCATION_PROVIDER) or ""
        if unsafe := unsafe_properties(names, self._location_providers, chosen):
            raise TaskRefused("unsafe_property", f"{table.dotted_name}: {', '.join(unsafe)[:500]}")
        asked = {name: str(properties.get(name)) for name in names if name in OF_COMMITS}
        if wrong := "; ".join(unusable_properties(asked)):
            raise TaskRefused("unusable_property", f"{table.dotted_name}: {wrong[:1000]}")


class JavaTable:
    """One Java table, for values that only Java computes exactly."""

    def __init__(self, jvm: Any, java: Any) -> None:
        self._jvm, self._iceberg = jvm, jvm.org.apache.iceberg
        self.java = java

    def locations(self, scope: Scope, names: Sequence[str]) -> list[str]:
        """Return the paths that the table's own LocationProvider gives files of these names."""
        provider, spec = self.java.locationProvider(), self._java_spec(scope)
        if spec.isUnpartitioned():  # with a partition that is none it would say data//name
            return [provider.newDataLocation(name) for name in names]
        partition = self._partition_value(scope)
        return [provider.newDataLocation(spec, partition, name) for name in names]

    def content_file(self, scope: Scope, file: WrittenFile, sort_order_id: int) -> str:
        """Return the `ContentFileParser` JSON of an output: metrics by Iceberg from the footer, as
        the table asks for them; NaN counts and split offsets from the writer. `sort_order_id`: the
        order that the rows are in, 0 = none."""
        iceberg, none = self._iceberg, self._jvm.java.util.stream.Stream.empty()
        footer = self._parse_footer(file.footer)
        metrics = iceberg.parquet.ParquetUtil.footerMetrics(footer, none, self._metrics_config)
        # Its partition is written below; each call costs 0.2 ms, and each object a second one.
        spec = iceberg.PartitionSpec.unpartitioned()
        started = iceberg.DataFiles.builder(spec).withPath(file.path).withFormat("parquet")
        built = started.withFileSizeInBytes(file.bytes).withMetrics(metrics).build()
        text = iceberg.ContentFileParser.toJson(built, spec)
        return _complete_json(text, scope, self._partition_list(scope), sort_order_id, file)

    def _parse_footer(self, footer: bytes) -> Any:
        """Return Parquet's `ParquetMetadata` of a file without rows."""
        metadata = footer[PARQUET_MAGIC : -PARQUET_MAGIC - PARQUET_LENGTH]
        stream = self._jvm.java.io.ByteArrayInputStream(metadata)
        return _footer_parser(self._iceberg).readParquetMetadata(stream)

    @cached_property
    def _metrics_config(self) -> Any:
        """Return `MetricsConfig.forTable`, which would throw for a number that cannot be read."""
        java, config = self.java, self._iceberg.MetricsConfig
        text = java.properties().get(INFERRED_COLUMNS)
        if text is None or not dict(out_of_range({INFERRED_COLUMNS: text})):
            return config.forTable(java)
        properties = self._jvm.java.util.HashMap(java.properties())
        properties.remove(INFERRED_COLUMNS)
        return getattr(config, "from")(properties, java.schema(), java.sortOrder())

    @cached_property
    def _specs(self) -> Any:
        return self.java.specs()

    def _java_spec(self, scope: Scope) -> Any:
        return self._specs.get(scope.spec_id)

    def _partition_list(self, scope: Scope) -> list[Any]:
        """Return a scope's partition, in which the fields of a spec are null if all are void."""
        found: list[Any] = json.loads(scope.partition)
        return found or [None] * self._java_spec(scope).fields().size()

    def _partition_value(self, scope: Scope) -> Any:
        kind = self._java_spec(scope).partitionType()
        fields = kind.fields()  # by index: PySpark asks Java ten questions about an iterator's end
        ids = [fields.get(index).fieldId() for index in range(fields.size())]
        values = zip_longest(ids, json.loads(scope.partition))
        text = json.dumps({str(number): value for number, value in values})
        return self._iceberg.SingleValueParser.fromJson(kind, text)


@lru_cache(1)
def _footer_parser(iceberg: Any) -> Any:
    """Return Parquet's converter without Hadoop's defaults. `ParquetUtil.fileMetrics` reads them as
    XML from a jar, for each file anew: a third of a task's time in Java."""
    parquet = iceberg.shaded.org.apache.parquet
    settings = parquet.conf.HadoopParquetConfiguration(False)
    options = parquet.ParquetReadOptions.builder(settings).build()
    return parquet.format.converter.ParquetMetadataConverter(options)


def _complete_json(
    content_file: str, scope: Scope, partition: list[Any], sort_order_id: int, file: WrittenFile
) -> str:
    """Complete the JSON of a file that was described without a partition. `ContentFileParser`
    throws if a spec's fields are all void (1.12.0), and leaves zeros of timestamps out; all others
    compare the canonical text. py4j turns small longs into Integer, which a Java Map<Integer, Long>
    takes and later fails on; so numbers that are counted here go in as JSON."""
    body = json.loads(content_file)
    body["spec-id"], body["partition"] = scope.spec_id, partition
    body["sort-order-id"] = sort_order_id
    if body["record-count"] != file.rows:
        raise ValueError(f"{file.path}: {body['record-count']} rows, not {file.rows}")
    body["split-offsets"] = list(file.split_offsets)
    body["nan-value-counts"] = _nan_counts(body.get("value-counts", {}), file.nan_counts)
    return json.dumps(body, separators=(",", ":"))


def _nan_counts(
    value_counts: Mapping[str, list[int]], counted: Mapping[int, int]
) -> dict[str, list[int]]:
    """Return NaN counts, only for columns that have metrics at all (`write.metadata.metrics.*`)."""
    ids = sorted(set(value_counts.get("keys", [])) & set(counted))
    return {"keys": ids, "values": [counted[number] for number in ids]}
