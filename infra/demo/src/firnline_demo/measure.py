"""Measures the cost of a table for its readers: files, deletes, and one full read by Spark."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from firnline_demo.model import Row

READS = 3  # the median of so many


@dataclass(frozen=True)
class TableHealth:
    """A table at one moment. `read_bytes` counts a delete file once per data file that needs it,
    as Spark reads it."""

    data_files: int
    delete_files: int
    bytes: int
    read_seconds: float
    read_bytes: int
    rows: int


def measure_health(spark: SparkSession, table: str) -> TableHealth:
    """Measure a table by its metadata and by reading all of it."""
    kinds = spark.sql(
        "SELECT sum(if(content = 0, 1, 0)), sum(if(content = 0, 0, 1)), "
        f"sum(file_size_in_bytes) FROM {table}.files"
    ).collect()[0]
    seconds, rows = full_read(spark, table)
    return TableHealth(
        data_files=kinds[0] or 0,
        delete_files=kinds[1] or 0,
        bytes=kinds[2] or 0,
        read_seconds=seconds,
        read_bytes=planned_bytes(spark, table),
        rows=rows,
    )


def full_read(spark: SparkSession, table: str) -> tuple[float, int]:
    """Return (median seconds, rows) of reads that touch every column of every row."""
    times, rows = [], 0
    columns = ", ".join(spark.table(table).columns)
    for _ in range(READS):
        start = time.monotonic()
        found = spark.sql(f"SELECT count(*), sum(hash({columns})) FROM {table}").collect()[0]
        times.append(time.monotonic() - start)
        rows = found[0]
    return statistics.median(times), rows


def planned_bytes(spark: SparkSession, table: str) -> int:
    """Return the bytes that the scan's tasks open."""
    jvm: Any = spark._jvm
    loaded = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
        spark._jsparkSession,
        table,
    )
    tasks = loaded.newScan().planFiles()
    try:
        walk, total = tasks.iterator(), 0
        while walk.hasNext():
            total += walk.next().sizeBytes()
        return total
    finally:
        tasks.close()


def rows_of(spark: SparkSession, table: str) -> Counter[Row]:
    """Return every row that Spark reads, with its count."""
    return Counter(tuple(row) for row in spark.table(table).collect())


@dataclass
class Upkeep:
    """The work of Firnline on a table, by its own events: not every catalog shows old snapshots."""

    rewrites: int = 0
    files_removed: int = 0
    deletes_removed: int = 0
