"""What distinct values and partition statistics cost, of a table with deletes by position."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from firnline_domain.identity import MAIN
from firnline_domain.policy.table_action.compute_statistics import Statistics
from firnline_domain.records.orders import TableOrder
from firnline_iceberg.scan.planning import live_files
from firnline_iceberg.table.catalog_client import Tables
from firnline_worker.spark.java_api import JavaTables
from firnline_worker.table_actions.compute_statistics import StatisticsComputer

NAME = "lake.bench.described"
PROPERTIES = (
    "'format-version'='3', 'write.delete.mode'='merge-on-read', 'firnline.statistics'='{columns}', "
    "'firnline.partition-statistics'='{partitions}'"
)
KINDS = (("id, customer, name", "false"), ("", "true"), ("", "true"))


def statistics(
    site: Any, java: JavaTables, tables: Tables, rows: int, now_ms: Callable[[], int]
) -> None:
    """A tenth of the rows is deleted. Partition statistics twice: from nothing, and from what an
    append brought."""
    spark = site.spark
    spark.sql(
        f"CREATE TABLE {NAME} (id BIGINT, customer BIGINT, name STRING, p INT, more STRING) "
        f"USING iceberg PARTITIONED BY (p) TBLPROPERTIES ({_set(*KINDS[0])})"
    )
    _append(spark, rows, 0)
    spark.sql(f"DELETE FROM {NAME} WHERE id % 10 = 3")
    computer = StatisticsComputer(tables, java, "bench", now_ms)
    computer.compute(_order(tables))  # what Spark loads and compiles is not counted
    _append(spark, rows // 1000, rows)
    for columns, partitions in KINDS:
        spark.sql(f"ALTER TABLE {NAME} SET TBLPROPERTIES ({_set(columns, partitions)})")
        table = tables.load_named(("bench",), "described")
        live = live_files(table, table.head_id(MAIN))
        size = sum(one.bytes for one in (*live.data, *live.deletes))
        run = partial(computer.compute, _order(tables))
        kind = "columns" if columns else "partitions"
        result = site.measure("statistics", kind, run, rows=rows, bytes=size)
        site.figures[-1] |= result.numbers
        print(site.figures[-1], flush=True)
        _append(spark, rows // 1000, rows + rows // 1000)


def _set(columns: str, partitions: str) -> str:
    return PROPERTIES.format(columns=columns, partitions=partitions)


def _append(spark: Any, rows: int, start: int) -> None:
    spark.sql(
        f"INSERT INTO {NAME} SELECT id, id % 1000003, CONCAT('name', id % 50021), "
        f"CAST(id % 8 AS INT), UUID() FROM range({start}, {start + rows})"
    )


def _order(tables: Tables) -> TableOrder:
    table, at = tables.load_named(("bench",), "described").identity, int(time.time() * 1000)
    numbers = {"columns": 1.0, "all_columns": 0.0, "partitions": 0.0, "min_change": 0.1}
    return TableOrder(
        "bench", table, Statistics.name, "requested", 1, 1, at, at + 3_600_000, numbers
    )
