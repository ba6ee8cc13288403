"""The writers' Spark session: it knows the gateway's URI and nothing else of Firnline."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

CATALOG = "lake"


def writer_session(gateway_uri: str, iceberg_jar: Path, scratch: Path) -> SparkSession:
    """A small local session with the gateway as its Iceberg catalog `lake`."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    options = {
        # On the class path, not in spark.jars: py4j must see the Iceberg API classes.
        "spark.driver.extraClassPath": str(iceberg_jar),
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "rest",
        f"spark.sql.catalog.{CATALOG}.uri": gateway_uri,
        # A reader that caches a table would verify an old snapshot.
        f"spark.sql.catalog.{CATALOG}.cache-enabled": "false",
        "spark.driver.memory": "1g",
        # Minutes of small statements: compilers of plans and of hot code would not earn their CPU.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "spark-warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("firnline-demo-writers")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("FATAL")  # a refused DELETE is an exception already
    return session
