"""The Spark session in which Iceberg's own actions run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession


def session(catalog: Mapping[str, str], class_path: str) -> SparkSession:
    """`catalog`: settings that may hold keys, so they are said when the JVM is there."""
    builder: Any = SparkSession.builder.master("local[2]").appName("bench")
    settings = {
        "spark.driver.extraClassPath": class_path,
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    made: SparkSession = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    for name, value in catalog.items():
        made.conf.set(name, value)
    return made
