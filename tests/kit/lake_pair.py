"""A worker and a committer in one process, on any catalog and store; their groups run here, not in
Spark. And a table of rows (id, v, p) with its writers and its reader, whose files lie anywhere."""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from firnline_adapters.observability.logs import Log
from firnline_committer.commit.committer import Committer
from firnline_committer.commit.held_catalog import open_catalog
from firnline_domain.identity import MAIN, Scope, TableName, task_id
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.java.api import load_table, rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.scan.planning import live_files
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_worker.delete_sets.cache import DeleteSetCache
from firnline_worker.rewrite.iceberg_fallback import Handover
from firnline_worker.rewrite.rewriter import Rewriter
from firnline_worker.spark.java_api import JavaTable, JavaTables
from firnline_worker.spark.stage import GroupOrder, GroupResult, StageOrder, run_groups

from tests.kit.scenario_table import COLUMNS, KEY, Row, create_table
from tests.kit.table_writer import FileWriter, TableWriter

_numbers = itertools.count(1)


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

    def table(self, namespace: str, partitioned: bool = False, **properties: str) -> LakeTable:
        """A new one, empty."""
        name = TableName("", (namespace,), f"t{uuid.uuid4().hex[:8]}")
        made = create_table(self.iceberg.jvm, self.catalog, name, partitioned, **properties)
        known = self.tables.load_named(made.namespace, made.name)  # with the prefix of the catalog
        return LakeTable(self, known.identity, partitioned)

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


@dataclass(frozen=True)
class LakeTable:
    """Commits of writers go straight to the catalog."""

    pair: Pair
    name: TableName
    partitioned: bool = False

    @property
    def java(self) -> Any:
        return load_table(self.pair.iceberg.jvm, self.pair.catalog, self.name)

    @property
    def loaded(self) -> LoadedTable:
        return self.pair.tables.load(self.name)

    @property
    def head(self) -> int:
        return self.loaded.head(MAIN).snapshot_id

    def scope(self, p: str | None = None) -> Scope:
        return Scope(0, json.dumps([p]) if self.partitioned else "[]")

    # ---- writers

    @property
    def writer(self) -> TableWriter:
        return TableWriter(self.pair.iceberg.jvm, lambda: self.java)

    @property
    def files(self) -> FileWriter:
        io = self.loaded.io

        def store(path: str, body: bytes) -> None:
            with io.new_output(path).create(overwrite=True) as sink:
                sink.write(body)

        return FileWriter(store)

    def path(self) -> str:
        return f"{self.loaded.metadata.location}/data/{uuid.uuid4().hex}.parquet"

    def data(self, rows: Iterable[Row], p: str | None = None) -> str:
        listed = [{"id": key, "v": value, "p": p} for key, value in rows]
        scope = self.scope(p)
        return self.files.data(self.path(), listed, COLUMNS, (scope.spec_id, scope.partition))

    def key_deletes(self, *keys: int, p: str | None = None) -> str:
        scope, rows = self.scope(p), [{"id": key} for key in keys]
        place = scope.spec_id, scope.partition
        return self.files.equality_deletes(self.path(), rows, KEY, place)

    def append(self, *rows: Row, p: str | None = None) -> None:
        self.writer.append(self.data(rows, p))

    def fill(self, files: int = 4, p: str | None = None) -> None:
        """Rows (0, 0), (1, 1) and so on, each in a file of its own."""
        for key in range(files):
            self.append((key, key), p=p)

    def upsert(self, *rows: Row, p: str | None = None) -> None:
        keys = self.key_deletes(*(key for key, _ in rows), p=p)
        self.writer.row_delta([self.data(rows, p)], [keys])

    def remove(self, path: str) -> None:
        """A data file."""
        live = live_files(self.loaded, self.head).data
        self.writer.delete(next(one for one in live if one.path == path))

    def exists(self, path: str | None) -> bool:
        """A file of the storage."""
        assert path is not None
        return self.loaded.io.new_input(path).exists()

    # ---- what the planner says, and what readers see

    def order(self, p: str | None = None, action: str = "compact") -> RewriteFiles:
        scope, head, at_ms = self.scope(p), self.head, now_ms()
        text = f"{scope.spec_id}{scope.partition}"
        return RewriteFiles(
            task_id=task_id(self.name.key, MAIN, text, action, next(_numbers)),
            table=self.name, ref=MAIN, scope=scope, action=action, reason="small_files",
            trigger_snapshot_id=head, attempt=1, ordered_at_ms=at_ms,
            deadline_ms=at_ms + 600_000, run_ms=600_000,
        )  # fmt: skip

    def rows(self) -> list[Row]:
        """Visible rows by Iceberg's generic reader, sorted."""
        reader = self.pair.iceberg.jvm.org.apache.iceberg.data.IcebergGenerics.read(self.java)
        records, found = reader.build(), list[Row]()
        each = records.iterator()
        while each.hasNext():
            record = each.next()
            found.append((record.getField("id"), record.getField("v")))
        records.close()
        return sorted(found)


def now_ms() -> int:
    return int(time.time() * 1000)
