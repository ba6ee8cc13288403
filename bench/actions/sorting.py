"""A table that grows by a hundredth a day, with rows of all keys: sorted where the planner's
policy orders it, and as a whole by Iceberg's own action every day, and less often. What is written,
and how many files a reader of one key opens.

Files are not compressed: Iceberg's writer ends a file by the size of what it holds in memory, which
for files of one row group is before compression, so its files would be half as large as ours, and
the same files that are opened a half of the share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firnline_adapters.observability.logs import Log
from firnline_committer.commit.committer import Committer
from firnline_committer.commit.held_catalog import without_gateway
from firnline_domain.base.times import HOUR_MS, MINUTE_MS
from firnline_domain.identity import MAIN
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.scan.planning import live_files
from firnline_iceberg.table.catalog_client import Tables
from firnline_worker.delete_sets.cache import DeleteSetCache
from firnline_worker.rewrite.iceberg_fallback import Handover
from firnline_worker.rewrite.rewriter import Rewriter
from firnline_worker.spark.java_api import JavaTables, SparkJvm
from firnline_worker.spark.session import SparkStage
from pyspark.sql import SparkSession

from bench.actions.policy import Policy

KEYS = 1_000_000_000
FILES, ROWS = 100, 4_000  # of the table at first; rows of each file
ONE_FILE = ("target-file-size-bytes", str(1 << 30))  # a day: rows in no order take more room
ASKED = 20  # keys of which the files are counted, evenly over all


@dataclass
class Growing:
    """One table, and who sorts it. `every`: commits between two sorts of all of it; 0 = it is ours.
    `opened`: files that a reader of one key opens, after each commit and what it led to.
    `left_out`: the share of all files that it does not."""

    name: str
    every: int
    commits_a_day: int
    spark: SparkSession
    tables: Tables
    java: JavaTables
    policy: Policy
    pass_ms: Callable[[int], None]
    opened: list[float] = field(default_factory=list)
    left_out: list[float] = field(default_factory=list)
    files: int = 0

    @property
    def sql(self) -> str:
        return f"lake.bench.{self.name}"

    def make(self) -> None:
        """Sorted files beside each other."""
        self.spark.sql(
            f"CREATE TABLE {self.sql} (k BIGINT, v STRING) USING iceberg TBLPROPERTIES "
            "('format-version'='2', 'firnline.sort'='k', 'write.distribution-mode'='none', "
            "'write.parquet.compression-codec'='uncompressed')"
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
        files = live_files(table := self._loaded(), table.head_id(MAIN)).data
        rows = sum(one.records for one in files) // 100 // self.commits_a_day
        for commit in range((number - 1) * self.commits_a_day, number * self.commits_a_day):
            new = _rows(self.spark, commit + 1, rows).coalesce(1)
            new.writeTo(self.sql).option(*ONE_FILE).append()
            if not self.every:
                self._follow_policy()
            elif (commit + 1) % self.every == 0:
                self._sort_all()
            self._ask()
        print(self.name, number, round(self.opened[-1], 2), flush=True)

    def _follow_policy(self) -> None:
        """A look a minute later, and once an hour until the next commit."""
        self.policy.committed(self._loaded().identity)
        self.pass_ms(MINUTE_MS)
        self.policy.tick()
        for _ in range(24 // self.commits_a_day):
            self.pass_ms(HOUR_MS)
            self.policy.tick()

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
        self.files = size(java.newScan().planFiles())
        keys = (KEYS * (2 * number + 1) // (2 * ASKED) for number in range(ASKED))
        opened = sum(size(java.newScan().filter(equal("k", key)).planFiles()) for key in keys)
        self.opened.append(opened / ASKED)
        self.left_out.append(1 - opened / ASKED / self.files)

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
        return self.tables.load_named(("bench",), self.name)


def _rows(spark: SparkSession, seed: int, count: int) -> Any:
    """Of all keys, evenly; each with a text that does not compress."""
    return spark.range(count).selectExpr(
        f"pmod(xxhash64(id, {seed}), {KEYS}) AS k",
        f"concat(hex(xxhash64(id, {seed}, 1)), hex(xxhash64(id, {seed}, 2))) AS v",
    )


@contextmanager
def growing(
    spark: SparkSession, uri: str, folder: Path, real_ms: Callable[[], int], commits_a_day: int
) -> Iterator[Callable[[str, int], Growing]]:
    """Makes tables: (name, every) -> `Growing`. Days pass on a clock that runs ahead."""
    passed = [0]

    def now_ms() -> int:
        return real_ms() + passed[0]

    def pass_ms(more: int) -> None:
        passed[0] += more

    tables, java = Tables(uri), JavaTables(spark, "lake")
    cache = DeleteSetCache(folder / "worker")
    guard = Handover(java, tables, lambda _: nullcontext())
    rewriter = Rewriter(tables, java, cache, SparkStage(spark), guard, "bench", 1 << 30, now_ms)
    commits = JavaCommits(SparkJvm(spark), uri)
    committer = Committer(without_gateway(tables), commits, Log("bench"), now_ms)

    def made(name: str, every: int) -> Growing:
        policy = Policy(tables, rewriter, committer, now_ms)
        one = Growing(name, every, commits_a_day, spark, tables, java, policy, pass_ms)
        one.make()
        return one

    yield made
    cache.close()
