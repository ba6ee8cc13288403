"""Class path and settings of a Spark session whose data may lie in the local object store."""

from __future__ import annotations

import os
from typing import Any

from firnline_local.servers.artifacts import aws_bundle, iceberg_jar


def class_path(given: dict[str, Any]) -> str:
    """With the S3 client only where it is needed (69 MB)."""
    found = [iceberg_jar()]
    if "store" in given:
        found.append(aws_bundle())
    return os.pathsep.join(map(str, found))


def use_store(given: dict[str, Any]) -> None:
    """The catalog's settings, as an operator would give them; before the session starts."""
    options = (
        f"--conf spark.sql.catalog.lake.{name}={value}"
        for name, value in given.get("store", {}).items()
    )
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join([*options, "pyspark-shell"])
