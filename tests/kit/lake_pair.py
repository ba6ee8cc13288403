"""A worker and a committer in one process, on any catalog and store; their groups run here, not in
Spark."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from firnline_adapters.observability.logs import Log
from firnline_committer.commit.committer import Committer
from firnline_committer.commit.held_catalog import open_catalog
from firnline_domain.identity import TableName
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.java.api import load_table, rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.table.catalog_client import Tables
from firnline_worker.delete_sets.cache import DeleteSetCache
from firnline_worker.rewrite.iceberg_fallback import Handover
from firnline_worker.rewrite.rewriter import Rewriter
from firnline_worker.spark.java_api import JavaTable, JavaTables
from firnline_worker.spark.stage import GroupOrder, GroupResult, StageOrder, run_groups

from tests.kit.lake.table import Table, create_table


class LocalStage:
    """Runs groups one after the other."""

    is_remote = False
    tries = 1

    def remove_unused_sets(self, _: object) -> None:
        """There is no other host."""

    def run(self, _: str, order: StageOrder, groups: Sequence[GroupOrder]) -> list[GroupResult]:
        return list(run_groups(order, groups))


@dataclass(frozen=True)
class SmallJavaTables:
    """Tables as Java objects of the small JVM."""

    iceberg: IcebergJvm
    catalog: Any

    def load(self, table: TableName) -> JavaTable:
        jvm = self.iceberg.jvm
        return JavaTable(jvm, load_table(jvm, self.catalog, table))


@dataclass(frozen=True)
class Pair:
    """Both, and what they ask the catalog with."""

    iceberg: IcebergJvm
    catalog: Any  # Java's
    tables: Tables
    rewriter: Rewriter
    commits: JavaCommits
    committer: Committer
    another: Callable[[], Pair]  # with a committer that has seen nothing

    def namespace(self, name: str) -> None:
        """Made."""
        text = json.dumps({"namespace": [name], "name": "none"})
        parser = self.iceberg.jvm.org.apache.iceberg.catalog.TableIdentifierParser
        self.catalog.createNamespace(parser.fromJson(text).namespace())

    def table(self, namespace: str, partitioned: bool = False, **properties: str) -> Table:
        """A new one, empty."""
        name = TableName("", (namespace,), f"t{uuid.uuid4().hex[:8]}")
        made = create_table(self.iceberg.jvm, self.catalog, name, partitioned, **properties)
        known = self.tables.load_named(made.namespace, made.name)  # with the prefix of the catalog
        return Table(self.iceberg.jvm, self.catalog, self.tables, known.identity, partitioned)

    def rewrite(self, order: RewriteFiles) -> RewriteFinished:
        """Raises as `Rewriter.rewrite`."""
        result = self.rewriter.rewrite(order, lambda _: None)
        assert result.mode == "native", result.handover_reason
        return result

    def commit(self, *results: RewriteFinished) -> list[Any]:
        """Their events."""
        return self.committer.commit_all(results)


def pair(
    iceberg: IcebergJvm,
    folder: Path,
    reached: CatalogConnection,
    now: Callable[[], int] | None = None,
) -> Pair:
    """A pair on a catalog."""
    clock = now or now_ms
    lake = open_catalog(reached)
    java = rest_catalog(iceberg.jvm, reached)
    commits = JavaCommits(iceberg, reached)
    small = cast(JavaTables, SmallJavaTables(iceberg, java))
    handover = Handover(small, lake.tables, lambda _: nullcontext())
    cache, stage = DeleteSetCache(folder), LocalStage()
    rewriter = Rewriter(lake.tables, small, cache, stage, handover, "w1", 1 << 28, clock)
    committer = Committer(lake, commits, Log("test"), clock)
    again = partial(pair, iceberg, folder / "another", reached, now)
    return Pair(iceberg, java, lake.tables, rewriter, commits, committer, again)


def now_ms() -> int:
    return int(time.time() * 1000)
