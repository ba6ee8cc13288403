"""Moves orphan files of a table into a quarantine below its location, and deletes those that have
lain there for their time. A file that the table names after all goes back to its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

from firnline_adapters.observability.logs import Log
from firnline_domain.base.times import HOUR_MS
from firnline_domain.errors import RetryLater, StorageUnreachable, TaskRefused
from firnline_domain.policy.table_action.remove_orphans import MIN_AGE_H, OrphanRemoval
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.parts.orphans import OrphanRefusal
from firnline_domain.records.results import TableResult, table_result
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.removal.catalog_and_storage_clocks import Ask, ask_clocks, table_now
from firnline_iceberg.removal.moves import MoveResult
from firnline_iceberg.removal.orphan_quarantine import QuarantineRelease, move_in, release_files
from firnline_iceberg.removal.orphans import Orphans, find_orphans, refuse_unclear
from firnline_iceberg.removal.removal import storage_now_ms
from firnline_iceberg.table.catalog_client import Tables, settings_of
from firnline_iceberg.table.listing import Storage
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.retained_names import RetainedNames

from firnline_worker.table_actions.registry import ActionTools, CarryOut, carries_out

SHOWN: Final = 20  # lines of a run's log about files that could not be moved


@dataclass(frozen=True)
class OrphanRemover:
    """The remover of orphan files. An order's numbers set how old an orphan has to be, and how long
    it waits in the quarantine."""

    tables: Tables
    worker: str
    now_ms: Callable[[], int]
    log: Log = field(default_factory=lambda: Log("worker"))
    ask: Ask = ask_clocks

    def remove(self, order: TableOrder) -> TableResult:
        """Carry out an order. Raises TaskRefused, RetryLater."""
        table = self.tables.load(order.table)
        try:
            return self._move_and_release(order, table)
        except MetadataFileGone as error:
            raise RetryLater(f"expired meanwhile: {error}") from error
        except OSError as error:
            raise StorageUnreachable(f"{order.table.dotted_name}: {error}") from error
        except TaskRefused as refused:
            if refused.reason in list(OrphanRefusal):
                why = str(refused)
                self.log.warning("orphans_not_removed", table=order.table, why=why)
                return self._result(order, refused.reason, {})
            raise

    def _move_and_release(self, order: TableOrder, table: LoadedTable) -> TableResult:
        refuse_unclear(self.tables, table)
        table_now(table, self.now_ms, order.ordered_at_ms, self.ask)
        if (now_ms := storage_now_ms(table)) is None:
            raise TaskRefused(OrphanRefusal.NOT_DATED, "the storage dates no files")
        age_ms = int(max(order.numbers["min_age_h"], MIN_AGE_H) * HOUR_MS)
        wait_ms = int(order.numbers["quarantine_h"] * HOUR_MS)
        names, storage = RetainedNames(table), Storage(table)
        inventory = inventory_of(self.tables, table, order)
        found = find_orphans(table, names, storage, now_ms - age_ms, inventory)
        released = release_files(table, names, storage, now_ms - wait_ms)
        try:
            moved = move_in(storage, found.files, now_ms)
        finally:
            missed = self._release_committed(order, names, storage)
        left = {**moved.left, **released.left, **missed.left}
        for place, why in islice(chain(left.items(), found.kept.items()), SHOWN):
            self.log.warning("file_not_moved", table=order.table, place=place, why=why)
        return self._result(
            order, None, _result_numbers(found, moved, [released, missed], len(left))
        )

    def _release_committed(
        self, order: TableOrder, names: RetainedNames, storage: Storage
    ) -> QuarantineRelease:
        """Restore files that a writer has committed while they were moved: a writer may commit an
        old file."""
        table = self.tables.load(order.table)
        if table.metadata_location == names.location:
            return QuarantineRelease()
        return release_files(table, RetainedNames(table), storage, before_ms=0)

    def _result(
        self, order: TableOrder, refused: str | None, numbers: dict[str, float]
    ) -> TableResult:
        return table_result(order, self.worker, self.now_ms(), numbers, refused)


@carries_out(OrphanRemoval.name)
def build_orphan_remover(tools: ActionTools) -> CarryOut:
    return OrphanRemover(tools.tables, tools.worker, tools.now_ms).remove


def inventory_of(tables: Tables, table: LoadedTable, order: TableOrder) -> str:
    """Return `firnline.orphans.inventory` as it is now; '': the location is listed."""
    settings = settings_of(tables, table, order.policies)
    return resolve_thresholds(settings, Thresholds()).orphan_inventory.strip()


def _result_numbers(
    found: Orphans, moved: MoveResult, released: Sequence[QuarantineRelease], left: int
) -> dict[str, float]:
    return {
        "files_seen": float(found.seen),
        "files_quarantined": float(moved.files),
        "bytes_quarantined": float(moved.bytes),
        "files_deleted": float(sum(one.deleted for one in released)),
        "bytes_deleted": float(sum(one.deleted_bytes for one in released)),
        "files_restored": float(sum(one.restored for one in released)),
        "files_left": float(left),
        "files_unaccounted": float(len(found.kept)),
    }
