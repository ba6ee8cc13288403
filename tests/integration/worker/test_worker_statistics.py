"""Distinct values and partition statistics are those of the rows that a reader sees, of a snapshot
that is still there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from firnline_domain.identity import MAIN, TableName
from firnline_domain.policy.statistics import Statistics
from firnline_domain.records.orders import TableOrder
from firnline_iceberg.table_statistics import described_partitions
from firnline_worker.statistics import StatisticsComputer

from tests.integration.worker.lab import Lab, now_ms

pytestmark = [pytest.mark.spark, pytest.mark.stack]
STALE, REQUESTED = "stale_statistics", "requested"
BOTH = {"firnline.statistics": "all", "firnline.partition-statistics": "true"}


@pytest.fixture
def computer(tables: Any, java: Any) -> StatisticsComputer:
    return StatisticsComputer(tables, java, "w1", now_ms)


def order(table: TableName, reason: str = STALE, **numbers: float) -> TableOrder:
    at = now_ms()
    asked = {"columns": 1.0, "all_columns": 0.0, "partitions": 1.0, "min_change": 0.1, **numbers}
    return TableOrder("s1", table, Statistics.name, reason, 1, 1, at, at + 3_600_000, asked)


def distinct(lab: Lab) -> dict[str, int]:
    """By column, of the head: as Iceberg's reader has them from the Puffin file."""
    table = lab.table()
    head = table.head(MAIN).snapshot_id
    [entry] = [one for one in table.metadata.statistics if one.snapshot_id == head]
    java = lab.java.load(lab.name).java
    io, puffin = java.io(), lab.java.iceberg.puffin.Puffin
    reader = puffin.read(io.newInputFile(entry.statistics_path)).build()
    blobs = reader.fileMetadata().blobs()
    assert {blob.type() for blob in blobs} == {"apache-datasketches-theta-v1"}
    assert {blob.snapshotId() for blob in blobs} == {head}
    names = {field.field_id: field.name for field in table.schema.fields}
    return {names[blob.inputFields()[0]]: int(blob.properties()["ndv"]) for blob in blobs}


def stored(lab: Lab, end: str) -> set[str]:
    return {Path(one).name for one in lab.stored() if one.endswith(end)}


@pytest.mark.parametrize("version", ["2", "3"])
def test_distinct_values_are_those_of_the_rows_that_deletes_leave(
    lab, computer, in_thread, version
):
    lab.create(
        "id BIGINT, p INT, name STRING, price DECIMAL(9,2), at TIMESTAMP, tags ARRAY<INT>",
        "PARTITIONED BY (p)",
        **{"format-version": version, "write.delete.mode": "merge-on-read", **BOTH},
    )
    lab.sql(
        "INSERT INTO {t} SELECT id, CAST(id % 2 AS INT), CONCAT('n', id % 700), id % 300, "
        "TIMESTAMP_SECONDS(id % 11), ARRAY(1) FROM range(2000)"
    )
    lab.sql("DELETE FROM {t} WHERE id % 700 >= 500 OR id = 3")
    if version == "2":
        lab.equality_delete(["id"], "(5), (7)", partition=[1])
    head = lab.table().head(MAIN)
    result = in_thread(computer.compute, order(lab.name))
    columns = ("id", "p", "name", "price", "at")
    counts = ", ".join(f"COUNT(DISTINCT {one})" for one in columns)
    exact = dict(zip(columns, lab.sql(f"SELECT {counts} FROM {{t}}").collect()[0], strict=True))
    assert exact["id"] < 2000
    assert distinct(lab) == exact  # a sketch is exact up to 4,096 values
    assert result.numbers["columns_described"] == 5
    assert lab.table().head(MAIN) == head  # no snapshot
    assert lab.rows("id")


def test_partition_statistics_are_computed_from_what_came_since(lab, computer):
    lab.create("id BIGINT, p INT", "PARTITIONED BY (p)", **BOTH)
    lab.insert("(1, 1), (2, 1), (3, 2)")
    computer.compute(order(lab.name))
    lab.insert("(4, 2), (5, 3)")
    computer.compute(order(lab.name))
    table = lab.table()
    head = table.head(MAIN).snapshot_id
    [entry] = [one for one in table.metadata.partition_statistics if one.snapshot_id == head]
    frame = lab.spark.read.parquet(entry.statistics_path)
    rows = frame.selectExpr("partition.p", "data_record_count", "data_file_count").collect()
    assert sorted(map(tuple, rows)) == [(1, 2, 1), (2, 2, 2), (3, 1, 1)]
    assert len(described_partitions(lab.table())) == 2


def test_nothing_is_done_where_they_are_fresh(lab, computer):
    lab.create("id BIGINT", **{"firnline.statistics": "id"})
    lab.sql("INSERT INTO {t} SELECT id FROM range(100)")
    computer.compute(order(lab.name, REQUESTED))
    location = lab.table().metadata_location
    assert computer.compute(order(lab.name, REQUESTED)).numbers == {}
    lab.insert("(1), (2)")
    assert computer.compute(order(lab.name)).numbers == {}  # two of a hundred
    assert stored(lab, ".stats") == {Path(lab.table().metadata.statistics[0].statistics_path).name}
    assert location != lab.table().metadata_location
    lab.sql("INSERT INTO {t} SELECT id FROM range(20)")
    assert computer.compute(order(lab.name)).numbers["columns_described"] == 1
    assert computer.compute(order(lab.name, REQUESTED)).numbers == {}
