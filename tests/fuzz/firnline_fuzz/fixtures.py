"""The product on a table, as a trial drives it: a worker's rewriter, a committer's swap."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from firnline_adapters.observability.logs import Log
from firnline_committer.commit.committer import Committer
from firnline_committer.commit.held_catalog import without_gateway
from firnline_committer.handlers import CommitterHandlers
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.java.api import rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.table.catalog_client import Tables
from firnline_worker.delete_sets.cache import DeleteSetCache
from firnline_worker.rewrite.iceberg_fallback import Handover
from firnline_worker.rewrite.rewriter import Rewriter
from firnline_worker.spark.java_api import JavaTables
from firnline_worker.spark.session import SparkStage

from firnline_fuzz.trials import Bench


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.fixture(scope="session")
def fuzz_jvm(iceberg_jar: Path) -> Iterator[IcebergJvm]:
    """The writers' JVM, and the committer's."""
    with IcebergJvm(iceberg_jar) as running:
        yield running


@pytest.fixture(scope="session")
def fuzz_shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeleteSetCache]:
    made = DeleteSetCache(tmp_path_factory.mktemp("fuzz") / "worker")
    yield made
    assert list(made.root.iterdir()) == []
    made.close()


@pytest.fixture
def fuzz_bench(
    fuzz_jvm: IcebergJvm,
    fuzz_shelf: DeleteSetCache,
    catalog_uri: str,
    spark: Any,
    namespace: str,
    tmp_path: Path,
) -> Bench:
    tables, java, log = Tables(catalog_uri), JavaTables(spark, "lake"), Log("fuzz")
    handover = Handover(java, tables, lambda uuid: nullcontext())
    rewriter = Rewriter(
        tables, java, fuzz_shelf, SparkStage(spark), handover, "w1", 1 << 30, now_ms
    )
    commits = JavaCommits(fuzz_jvm, catalog_uri)
    committer = Committer(without_gateway(tables), commits, log, now_ms)
    catalog = rest_catalog(fuzz_jvm.jvm, catalog_uri)
    handlers = CommitterHandlers(committer, tables, now_ms)
    reader = spark.newSession()
    reader.conf.set("spark.sql.codegen.wholeStage", "false")  # a compilation for every few rows
    return Bench(fuzz_jvm.jvm, catalog, reader, tables, rewriter, handlers, namespace, tmp_path)
