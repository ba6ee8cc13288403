"""Class path and settings of a Spark session whose data may lie in the local object store."""

from __future__ import annotations

import os
from typing import Any

from firnline_local.artifacts import Pin, cache_root, iceberg_jar, resolve
from firnline_local.repository import repository_root

AWS_BUNDLE = Pin(
    "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
    "org/apache/iceberg/iceberg-aws-bundle/1.12.0/iceberg-aws-bundle-1.12.0.jar",
)


def class_path(given: dict[str, Any]) -> str:
    """With the S3 client only where it is needed (69 MB)."""
    found = [iceberg_jar()]
    if "store" in given:
        found += resolve([AWS_BUNDLE], cache_root(), repository_root)
    return os.pathsep.join(map(str, found))


def use_store(given: dict[str, Any]) -> None:
    """The catalog's settings, as an operator would give them; before the session starts."""
    options = (
        f"--conf spark.sql.catalog.lake.{name}={value}"
        for name, value in given.get("store", {}).items()
    )
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join([*options, "pyspark-shell"])
