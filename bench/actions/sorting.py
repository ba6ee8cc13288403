"""A table that grows by a hundredth a day, with rows of all keys: sorted where it overlaps, and as
a whole by Iceberg's own action every day, and less often. What is written, and which share of files
a reader of one key leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firnline_adapters.logs import Log
from firnline_committer.catalog import without_gateway
from firnline_committer.committer import Committer
from firnline_domain.identity import MAIN
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.times import HOUR_MS
from firnline_iceberg.commits import JavaCommits
from firnline_iceberg.planning import live_files
from firnline_iceberg.tables import Tables
from firnline_worker.delete_set_cache import DeleteSetCache
from firnline_worker.handover import Handover
from firnline_worker.java import JavaTables, SparkJvm
from firnline_worker.rewrite import Rewriter
from firnline_worker.spark import SparkStage
from pyspark.sql import SparkSession

KEYS = 1_000_000_000
FILES, ROWS = 100, 4_000  # of the table at first; rows of each file
ONE_FILE = ("target-file-size-bytes", str(1 << 30))  # a day: rows in no order take more room
ASKED = 20  # keys of which the files are counted, evenly over all


@dataclass
class Growing:
    """One table, and who sorts it. `every`: days between two sorts of all of it; 0 = it is ours."""

    name: str
    every: int
    spark: SparkSession
    tables: Tables
    java: JavaTables
    rewriter: Rewriter
    committer: Committer
    now_ms: Callable[[], int]
    left_out: float = 0.0
    opened: float = 0.0

    @property
    def sql(self) -> str:
        return f"lake.bench.{self.name}"

    def make(self) -> None:
        """Sorted files beside each other."""
        self.spark.sql(
            f"CREATE TABLE {self.sql} (k BIGINT, v STRING) USING iceberg TBLPROPERTIES "
            "('format-version'='2', 'firnline.sort'='k', 'write.distribution-mode'='none')"
        )
        rows = _rows(self.spark, 0, FILES * ROWS)
        frame = rows.repartitionByRange(FILES, "k").sortWithinPartitions("k")
        frame.writeTo(self.sql).append()
        files = live_files(table := self._loaded(), table.head_id(MAIN)).data
        target = sum(one.bytes for one in files) // len(files)
        self.spark.sql(
            f"ALTER TABLE {self.sql} SET TBLPROPERTIES ('write.target-file-size-bytes'='{target}')"
        )

    def day(self, number: int) -> None:
        """Rows come, and whoever sorts does."""
        table = self._loaded()
        rows = sum(one.records for one in live_files(table, table.head_id(MAIN)).data) // 100
        _rows(self.spark, number, rows).coalesce(1).writeTo(self.sql).option(*ONE_FILE).append()
        if not self.every:
            self._sort_ours(number)
        elif number % self.every == 0:
            self._sort_all()
        self._ask()

    def _sort_ours(self, number: int) -> None:
        table, at = self._loaded(), self.now_ms()
        head = table.head_id(MAIN) or 0
        scope = live_files(table, head).scopes[0]
        order = RewriteFiles(
            f"{number:032x}", table.identity, MAIN, scope, "sort", "unsorted", head, 1, at,
            at + HOUR_MS, min_dead_ratio=1.0, run_ms=HOUR_MS,
        )  # fmt: skip
        result = self.rewriter.rewrite(order, lambda _: None)
        if result.groups:
            [event] = self.committer.commit_all([result])
            assert type(event).__name__ == "RewriteCommitted", event

    def _sort_all(self) -> None:
        actions = self.java.iceberg.spark.actions.SparkActions.get(self.java.session)
        java = self.java.load(self._loaded().identity).java
        order = self.java.iceberg.SortOrder.builderFor(java.schema()).asc("k").build()
        actions.rewriteDataFiles(java).sort(order).option("rewrite-all", "true").execute()

    def _ask(self) -> None:
        """By Iceberg's own planning."""
        java = self.java.load(self._loaded().identity).java
        size = self.java.iceberg.relocated.com.google.common.collect.Iterables.size
        equal = self.java.iceberg.expressions.Expressions.equal
        total = size(java.newScan().planFiles())
        keys = (KEYS * (2 * number + 1) // (2 * ASKED) for number in range(ASKED))
        opened = sum(size(java.newScan().filter(equal("k", key)).planFiles()) for key in keys)
        self.opened += opened / ASKED
        self.left_out += 1 - opened / ASKED / total

    def written(self) -> int:
        """Bytes of the files that sorts have added."""
        added = (
            one.summary.additional_properties.get("added-files-size", "0")
            for one in self._loaded().snapshots
            if one.summary is not None and one.summary.operation.value == "replace"
        )
        return sum(map(int, added))

    def rows(self) -> int:
        return self.spark.table(self.sql).count()

    def _loaded(self) -> Any:
        return self.tables.named(("bench",), self.name)


def _rows(spark: SparkSession, seed: int, count: int) -> Any:
    """Of all keys, evenly; each with a text that does not compress."""
    return spark.range(count).selectExpr(
        f"pmod(xxhash64(id, {seed}), {KEYS}) AS k",
        f"concat(hex(xxhash64(id, {seed}, 1)), hex(xxhash64(id, {seed}, 2))) AS v",
    )


@contextmanager
def growing(
    spark: SparkSession, uri: str, folder: Path, now_ms: Callable[[], int]
) -> Iterator[Callable[[str, int], Growing]]:
    """Makes tables: (name, every) -> `Growing`."""
    tables, java = Tables(uri), JavaTables(spark, "lake")
    cache = DeleteSetCache(folder / "worker")
    guard = Handover(java, tables, lambda _: nullcontext())
    rewriter = Rewriter(tables, java, cache, SparkStage(spark), guard, "bench", 1 << 30, now_ms)
    commits = JavaCommits(SparkJvm(spark), uri)
    committer = Committer(without_gateway(tables), commits, Log("bench"), now_ms)

    def made(name: str, every: int) -> Growing:
        one = Growing(name, every, spark, tables, java, rewriter, committer, now_ms)
        one.make()
        return one

    yield made
    cache.close()
