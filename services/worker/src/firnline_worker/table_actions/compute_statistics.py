"""Computes what query planners read of a table: distinct values of columns (theta sketches in a
Puffin file) and partition statistics. Both by Iceberg's own code; the commit is ours.

The files are of one snapshot, the head as the order begins, with its deletes applied. They make no
snapshot; they are committed in one transaction, and only where the snapshot is still there and
nobody else has described it meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

from firnline_domain.base.values import Value
from firnline_domain.errors import CatalogUnreachable, RetryLater, TaskRefused
from firnline_domain.identity import MAIN
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.compute_statistics import ALL, Statistics
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.results import TableResult, table_result
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds
from firnline_iceberg.removal.removal import NotRemovable, remove_statistics, shares_files
from firnline_iceberg.table.catalog_client import Tables, settings_of
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.shared_locations import refuse_shared
from firnline_iceberg.table.statistics import (
    changed_since,
    described_columns,
    described_partitions,
    latest_described,
    stale_snapshots,
)
from py4j.protocol import Py4JJavaError
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, PrimitiveType, StructType
from pyspark.errors.exceptions.captured import CapturedException

from firnline_worker.spark.java_api import JavaTables
from firnline_worker.table_actions.registry import ActionTools, CarryOut, carries_out

UNKNOWN = "org.apache.iceberg.exceptions.CommitStateUnknownException"


class Wish(Value):
    """Statistics to compute of a head: columns by their names, none = no table statistics."""

    columns: tuple[str, ...] = ()
    partitions: bool = False
    left_out: int = 0  # columns that are named and have a dot in the name of a field


def wish_of(table: LoadedTable, order: TableOrder, limits: Thresholds) -> Wish:
    """Return the statistics that the table's settings ask for and the head does not have yet.
    Raises TaskRefused."""
    if not limits.enabled:
        raise TaskRefused("disabled", "firnline.enabled=false")
    if not limits.statistics and not limits.partition_statistics:
        text = "firnline.statistics and firnline.partition-statistics are not set"
        raise TaskRefused("no_statistics", text)
    head = table.head(MAIN)
    columns, left_out = _find_columns(table, limits.statistics)
    partitions = limits.partition_statistics
    asked = order.reason == Reason.REQUESTED
    if not asked and not order.numbers["columns"]:
        columns = {}
    if not asked and not order.numbers["partitions"]:
        partitions = False
    if columns and _is_fresh(
        table, frozenset(columns.values()), 0.0 if asked else _min_change(limits)
    ):
        columns = {}
    has_partitions = bool(table.metadata.spec().fields) or any(
        spec.fields for spec in table.metadata.specs().values()
    )
    if not has_partitions or head.snapshot_id in described_partitions(table):
        partitions = False
    return Wish(tuple(columns), partitions, left_out if columns else 0)


def limits_of(tables: Tables, table: LoadedTable, order: TableOrder) -> Thresholds:
    """Return the limits by the owner's current settings; the deployment's are in the order."""
    settings = settings_of(tables, table, order.policies)
    fleets = Thresholds(
        statistics=ALL if order.numbers["all_columns"] else "",
        partition_statistics=bool(order.numbers["partitions"]),
        statistics_min_change=order.numbers["min_change"],
    )
    return resolve_thresholds(settings, fleets)


def _min_change(limits: Thresholds) -> float:
    return limits.statistics_min_change


def _find_columns(table: LoadedTable, text: str) -> tuple[dict[str, int], int]:
    """Return names with field ids, as the head's own schema has them, and how many named columns
    are left out. Raises TaskRefused.

    Iceberg's action gives Spark the names unquoted, which reads a dot as a step into a struct: such
    columns are left out, and refused where no other column is named."""
    schema = table.schema_of(table.head(MAIN).schema_id)
    if text == ALL:
        return {
            one.name: one.field_id
            for one in schema.fields
            if isinstance(one.field_type, PrimitiveType) and _is_readable(schema, one.name)
        }, 0
    found, dotted = dict[str, int](), list[str]()
    for name in filter(None, (one.strip() for one in text.split(","))):
        try:
            field = schema.find_field(name)
        except ValueError:
            with suppress(ValueError):
                table.schema.find_field(name)
                continue  # added since: the head has no value of it
            text = f"firnline.statistics names {name!r}, and the table has no such column"
            raise TaskRefused("unknown_column", text) from None
        if not isinstance(field.field_type, PrimitiveType):
            text = f"firnline.statistics names {name!r}, of type {field.field_type}"
            raise TaskRefused("no_primitive_column", text)
        if _is_readable(schema, name):
            found[name] = field.field_id
        else:
            dotted.append(name)
    if dotted and not found:
        text = f"firnline.statistics names only {dotted}, with a dot in the name of a field"
        raise TaskRefused("dotted_column", text)
    return found, len(dotted)


def _is_readable(schema: Schema, name: str) -> bool:
    """Return True if each dot of a column's name is a step into a struct, as Spark reads it."""
    fields: tuple[NestedField, ...] = schema.fields
    for step in name.split("."):
        field = next((one for one in fields if one.name == step), None)
        if field is None:
            return False
        fields = field.field_type.fields if isinstance(field.field_type, StructType) else ()
    return True


