"""Sail overwriting a table with what it reads of it: it has no rewrite procedure."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from bench.rewrite.child import Act, Question, serve


def start(given: Question) -> Act:
    """Server and client in this process, through the same catalog.

    Its packages are on nobody else's path: Spark's Python workers import pandas where it is to be
    had, which Firnline would be charged with.
    """
    sys.path.append(given["packages"])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given["cores"]])
    catalog = f'{{type="iceberg-rest", name="lake", uri="{given["uri"]}"}}'
    os.environ["SAIL_CATALOG__LIST"] = f"[{catalog}]"
    server = importlib.import_module("pysail.spark").SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    host, port = server.listening_address
    builder: Any = SparkSession.builder
    return Sail(server, builder.remote(f"sc://{host}:{port}").getOrCreate()).act


@dataclass(frozen=True)
class Sail:
    """The server ends with its last reference."""

    server: Any
    spark: Any

    def act(self, question: Question) -> dict[str, Any]:
        """One output file per partition: as it comes, every input file becomes one."""
        name = f"lake.bench.{question['table']}"
        count, columns = len(question["scopes"]), question["partition_fields"]
        rows = self.spark.table(name).repartition(count, *columns)
        # `overwrite` and `overwritePartitions` are refused while deletes are alive.
        rows.write.insertInto(name, overwrite=True)
        return {}


if __name__ == "__main__":
    serve(start)
