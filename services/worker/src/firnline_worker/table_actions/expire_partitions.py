"""Takes files whose rows are all older than the owner wants out of a table, by metadata alone: no
file is written, and of those without a partition value of time the footers are read. Or only counts
them, to be announced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import Value
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import MAIN, Scope
from firnline_domain.policy.table_action.aged_partitions import AgeReason, PartitionExpiry
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.results import TableResult, table_result
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds
from firnline_iceberg.commit.java_commits import TableCommits
from firnline_iceberg.metadata.entries import DataFileEntry
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.removal.catalog_and_storage_clocks import Ask, ask_clocks, table_now
from firnline_iceberg.scan.parquet_footers import Footers
from firnline_iceberg.scan.planning import live_entries
from firnline_iceberg.scan.row_age import FileAges, time_column
from firnline_iceberg.table.catalog_client import Tables, settings_of
from firnline_iceberg.table.loaded_table import LoadedTable

from firnline_worker.rewrite.preconditions import (
    in_grace_period,
    ordered_grace_ms,
    yield_to_writers,
)
from firnline_worker.table_actions.commit_removals import PlannedRemoval, commit_removal
from firnline_worker.table_actions.registry import ActionTools, CarryOut, carries_out

MAX_FILES = 50_000  # in one commit, all of them in memory; the rest follows six hours later


class OldFiles(Value):
    """Data files of a head to remove; the oldest partitions first."""

    files: tuple[DataFileEntry, ...]

    @property
    def figures(self) -> dict[str, float]:
        return {
            "files": float(len(self.files)),
            "rows": float(sum(one.records for one in self.files)),
            "bytes": float(sum(one.bytes for one in self.files)),
            "partitions": float(len(self.scopes)),
        }

    @property
    def scopes(self) -> list[Scope]:
        return sorted({one.scope for one in self.files})


def old_files(table: LoadedTable, head: int, limits: Thresholds, before_ms: int) -> OldFiles:
    """Find the files to remove. Raises TaskRefused, MetadataFileGone, RetryLater."""
    ages = FileAges(table, time_column(table, limits.partition_column.strip()), Footers())
    live = live_entries(table, head, Detail.STATS, deletes=False)
    files = (one for one in live if isinstance(one, DataFileEntry))
    old = (one for one, is_old in ages.decide_ages(files, before_ms) if is_old)
    return OldFiles(tuple(sorted(old, key=lambda one: (one.scope, one.normal_path))[:MAX_FILES]))


@dataclass(frozen=True)
class PartitionExpirer:
    """Carries out partition expiry. The settings of table and namespace are read again: an order is
    only an order. The commit is pinned to the head that was examined."""

    tables: Tables
    commits: TableCommits
    worker: str
    now_ms: Callable[[], int]
    ask: Ask = ask_clocks

    def expire(self, order: TableOrder) -> TableResult:
        """Carry out an order. Raises TaskRefused, RetryLater."""

        def find_removal(table: LoadedTable, head: int) -> PlannedRemoval:
            now_ms = table_now(table, self.now_ms, order.ordered_at_ms, self.ask)
            limits = self._check_limits(table, order, now_ms)
            before_ms = now_ms - int(ttl_h(order, limits) * HOUR_MS)
            found = old_files(table, head, limits, before_ms)
            if order.numbers.get("announces"):
                going = {f"going_{name}": number for name, number in found.figures.items()}
                return PlannedRemoval(
                    (), self._result(order, {**going, "ttl_h": ttl_h(order, limits)})
                )
            if not found.files:
                return PlannedRemoval((), self._result(order, {}))
            yield_to_writers(table, MAIN, now_ms)
            removed = {f"{name}_removed": number for name, number in found.figures.items()}
            return PlannedRemoval(found.files, self._result(order, removed), drops=True)

        return commit_removal(
            self.tables, self.commits, order, find_removal, self._result(order, {})
        )

    def _check_limits(self, table: LoadedTable, order: TableOrder, now_ms: int) -> Thresholds:
        """Return the limits by the owner's current settings. Raises TaskRefused if these forbid the
        order."""
        settings = settings_of(self.tables, table, order.policies)
        limits = resolve_thresholds(settings, ordered_defaults(order))
        if refused := refusal(order, limits, now_ms):
            raise TaskRefused(*refused)
        return limits

    def _result(self, order: TableOrder, numbers: dict[str, float]) -> TableResult:
        return table_result(order, self.worker, self.now_ms(), numbers)


@carries_out(PartitionExpiry.name)
def build_partition_expirer(tools: ActionTools) -> CarryOut:
    return PartitionExpirer(tools.tables, tools.commits, tools.worker, tools.now_ms).expire


def ordered_defaults(order: TableOrder) -> Thresholds:
    """Return the task's own thresholds, which hold if table and namespace set none."""
    return Thresholds(
        partition_ttl_h=order.numbers["ttl_h"], partition_grace_ms=ordered_grace_ms(order)
    )


def ttl_h(order: TableOrder, limits: Thresholds) -> float:
    """Return the longer one of the ordered age and the current setting."""
    return max(order.numbers["ttl_h"], limits.partition_ttl_h)


def refusal(order: TableOrder, limits: Thresholds, now_ms: int) -> tuple[str, str] | None:
    """Return why nothing may be removed, by the current settings."""
    if not limits.enabled:
        return "disabled", "firnline.enabled=false"
    if limits.partition_ttl_h <= 0:
        return "no_ttl", "firnline.partitions.ttl-hours is not set: it says at which age rows go"
    if limits.archive_after_h > 0:
        return "archived_instead", "firnline.archive.after-hours is set: what is old is archived"
    return in_grace_period(order, limits.partition_grace_ms, AgeReason.PARTITIONS_GRACE, now_ms)
