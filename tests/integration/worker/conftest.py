"""A worker's parts on a real Spark session and catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from firnline_adapters.observability.logs import Log
from firnline_committer.commit.committer import Committer
from firnline_committer.commit.held_catalog import without_gateway
from firnline_domain.base.values import replace
from firnline_domain.identity import Scope
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.table.catalog_client import Tables
from firnline_worker.delete_sets.cache import DeleteSetCache
from firnline_worker.rewrite.iceberg_fallback import Handover
from firnline_worker.rewrite.rewriter import Rewriter
from firnline_worker.spark.java_api import JavaTables
from firnline_worker.spark.session import SparkStage

from tests.integration.worker.lab import Foreign, Lab, now_ms


@pytest.fixture(scope="session")
def tables(catalog_uri: str) -> Tables:
    return Tables(catalog_uri)


@pytest.fixture(scope="session")
def java(spark: Any) -> JavaTables:
    return JavaTables(spark, "lake")


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[DeleteSetCache]:
    made = DeleteSetCache(tmp_path / "worker")
    yield made
    assert list(made.root.iterdir()) == []  # every set is gone when its last task ends
    made.close()


@pytest.fixture
def rewriter(tables: Tables, java: JavaTables, cache: DeleteSetCache, spark: Any) -> Rewriter:
    handover = Handover(java, tables, lambda uuid: nullcontext())
    return Rewriter(tables, java, cache, SparkStage(spark), handover, "w1", 1 << 30, now_ms)


@pytest.fixture
def foreign(lab: Lab, catalog_uri: str) -> Foreign:
    return Foreign(lab, catalog_uri)


@pytest.fixture(scope="session")
def committer(iceberg_jar: Path, catalog_uri: str, tables: Tables) -> Iterator[Committer]:
    """The committer's own way to commit."""
    log = Log("test")
    with IcebergJvm(iceberg_jar) as running:
        commits = JavaCommits(running, catalog_uri)
        yield Committer(without_gateway(tables), commits, log, now_ms)


@pytest.fixture
def rewritten(lab: Lab, rewriter: Rewriter, committer: Committer) -> Callable[..., RewriteFinished]:
    """Runs one order natively, commits it as the committer does, and holds what `seen` shows
    before (Spark's rows, if not told otherwise) against what it shows after that."""

    def run(
        scope: Scope | None = None,
        ref: str = "main",
        seen: Callable[[], Any] | None = None,
        action: str = "compact",
        min_dead_ratio: float = 0.0,
        policies: Mapping[str, str] | None = None,
    ) -> RewriteFinished:
        look = seen or partial(lab.seen, ref)
        before = look()
        order = replace(
            lab.order(scope, ref),
            action=action,
            min_dead_ratio=min_dead_ratio,
            policies=policies or {},
        )
        result = rewriter.rewrite(order, lambda _: None)
        assert result.mode == "native", result.handover_reason
        events = committer.commit_all([result])
        assert [type(event).__name__ for event in events] == ["RewriteCommitted"], events
        assert repr(look()) == repr(before)  # NaN is not equal to itself
        return result

    return run


@pytest.fixture
def in_thread() -> Callable[..., Any]:
    """Runs a call in a thread of its own, as the service does: what Spark keeps per thread is
    not there."""

    def run(call: Callable[..., Any], *args: Any) -> Any:
        with ThreadPoolExecutor(1) as executor:
            return executor.submit(call, *args).result()

    return run


@pytest.fixture
def lab(spark: Any, java: JavaTables, tables: Tables, namespace: str) -> Lab:
    return Lab(spark, java, tables, namespace)
