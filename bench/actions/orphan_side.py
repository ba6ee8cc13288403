"""Removes the orphans of one table, as Firnline or as Iceberg's own action: one process, so that
the tree's memory is the side's own."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from firnline_domain.identity import TableName
from firnline_domain.policy.table_action.remove_orphans import OrphanRemoval
from firnline_domain.records.orders import TableOrder
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.table.catalog_client import Tables
from firnline_local.servers.artifacts import aws_bundle, iceberg_jar
from firnline_worker.table_actions.remove_orphans import OrphanRemover
from pyspark.sql import SparkSession

from bench.actions.sessions import session
from bench.rewrite.child import Act, Question, serve

HOUR_MS = 3_600_000


def start(given: Question) -> Act:
    """`given`: engine, catalog (its properties)."""
    connection = CatalogConnection("lake", given["catalog"])
    if given["engine"] == "firnline":
        return Ours(Tables(connection)).act
    jars = [iceberg_jar(), *([aws_bundle()] if "s3.endpoint" in given["catalog"] else [])]
    spark = session(connection.spark_settings(), os.pathsep.join(map(str, jars)))
    spark.range(10_000).selectExpr("id % 7 AS k").distinct().count()  # its first jobs
    return Theirs(spark).act


@dataclass(frozen=True)
class Ours:
    """By listing, or from an inventory, as the table's properties say."""

    tables: Tables

    def act(self, question: Question) -> dict[str, Any]:
        table = self.tables.load_named(("bench",), question["table"]).identity
        result = OrphanRemover(self.tables, "bench", _now_ms).remove(_order(table))
        return {
            "refused": result.refused_reason,
            "orphans": result.numbers.get("files_quarantined"),
        }


@dataclass(frozen=True)
class Theirs:
    """With its defaults. `by_prefix`: by the FileIO's listing of a prefix, else by Hadoop's of
    directories. `listed`: an inventory, for `compareToFileList`."""

    spark: SparkSession

    def act(self, question: Question) -> dict[str, Any]:
        jvm: Any = self.spark._jvm
        name = f"lake.bench.{question['table']}"
        table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            self.spark._jsparkSession, name
        )
        action = jvm.org.apache.iceberg.spark.actions.SparkActions.get().deleteOrphanFiles(table)
        if question["by_prefix"]:
            action = action.usePrefixListing(True)
        if question["listed"]:
            action = action.compareToFileList(self._files(question["listed"]))
        result = action.execute()
        return {"refused": None, "orphans": result.orphanFilesCount()}

    def _files(self, inventory: str) -> Any:
        """Of an inventory beside the store, which Spark alone would need another client for."""
        rows = self.spark.read.parquet(f"file://{inventory}").selectExpr(
            "concat('s3://', bucket, '/', key) AS file_path", "last_modified_date AS last_modified"
        )
        return rows._jdf


def _order(table: TableName) -> TableOrder:
    at = _now_ms()
    numbers = {"min_age_h": 72.0, "quarantine_h": 168.0}
    action = OrphanRemoval.name
    return TableOrder("bench", table, action, "bench", 1, 1, at, at + HOUR_MS, numbers)


def _now_ms() -> int:
    return int(time.time() * 1000)


if __name__ == "__main__":
    serve(start)
