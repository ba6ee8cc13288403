"""Reads a commit's rows once more, before and after it, through Iceberg's own Spark reader.

Nothing of Firnline's kernel is in the way of either side: both are planned and read by Iceberg, the
old files with all deletes that applied to them at the snapshot's parent. Only the files that the
commit took out and put in are read, and those for which it exchanged the deletes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from firnline_adapters.observability import metrics
from firnline_domain.errors import RetryLater, TaskRefused
from firnline_domain.records.orders import CompareRows
from firnline_domain.records.results import DeleteKind, RowsCompared, RowSums
from firnline_iceberg.commit.hidden_history import hides_history
from firnline_iceberg.commit.previous_state import knowing_before
from firnline_iceberg.scan.planning import LiveFiles, PlannedFile, live_files
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable
from py4j.java_gateway import JavaMember
from py4j.protocol import STATIC_PREFIX
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from firnline_worker.rewrite.iceberg_fallback import condition_of
from firnline_worker.spark.java_api import JavaTables

MAX_DELETED_ROWS = 500_000  # equality deletes: 200 bytes each in a JVM, in every core's task
_STAGED = "scan-task-set-id"


@dataclass(frozen=True)
class Side:
    """One snapshot, and the data files in it that the other one has not, or not with the same
    deletes."""

    snapshot_id: int
    files: Sequence[PlannedFile]
    metadata: str = ""  # the file that has the snapshot, where the catalog shows it not

    @property
    def bytes(self) -> int:
        """Return the bytes of the files and of the deletes that apply to them."""
        deletes = {delete.path: delete.bytes for file in self.files for delete in file.deletes}
        return sum(file.data.bytes for file in self.files) + sum(deletes.values())

    @property
    def deleted_rows(self) -> int:
        """Return the rows of the equality deletes among these."""
        deletes = {delete.path: delete for file in self.files for delete in file.deletes}
        equality = DeleteKind.EQUALITY
        return sum(one.records for one in deletes.values() if one.kind is equality)


# Why rows were not compared, or what came of it.
COMPARED: dict[str, str] = {
    "too_large": "The files have more bytes than the worker verifies (64 MiB).",
    "too_many_deletes": "The files have more equality deletes than the worker verifies (500,000 "
    "rows).",
    "not_planned": "Iceberg plans other files than those that the rewrite replaced.",
    "snapshot_gone": "The commit's snapshot has expired.",
    "parent_gone": "The snapshot before the commit has expired.",
    "history_hidden": "The catalog returns only the current snapshot, and no older metadata file "
    "exists.",
    "not_read": "The table or a file could not be read.",
    "unreachable": "The catalog or storage did not respond. The task is retried.",
    "paused": "A person paused maintenance.",
    "rows_differ": "The rows after the commit differ from those before it. Revert it with "
    "`firnline undo TASK`, and report it.",
}


class Skipped(Exception):
    """A comparison that was skipped; the reason is a code."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class Comparer:
    """The comparison of a commit's rows, which turns `CompareRows` into `RowsCompared`."""

    tables: Tables
    java: JavaTables
    worker: str
    max_bytes: int
    now_ms: Callable[[], int]

    def compare(self, order: CompareRows) -> RowsCompared:
        """Compare the rows of a commit. Any failure skips the comparison: the commit was proved
        before."""
        try:
            before, after = self._sum_both_sides(order)
        except Skipped as skipped:
            return self.skip_comparison(order, skipped.reason, str(skipped))
        except TaskRefused as refused:
            return self.skip_comparison(order, refused.reason, str(refused))
        except RetryLater as later:
            metrics.count("dependency_errors", dependency=later.dependency)
            return self.skip_comparison(order, "unreachable", str(later))
        if before == after:
            return self._result(order, "equal", None, "", before, after)
        text = f"before {before}, after {after}"
        return self._result(order, "differ", "rows_differ", text, before, after)

    def skip_comparison(self, order: CompareRows, reason: str, detail: str) -> RowsCompared:
        return self._result(order, "skipped", reason, detail)

    def _sum_both_sides(self, order: CompareRows) -> tuple[RowSums, RowSums]:
        table = self.tables.load(order.table)
        before, after = find_sides(table, order)
        if before.bytes + after.bytes > self.max_bytes:
            raise Skipped("too_large", f"{before.bytes + after.bytes} of {self.max_bytes} bytes")
        if before.deleted_rows > MAX_DELETED_ROWS:
            raise Skipped("too_many_deletes", f"{before.deleted_rows} of {MAX_DELETED_ROWS} rows")
        java = self.java.load(order.table).java
        condition = condition_of(self.java.iceberg, table, order.scope)
        return self._sum_side(java, before, condition), self._sum_side(java, after, condition)

    def _sum_side(self, java: Any, side: Side, condition: Any) -> RowSums:
        if not side.files:
            return RowSums(0, "0", "0")
        with self._stage_files(java, side, condition) as frame:
            return sums_of(frame)

    @contextmanager
    def _stage_files(self, table: Any, side: Side, condition: Any) -> Iterator[DataFrame]:
        """Read the files' rows as Iceberg's rewrite action reads those of a group."""
        iceberg, name = self.java.iceberg, f"firnline-{uuid.uuid4().hex}"
        wanted = {file.data.path for file in side.files}
        scan = self._table_at(table, side).newScan().useSnapshot(side.snapshot_id).ignoreResiduals()
        tasks = _scan_tasks(self.java.spark, scan.filter(condition) if condition else scan, wanted)
        if tasks.size() != len(wanted):
            raise Skipped("not_planned", f"{tasks.size()} of {len(wanted)} files")
        manager, cache = iceberg.spark.ScanTaskSetManager.get(), _find_table_cache(iceberg)
        manager.stageTasks(table, name, tasks)
        try:
            cache.add(name, table)
            yield self.java.spark.read.format("iceberg").option(_STAGED, name).load(name)
        finally:
            cache.remove(name)
            manager.removeTasks(table, name)

    def _table_at(self, table: Any, side: Side) -> Any:
        """Return the table at the time when it had the snapshot."""
        if not side.metadata:
            return table
        then = self.java.iceberg.StaticTableOperations(side.metadata, table.io())
        return self.java.iceberg.BaseTable(then, table.name())

    def _result(
        self,
        order: CompareRows,
        outcome: str,
        reason: str | None,
        detail: str,
        before: RowSums | None = None,
        after: RowSums | None = None,
    ) -> RowsCompared:
        return RowsCompared(
            task_id=order.task_id,
            table=order.table,
            ref=order.ref,
            scope=order.scope,
            snapshot_ids=order.snapshot_ids,
            outcome=outcome,
            reason=reason,
            detail=detail,
            before=before,
            after=after,
            worker=self.worker,
            compared_at_ms=self.now_ms(),
        )


