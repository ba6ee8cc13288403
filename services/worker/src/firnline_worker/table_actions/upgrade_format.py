"""Moves a table to format version 3: a change of metadata, and a commit without files, with which
the files that are there get their row ids.

The spec gives row ids with the first commit after an upgrade. Until then nobody can rewrite a file
and keep its rows' ids, so that is not left to a writer who may come next week.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.commits.writers import Writer, writer_of
from firnline_domain.errors import CatalogUnreachable, TaskRefused
from firnline_domain.identity import MAIN
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.upgrade_format import FormatReason, FormatUpgrade
from firnline_domain.policy.triggers.v2_deletes import VECTORS
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.results import DeleteKind, TableResult, table_result
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds
from firnline_iceberg.commit.retries import CommitLost, commit_with_retries
from firnline_iceberg.commit.rewrite import of_task, task_ids
from firnline_iceberg.metadata.entries import DeleteFileEntry
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.removal.catalog_and_storage_clocks import Ask, ask_clocks, table_now
from firnline_iceberg.scan.planning import live_entries
from firnline_iceberg.table.catalog_client import Tables, settings_of
from firnline_iceberg.table.loaded_table import LoadedTable
from py4j.protocol import Py4JJavaError
from pyiceberg.table.update import (
    UpgradeFormatVersionUpdate,
)

from firnline_worker.rewrite.preconditions import (
    in_grace_period,
    ordered_grace_ms,
    yield_to_writers,
)
from firnline_worker.spark.java_api import JavaTables
from firnline_worker.table_actions.registry import ActionTools, CarryOut, carries_out


@dataclass(frozen=True)
class FormatUpgrader:
    """The upgrade of a table's format. The settings of table and namespace are read again: an order
    is only an order. The upgrade is pinned to the head whose writers were checked."""

    tables: Tables
    java: JavaTables
    worker: str
    now_ms: Callable[[], int]
    ask: Ask = ask_clocks

    def upgrade(self, order: TableOrder) -> TableResult:
        """Carry out an order. Raises TaskRefused, RetryLater."""
        return commit_with_retries(lambda: self._try_upgrade(order))

    def _try_upgrade(self, order: TableOrder) -> TableResult | CommitLost:
        table = self.tables.load(order.table)
        now_ms = table_now(table, self.now_ms, order.ordered_at_ms, self.ask)
        limits = self._check_limits(table, order, now_ms)
        before = table.format_version
        if order.numbers.get("announces"):
            return self._result(
                order, {"announced": 1.0, **self._announcement_numbers(table, limits, now_ms)}
            )
        if before < VECTORS and not self._upgrade_metadata(order, table, limits, now_ms):
            return CommitLost()
        given = self._give_row_ids(order)
        numbers = {"from_version": before, "to_version": VECTORS, "files_with_new_row_ids": given}
        return self._result(order, numbers)

    def _check_limits(self, table: LoadedTable, order: TableOrder, now_ms: int) -> Thresholds:
        """Return the limits by the owner's current settings. Raises TaskRefused if these forbid the
        order."""
        settings = settings_of(self.tables, table, order.policies)
        limits = resolve_thresholds(settings, ordered_defaults(order))
        if refused := refusal(order, limits, now_ms):
            raise TaskRefused(*refused)
        return limits

    def _announcement_numbers(
        self, table: LoadedTable, limits: Thresholds, now_ms: int
    ) -> dict[str, float]:
        held = v2_deletes(table, table.head(MAIN).snapshot_id)
        unready = unready_writers(table, limits, now_ms)
        return {**held, "writers_not_ready": float(len(unready))}

    def _upgrade_metadata(
        self, order: TableOrder, table: LoadedTable, limits: Thresholds, now_ms: int
    ) -> bool:
        """Commit the new format version. Return False if a writer was faster."""
        if refused := find_obstacle(table, limits, now_ms):
            raise TaskRefused(*refused)
        yield_to_writers(table, MAIN, now_ms)
        head = table.head(MAIN).snapshot_id
        change = UpgradeFormatVersionUpdate.model_validate({"format-version": VECTORS})
        return self.tables.commit_changes(order.table, (change,), {MAIN: head})

    def _give_row_ids(self, order: TableOrder) -> float:
        """Give row ids to the files of `main` that have none. Return how many these were."""
        table = self.tables.load(order.table)
        head = table.head(MAIN)
        without = [
            one
            for one in table.manifests_of(head)
            if not one.holds_deletes and one.first_row_id is None
        ]
        if not without:
            return 0.0
        try:
            append = self.java.load(order.table).java.newFastAppend()
            for name, value in of_task(order.task_id, order.table.uuid).items():
                append.set(name, value)
            append.commit()
        except Py4JJavaError as error:
            raise CatalogUnreachable(f"row ids: {str(error.java_exception)[:1000]}") from error
        counts = ((one.added_files or 0) + (one.existing_files or 0) for one in without)
        return float(sum(counts))

    def _result(self, order: TableOrder, numbers: dict[str, float]) -> TableResult:
        return table_result(order, self.worker, self.now_ms(), numbers)


@carries_out(FormatUpgrade.name)
def build_format_upgrader(tools: ActionTools) -> CarryOut:
    return FormatUpgrader(tools.tables, tools.java, tools.worker, tools.now_ms).upgrade


def ordered_defaults(order: TableOrder) -> Thresholds:
    """Return the order's values, which hold if table and namespace set nothing."""
    silent, numbers = Thresholds(), order.numbers
    return replace(
        silent,
        format_version=int(numbers.get("asked_version", silent.format_version)),
        upgrade_grace_ms=ordered_grace_ms(order),
        writer_hours=numbers.get("writer_hours", silent.writer_hours),
    )