def _is_fresh(table: LoadedTable, field_ids: frozenset[int], least: float) -> bool:
    """Return whether these columns have statistics, of the head or of an earlier snapshot since
    which fewer rows have changed."""
    known = latest_described(table, field_ids)
    if known is None:
        return False
    if known == table.head(MAIN).snapshot_id:
        return True
    changed, rows = changed_since(table, known)
    return changed is not None and changed < least * max(rows, 1)


@dataclass(frozen=True)
class Made:
    """Iceberg's description of each file that was written; None = it was not asked for."""

    of_columns: Any = None
    of_partitions: Any = None


@dataclass(frozen=True)
class StatisticsComputer:
    """Carries out orders for statistics. The settings of table and namespace are read again."""

    tables: Tables
    java: JavaTables
    worker: str
    now_ms: Callable[[], int]

    def compute(self, order: TableOrder) -> TableResult:
        """Compute the statistics that the head lacks, and commit them; remove those of expired
        snapshots. Raises TaskRefused; RetryLater, also if the head has changed meanwhile."""
        table = self.tables.load(order.table)
        limits = limits_of(self.tables, table, order)
        wish, stale = wish_of(table, order, limits), stale_snapshots(table)
        if not wish.columns and not wish.partitions and not stale:
            return self._result(order, {})
        head = table.head(MAIN).snapshot_id
        java, paths = self.java.load(order.table).java, list[str]()
        try:
            made = self._compute_files(java, head, wish, paths)
            self._refuse_late(order, table, head, wish)
            _commit_statistics(java, made, stale)
        except Py4JJavaError as error:
            if not self._is_instance(error, UNKNOWN):
                self._remove_files(order, paths)
            raise CatalogUnreachable(f"compute_statistics: {_java_text(error)}") from error
        except CapturedException:
            self._remove_files(order, paths)
            self._refuse_late(order, table, head, wish)  # Iceberg says `Snapshot not found`
            raise
        except (RetryLater, TaskRefused):
            self._remove_files(order, paths)
            raise
        self._take_back_if_gone(order, head, paths)
        self._remove_stale(order, table, stale)
        return self._result(order, _result_numbers(wish, made, stale))

    def _compute_files(self, java: Any, head: int, wish: Wish, paths: list[str]) -> Made:
        """Compute statistics. Appends the files to `paths` as they are written."""
        made = Made()
        if wish.columns:
            made = Made(of_columns=self._compute_sketches(java, head, wish.columns))
            paths.append(made.of_columns.path())
        if wish.partitions:
            handler = self.java.iceberg.PartitionStatsHandler
            seen = java if java.specs().size() == 1 else self._without_partition_statistics(java)
            found = handler.computeAndWriteStatsFile(seen, head)
            if found is not None:  # the head has no file
                made = Made(made.of_columns, found)
                paths.append(found.path())
        return made

    def _without_partition_statistics(self, java: Any) -> Any:
        """Return the table without partition statistics, so that none are made from earlier ones:
        for a table that was partitioned in several ways Iceberg 1.12 makes a file from those that
        misses partitions (docs/decisions/0042)."""
        unsent = java.newTransaction()
        for one in java.partitionStatisticsFiles():
            change = unsent.updatePartitionStatistics()
            change.removePartitionStatistics(one.snapshotId()).commit()
        return self.java.iceberg.BaseTable(unsent.table().operations(), java.name())

    def _compute_sketches(self, java: Any, head: int, columns: tuple[str, ...]) -> Any:
        """Compute table statistics. Iceberg's action reads, writes and commits. Here it commits to
        a transaction that is never sent: so another engine's file is not overwritten before we have
        checked."""
        unsent = java.newTransaction().table().operations()
        seen = self.java.iceberg.BaseTable(unsent, java.name())
        actions = self.java.iceberg.spark.actions.SparkActions.get(self.java.session)
        action = actions.computeTableStats(seen).snapshot(head)
        return action.columns(self._java_strings(columns)).execute().statisticsFile()

    def _refuse_late(self, order: TableOrder, before: LoadedTable, head: int, wish: Wish) -> None:
        """Raise RetryLater, TaskRefused if the snapshot has expired, or if another engine has
        written its statistics while we read."""
        now = self.tables.load(order.table)
        if not now.retains(head):
            raise RetryLater(f"snapshot {head} was expired while it was read")
        if wish.columns and described_columns(now, head) != described_columns(before, head):
            raise RetryLater(f"another engine has described snapshot {head} meanwhile")
        if wish.partitions and head in described_partitions(now):
            raise RetryLater(f"another engine has described snapshot {head} meanwhile")

    def _take_back_if_gone(self, order: TableOrder, head: int, paths: Iterable[str]) -> None:
        """Remove statistics of a snapshot that has just expired: a catalog accepts them."""
        after = self.tables.load(order.table)
        if after.retains(head):
            return
        java = self.java.load(order.table).java
        _commit_statistics(java, Made(), (head,))
        self._remove_files(order, paths)
        raise RetryLater(f"snapshot {head} was expired while its statistics were committed")

    def _remove_files(self, order: TableOrder, paths: Iterable[str]) -> None:
        """Remove files. One that remains is an orphan, and does no harm."""
        if left := tuple(paths):
            with suppress(RetryLater, TaskRefused, NotRemovable, OSError):
                table = self.tables.load(order.table)
                for path in left:
                    remove_statistics(table, path)

    def _remove_stale(self, order: TableOrder, table: LoadedTable, stale: Iterable[int]) -> None:
        """Remove files of snapshots that the table does not have: another one that shares files
        with it may."""
        with suppress(RetryLater, TaskRefused):
            if not shares_files(table):
                refuse_shared(self.tables, table)
                self._remove_files(order, stale_paths(table, stale))

    def _java_strings(self, names: tuple[str, ...]) -> Any:
        gateway: Any = self.java.spark.sparkContext._gateway
        made = gateway.new_array(self.java.jvm.java.lang.String, len(names))
        for at, name in enumerate(names):
            made[at] = name
        return made

    def _is_instance(self, error: Py4JJavaError, name: str) -> bool:
        return bool(self.java.jvm.java.lang.Class.forName(name).isInstance(error.java_exception))

    def _result(self, order: TableOrder, numbers: dict[str, float]) -> TableResult:
        return table_result(order, self.worker, self.now_ms(), numbers)


