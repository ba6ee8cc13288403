"""Removes what killed tasks and commits left: files on a write-ahead list that no snapshot has.

Lists first, then the table: "is it reachable?" is answered from a read that is younger than every
list that was seen. What a commit may yet name is too young to be swept (`Lifetimes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Protocol

from firnline_domain.errors import TaskRefused
from firnline_domain.identity import TableName
from firnline_domain.records.events import OutputsSwept
from firnline_domain.records.parts.sharing import SharingRefusal
from firnline_domain.records.signing import Keyring, SignatureRefused

from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.outputs import write_ahead_list
from firnline_iceberg.outputs.unfinished_uploads import REMEDY, abort_uploads, find_unfinished
from firnline_iceberg.outputs.write_ahead_list import ListPlace
from firnline_iceberg.removal import removal
from firnline_iceberg.removal.removal import OutputRemoval, RemovalVerdict, StoredList, SweepReason
from firnline_iceberg.storage.errors import storage_error
from firnline_iceberg.table.external_files import ExternalFiles
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.locations import metadata_folders
from firnline_iceberg.table.shared_locations import KnownCatalogs, refuse_shared

READS = 3  # of a table whose snapshots expire while it is read
MAX_LISTS = 1_000  # read in one sweep; the next one reads more
MAX_READ_BYTES = 64_000_000  # of lists, in one sweep


class TableLoader(KnownCatalogs, Protocol):
    """`catalog_client.Tables`."""

    def load(self, table: TableName) -> LoadedTable:
        """Load a table. Raises TableGone, RetryLater, TaskRefused."""


@dataclass(frozen=True)
class SkippedList:
    """A list that was left alone, and why; `until_ms`: when time alone changes that."""

    path: str
    reason: SweepReason
    detail: str = ""
    until_ms: int | None = None


@dataclass
class Swept:
    """Result of a sweep of one table, real or dry."""

    table: TableName
    removed: list[str] = field(default_factory=list)  # outputs, as listed
    lists: list[str] = field(default_factory=list)  # removed after them
    reachable: int = 0  # outputs that a retained snapshot has
    left: list[SkippedList] = field(default_factory=list)
    uploads: list[str] = field(default_factory=list)  # outputs whose upload was given up
    uploads_unknown: str = ""  # why some of them may have one yet

    @property
    def skipped_by_reason(self) -> dict[str, int]:
        """Lists left alone, by reason."""
        return dict(Counter(str(one.reason) for one in self.left))

    def to_event(self, swept_by: str, at_ms: int) -> OutputsSwept:
        """Return the event for `maintenance-events`."""
        return OutputsSwept(
            table=self.table,
            lists_removed=len(self.lists),
            files_removed=len(self.removed),
            files_reachable=self.reachable,
            left=self.skipped_by_reason,
            swept_by=swept_by,
            swept_at_ms=at_ms,
        )

    @property
    def due_ms(self) -> int | None:
        """Return when the first list that was too young is old enough, in ms since 1970; None if
        none was."""
        moments = (one.until_ms for one in self.left if one.until_ms is not None)
        return min(moments, default=None)


@dataclass(frozen=True)
class OutputSweeper:
    """Sweeps tables, one at a time. `storage_now_ms`: of a table's storage, None = unknown; the
    earlier of the two clocks counts, for a clock of ours that is ahead makes all lists old."""

    tables: TableLoader
    now_ms: Callable[[], int]
    age_ms: int
    storage_now_ms: Callable[[LoadedTable], int | None] = removal.storage_now_ms
    external_files: ExternalFiles = field(default_factory=ExternalFiles)
    keys: Keyring = write_ahead_list.UNSIGNED

    def sweep(self, name: TableName, dry_run: bool = False) -> Swept:
        """Remove the outputs of runs that never committed. Raises TableGone, TaskRefused,
        RetryLater; removals until then are final."""
        try:
            return self._sweep_table(name, dry_run)
        except OSError as error:
            raise storage_error("storage", error) from error

    def _sweep_table(self, name: TableName, dry_run: bool) -> Swept:
        table, swept = self.tables.load(name), Swept(name)
        due = self._due_lists(table, swept, self.now_ms())
        if due and self.external_files.keep_back(table):
            swept.left += [SkippedList(one.path, SweepReason.EXTERNAL_FILES) for one in due]
            return swept
        if due and (shared := self._sharing_reason(table)):
            swept.left += [SkippedList(one.path, *shared) for one in due]
            return swept
        if due and not dry_run:
            due = self._skip_young_by_storage(table, due, swept)
        if removal.shares_files(table):
            due = _keep_never_sent(table, due, swept)
        if due:
            self._clear_lists(name, due, swept, dry_run)
        return swept

    def _sharing_reason(self, table: LoadedTable) -> tuple[SweepReason, str] | None:
        try:
            refuse_shared(self.tables, table)
        except TaskRefused as refused:
            if refused.reason not in list(SharingRefusal):
                raise
            return SweepReason(refused.reason), str(refused)
        return None

    def _due_lists(self, table: LoadedTable, swept: Swept, now_ms: int) -> list[StoredList]:
        """Return the lists that are old enough, oldest first; those that are young by the storage's
        clock are not read."""
        due: list[StoredList] = []
        read, left = 0, MAX_READ_BYTES
        for place in sorted(_list_places(table), key=lambda one: one.stored_at_ms):
            if now_ms < (of_age_ms := place.stored_at_ms + self.age_ms):
                swept.left.append(SkippedList(place.path, SweepReason.YOUNG, until_ms=of_age_ms))
                continue
            read, left = read + 1, left - min(place.bytes, write_ahead_list.MAX_BYTES)
            if read > MAX_LISTS or left < 0:
                break
            found = self._read_list(table, place, now_ms)
            if isinstance(found, SkippedList):
                swept.left.append(found)
            elif found is not None:
                due.append(found)
        return due

    def _skip_young_by_storage(
        self, table: LoadedTable, due: list[StoredList], swept: Swept
    ) -> list[StoredList]:
        """Return the lists that are old enough by the storage's clock too; add the others to
        `swept.left`."""
        now_ms = self.storage_now_ms(table)
        if now_ms is None:
            return due
        young = {one.path: self._skip_if_young(one, now_ms) for one in due}
        swept.left += [left for left in young.values() if left is not None]
        return [one for one in due if young[one.path] is None]

    def _read_list(
        self, table: LoadedTable, place: ListPlace, now_ms: int
    ) -> StoredList | SkippedList | None:
        if place.bytes > write_ahead_list.MAX_BYTES:
            return SkippedList(place.path, SweepReason.UNREADABLE, f"{place.bytes} bytes")
        try:
            listed = write_ahead_list.read_list(table.io, place.path, self.keys)
        except FileNotFoundError:
            return None  # its task came to its end just now
        except SignatureRefused as refused:
            return SkippedList(place.path, SweepReason.NOT_SIGNED, str(refused))
        except ValueError as error:
            return SkippedList(place.path, SweepReason.UNREADABLE, str(error))
        if listed.table_key != table.identity.key:
            return SkippedList(place.path, SweepReason.OTHER_TABLE, listed.table_key[:80])
        run = removal.run_of_list(table, listed, place)
        if run is None:
            return SkippedList(
                place.path, SweepReason.INVALID_OUTPUTS, "not the name of this task's list"
            )
        found = StoredList(place, listed, run)
        return self._skip_if_young(found, now_ms) or found

    def _skip_if_young(self, stored: StoredList, now_ms: int) -> SkippedList | None:
        why = removal.too_young(stored.listed, stored.place, self.age_ms, now_ms)
        return why and SkippedList(stored.path, why[0], "", why[1])

    def _clear_lists(
        self, name: TableName, due: list[StoredList], swept: Swept, dry_run: bool
    ) -> None:
        decided = self._read_reachable(name, due)
        for one in due:
            verdicts = {path: decided.verdict_on(one, path) for path in one.listed.outputs}
            found = Counter(verdicts.values())
            wrong = found.keys() - {RemovalVerdict.MAY_GO, RemovalVerdict.REACHABLE}
            if wrong:
                path = next(path for path in verdicts if verdicts[path] in wrong)
                text = f"{verdicts[path]}: {path[:300]}"
                swept.left.append(SkippedList(one.path, SweepReason.INVALID_OUTPUTS, text))
                continue
            swept.reachable += found[RemovalVerdict.REACHABLE]
            gone = [path for path in verdicts if verdicts[path] is RemovalVerdict.MAY_GO]
            (_preview_removal if dry_run else _remove_outputs)(decided, one, gone, swept)

    def _read_reachable(self, name: TableName, due: list[StoredList]) -> OutputRemoval:
        """Load the table, which is then younger than the lists, and find which of their outputs it
        reaches. Retried if an expiry removes what is being read."""
        for _ in range(READS - 1):
            try:
                return OutputRemoval.read_reachable(self.tables.load(name), due)
            except MetadataFileGone:
                continue
        return OutputRemoval.read_reachable(self.tables.load(name), due)


def _keep_never_sent(table: LoadedTable, due: list[StoredList], swept: Swept) -> list[StoredList]:
    """Return, marked so, the lists of which no commit was ever sent; add the others to
    `swept.left`. For tables that may share files."""
    kept = list[StoredList]()
    for one in due:
        if why := removal.why_shared(table, one):
            swept.left.append(SkippedList(one.path, why))
        else:
            kept.append(replace(one, never_sent=True))
    return kept


def _list_places(table: LoadedTable) -> list[ListPlace]:
    return list(write_ahead_list.list_places(table.io, metadata_folders(table)))


def _preview_removal(
    decided: OutputRemoval, stored: StoredList, paths: Collection[str], swept: Swept
) -> None:
    """Add to `swept` the existing files, the list and the unfinished uploads that would be removed.
    Remove nothing."""
    io = decided.table.io
    swept.removed += [path for path in paths if io.new_input(path).exists()]
    swept.lists.append(stored.path)
    try:
        swept.uploads += [one.path for one in find_unfinished(io, paths)]
    except PermissionError as error:
        swept.uploads_unknown = f"{error}; {REMEDY}"


def _remove_outputs(
    decided: OutputRemoval, stored: StoredList, paths: Collection[str], swept: Swept
) -> None:
    """Remove outputs. The list goes last: what it names is removed, or still on it."""
    try:
        for path in paths:
            if decided.remove_output(stored, path):
                swept.removed.append(path)
        gone, unknown = abort_uploads(decided.table.io, paths)
        swept.uploads += gone
        swept.uploads_unknown = swept.uploads_unknown or unknown
        decided.remove_list(stored)
        swept.lists.append(stored.path)
    except OSError as error:
        swept.left.append(SkippedList(stored.path, SweepReason.NOT_REMOVED, str(error)))
