"""Iceberg's own `rewrite_data_files`, rewrite-all, in a Spark session of its own."""

from __future__ import annotations

import os
import sys
from typing import Any

from pyspark.sql import SparkSession

from bench.rewrite.child import Act, Question, serve
from bench.rewrite.jars import class_path, use_store


def session(given: Question) -> SparkSession:
    """`local[cores]` on the same catalog."""
    use_store(given)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = given["configuration"].get("spark.driver.host", "127.0.0.1")
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    settings = {
        "spark.driver.extraClassPath": class_path(given),
        "spark.driver.memory": given["heap"],
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": given["folder"],
        "spark.ui.enabled": "false",
        "spark.sql.extensions": extensions,
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "rest",
        "spark.sql.catalog.lake.uri": given["uri"],
        "spark.sql.catalog.lake.cache-enabled": "false",
        **given["configuration"],
    }
    builder: Any = SparkSession.builder
    builder = builder.master(given.get("master", f"local[{given['cores']}]")).appName("stock")
    for name, value in settings.items():
        builder = builder.config(name, value)
    made: SparkSession = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def start(given: Question) -> Act:
    """Each question names a table, and a filter where only a part of it is due."""
    spark = session(given)
    options = {"rewrite-all": "true", **given["options"]}
    listed = ", ".join(f"'{name}', '{value}'" for name, value in options.items())

    def act(question: Question) -> dict[str, Any]:
        if "read" in question:
            return _read(spark, f"lake.bench.{question['read']}")
        where = f", where => '{question['where']}'" if question.get("where") else ""
        table = f"bench.{question['table']}"
        call = f"CALL lake.system.rewrite_data_files(table => '{table}'{where}, "
        row = spark.sql(f"{call}options => map({listed}))").collect()[0]
        return {"answered": row.asDict()}

    return act


def _read(spark: SparkSession, table: str) -> dict[str, Any]:
    """Every column of every row."""
    columns = ", ".join(spark.table(table).columns)
    found = spark.sql(f"SELECT count(*), sum(hash({columns})) FROM {table}").collect()[0]
    return {"rows": found[0]}


if __name__ == "__main__":
    serve(start)