@carries_out(Statistics.name)
def build_statistics_computer(tools: ActionTools) -> CarryOut:
    return StatisticsComputer(tools.tables, tools.java, tools.worker, tools.now_ms).compute


def stale_paths(table: LoadedTable, stale: Iterable[int]) -> Iterator[str]:
    """Yield the files that the entries of these snapshots name."""
    ids, metadata = frozenset(stale), table.metadata
    for one in chain(metadata.statistics, metadata.partition_statistics):
        if one.snapshot_id in ids:
            yield one.statistics_path


def _commit_statistics(java: Any, made: Made, stale: Iterable[int]) -> None:
    """Commit all changes in one commit."""
    transaction = java.newTransaction()
    for one in stale:
        transaction.updateStatistics().removeStatistics(one).commit()
        transaction.updatePartitionStatistics().removePartitionStatistics(one).commit()
    if made.of_columns is not None:
        transaction.updateStatistics().setStatistics(made.of_columns).commit()
    if made.of_partitions is not None:
        change = transaction.updatePartitionStatistics()
        change.setPartitionStatistics(made.of_partitions).commit()
    transaction.commitTransaction()


def _result_numbers(wish: Wish, made: Made, stale: Sequence[int]) -> dict[str, float]:
    numbers = {"stale_statistics_removed": float(len(stale))}
    if made.of_columns is not None:
        numbers["columns_described"] = float(len(wish.columns))
        numbers["columns_left_out"] = float(wish.left_out)
        numbers["statistics_bytes"] = float(made.of_columns.fileSizeInBytes())
    if made.of_partitions is not None:
        numbers["partition_statistics_bytes"] = float(made.of_partitions.fileSizeInBytes())
    return {name: number for name, number in numbers.items() if number}


def _java_text(error: Py4JJavaError) -> str:
    return str(error.java_exception)[:1000]