def find_sides(table: LoadedTable, order: CompareRows) -> tuple[Side, Side]:
    """Return what the order's snapshots, one after the other, removed from the scope and added to
    it. Raises Skipped if one of them, or the parent of the first, is expired, or not shown."""
    for snapshot_id in order.snapshot_ids:
        if not table.retains(snapshot_id):
            raise _missing_snapshot(table, order.ref, "snapshot_gone", str(snapshot_id))
    if not order.snapshot_ids:
        raise Skipped("snapshot_gone", "the commit was found by its files alone")
    number = {one: table.snapshot(one).sequence_number or 0 for one in order.snapshot_ids}
    first, last = min(number, key=number.__getitem__), max(number, key=number.__getitem__)
    parent, metadata = table.snapshot(first).parent_snapshot_id, ""
    if parent is None and first == last == table.head_id(order.ref) and hides_history(table, first):
        if (known := knowing_before(table, order.ref)) is None:
            raise Skipped("history_hidden", "no metadata file of the state before it is left")
        table, earlier = known
        parent, metadata = earlier.snapshot.snapshot_id, earlier.metadata_location
    if parent is None or not table.retains(parent):
        raise _missing_snapshot(table, order.ref, "parent_gone", str(parent))
    old, new = live_files(table, parent), live_files(table, last)
    return replace(_build_side(parent, old, new, order), metadata=metadata), _build_side(
        last, new, old, order
    )


def _missing_snapshot(table: LoadedTable, ref: str, reason: str, detail: str) -> Skipped:
    head = table.head_id(ref)
    if head is not None and hides_history(table, head):
        return Skipped("history_hidden", "the catalog returns only the current snapshot")
    return Skipped(reason, detail)


def _build_side(snapshot_id: int, mine: LiveFiles, other: LiveFiles, order: CompareRows) -> Side:
    common = {_file_identity(file) for file in other.files_of_scope(order.scope)}
    files = mine.files_of_scope(order.scope)
    return Side(snapshot_id, [file for file in files if _file_identity(file) not in common])


def _file_identity(file: PlannedFile) -> tuple[str, frozenset[object]]:
    return file.data.normal_path, frozenset(delete.key for delete in file.deletes)


def _scan_tasks(spark: SparkSession, scan: Any, wanted: set[str]) -> Any:
    """Return a Java list of the scan tasks of these files, each with its deletes."""
    found = spark._jvm.java.util.ArrayList()  # type: ignore[union-attr]
    planned = scan.planFiles()
    try:
        tasks = planned.iterator()
        while tasks.hasNext():
            task = tasks.next()
            if task.file().location() in wanted:
                found.add(task)
    finally:
        planned.close()
    return found


def _find_table_cache(iceberg: Any) -> Any:
    """Return Iceberg's cache of tables. It has a static `get` and another one. py4j checks only the
    first of them, and each JVM has its own order."""
    name = f"{STATIC_PREFIX}org.apache.iceberg.spark.SparkTableCache"
    return JavaMember("get", None, name, iceberg._gateway_client)()


def sums_of(frame: DataFrame) -> RowSums:
    """Return the number of rows, and two sums of a 64-bit hash of all columns that do not depend on
    their order. Staged files of v3 tables have their rows' ids and numbers among their columns."""
    columns = [_hashable_column(field.name, field.dataType) for field in frame.schema.fields]
    hashed = frame.select(sql.xxhash64(*columns).alias("h"))
    total = sql.sum(sql.col("h").cast("decimal(38,0)"))
    (row,) = hashed.agg(sql.count(sql.lit(1)), total, sql.bit_xor("h")).collect()
    return RowSums(row[0], str(row[1] or 0), str(row[2] or 0))


def _hashable_column(name: str, kind: DataType) -> Any:
    """Return a column that Spark can hash. It does not hash maps: their text is in the order in
    which they are stored."""
    column = sql.col("`" + name.replace("`", "``") + "`")
    return sql.to_json(sql.struct(column)) if _has_map(kind) else column


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _has_map(kind.elementType)
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    return isinstance(kind, MapType | VariantType)