def refusal(order: TableOrder, limits: Thresholds, now_ms: int) -> tuple[str, str] | None:
    """Return why the upgrade may not run, by the current settings. An order that a person requested
    by name is never refused by the setting."""
    if not limits.enabled:
        return "disabled", "firnline.enabled=false"
    if order.reason == Reason.REQUESTED:
        return None
    if limits.format_version < VECTORS:
        return "not_wanted", "firnline.format-version=3 is not set: it asks for the upgrade"
    if order.numbers.get("format_version", 0) >= VECTORS:
        return None
    return in_grace_period(order, limits.upgrade_grace_ms, FormatReason.FORMAT_GRACE, now_ms)


def find_obstacle(table: LoadedTable, limits: Thresholds, now_ms: int) -> tuple[str, str] | None:
    """Return (reason, text) why a table cannot become v3 now; None if it can."""
    if table.format_version < 2:
        return "format_version_1", "a v1 table becomes v2 first: set format-version=2"
    if found := unready_writers(table, limits, now_ms):
        names = ", ".join(sorted({one.label for one in found})[:5])
        text = (
            f"{names} committed within {limits.writer_hours:g} h, and is not known to write v3 "
            "(firnline.format-version.writer-hours=0 upgrades all the same)"
        )
        return "writer_not_ready", text
    return None


def unready_writers(table: LoadedTable, limits: Thresholds, now_ms: int) -> Sequence[Writer]:
    """Return the writers that are not known to write v3, of commits to any branch except our own,
    in the hours that the owner sets."""
    if limits.writer_hours <= 0:
        return ()
    since_ms = now_ms - limits.writer_hours * HOUR_MS
    recent = (one for one in table.snapshots if one.timestamp_ms > since_ms)
    others = (one for one in recent if not task_ids(one.summary, table.identity.uuid))
    found = dict.fromkeys(writer_of(_summary_properties(one.summary)) for one in others)
    return [one for one in found if not one.writes_v3]


def _summary_properties(summary: Any) -> dict[str, str]:
    return dict(summary.additional_properties) if summary is not None else {}


def v2_deletes(table: LoadedTable, head: int) -> dict[str, float]:
    """Return the numbers of a head's deletes that vectors replace. Raises MetadataFileGone,
    RetryLater."""
    files = dict.fromkeys(DeleteKind, 0)
    scopes = set()
    for entry in live_entries(table, head, Detail.COUNTS, deletes=True):
        assert isinstance(entry, DeleteFileEntry)
        files[entry.kind] += 1
        if entry.kind is not DeleteKind.DELETION_VECTOR:
            scopes.add(entry.scope)
    return {
        "equality_delete_files": float(files[DeleteKind.EQUALITY]),
        "position_delete_files": float(files[DeleteKind.POSITION]),
        "partitions_with_v2_deletes": float(len(scopes)),
    }
