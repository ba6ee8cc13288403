"""The writers' Spark session: it knows the gateway as its catalog, and nothing else of Firnline."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession


def writer_session(class_path: str, catalog: Mapping[str, str], scratch: Path) -> SparkSession:
    """Open a small local session with the gateway as its Iceberg catalog: `catalog` contains its
    settings."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    options = {
        # On the class path, not in spark.jars: py4j must see the Iceberg API classes.
        "spark.driver.extraClassPath": class_path,
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
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
    for name, value in catalog.items():  # not before: secrets would be on its command line
        session.conf.set(name, value)
    session.sparkContext.setLogLevel("FATAL")  # a refused DELETE is an exception already
    return session
