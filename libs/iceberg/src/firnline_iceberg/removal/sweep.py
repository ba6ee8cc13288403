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
from firnline_iceberg.outputs.unfinished_uploads import REMEDY, give_up_all, unfinished
from firnline_iceberg.outputs.write_ahead_list import Place
from firnline_iceberg.removal import removal
from firnline_iceberg.removal.removal import Reason, Removal, StoredList, Verdict
from firnline_iceberg.storage.errors import unreachable
from firnline_iceberg.table.external_files import ExternalFiles
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.locations import metadata_folders
from firnline_iceberg.table.shared_locations import Catalogs, refuse_shared

READS = 3  # of a table whose snapshots expire while it is read
MAX_LISTS = 1_000  # read in one sweep; the next one reads more
MAX_READ_BYTES = 64_000_000  # of lists, in one sweep


class Loads(Catalogs, Protocol):
    """`catalog_client.Tables`."""

    def load(self, table: TableName) -> LoadedTable:
        """Raises TableGone, RetryLater, TaskRefused."""


@dataclass(frozen=True)
class Left:
    """A list that was left alone, and why; `until_ms`: when time alone changes that."""

    path: str
    reason: Reason
    detail: str = ""
    until_ms: int | None = None


@dataclass
class Swept:
    """Result of a sweep of one table, real or dry."""

    table: TableName
    removed: list[str] = field(default_factory=list)  # outputs, as listed
    lists: list[str] = field(default_factory=list)  # removed after them
    reachable: int = 0  # outputs that a retained snapshot has
    left: list[Left] = field(default_factory=list)
    uploads: list[str] = field(default_factory=list)  # outputs whose upload was given up
    uploads_unknown: str = ""  # why some of them may have one yet

    @property
    def reasons(self) -> dict[str, int]:
        """Lists left alone, by reason."""
        return dict(Counter(str(one.reason) for one in self.left))

    def event(self, swept_by: str, at_ms: int) -> OutputsSwept:
        """Return the event for `maintenance-events`."""
        return OutputsSwept(
            table=self.table,
            lists_removed=len(self.lists),
            files_removed=len(self.removed),
            files_reachable=self.reachable,
            left=self.reasons,
            swept_by=swept_by,
            swept_at_ms=at_ms,
        )

    @property
    def due_ms(self) -> int | None:
        """Return when a list that was too young comes of age."""
        moments = (one.until_ms for one in self.left if one.until_ms is not None)
        return min(moments, default=None)


@dataclass(frozen=True)
class Sweeper:
    """Sweeps tables, one at a time. `storage_now_ms`: of a table's storage, None = unknown; the
    earlier of the two clocks counts, for a clock of ours that is ahead makes all lists old."""

    tables: Loads
    now_ms: Callable[[], int]
    age_ms: int
    storage_now_ms: Callable[[LoadedTable], int | None] = removal.storage_now_ms
    external_files: ExternalFiles = field(default_factory=ExternalFiles)
    keys: Keyring = write_ahead_list.UNSIGNED

    def sweep(self, name: TableName, dry_run: bool = False) -> Swept:
        """Raises TableGone, TaskRefused, RetryLater; what was removed until then is gone."""
        try:
            return self._sweep(name, dry_run)
        except OSError as error:
            raise unreachable("storage", error) from error

    def _sweep(self, name: TableName, dry_run: bool) -> Swept:
        table, swept = self.tables.load(name), Swept(name)
        due = self._due(table, swept, self.now_ms())
        if due and self.external_files.keep_back(table):
            swept.left += [Left(one.path, Reason.EXTERNAL_FILES) for one in due]
            return swept
        if due and (shared := self._shared(table)):
            swept.left += [Left(one.path, *shared) for one in due]
            return swept
        if due and not dry_run:
            due = self._due_by_storage(table, due, swept)
        if removal.shares_files(table):
            due = _never_sent(table, due, swept)
        if due:
            self._clear(name, due, swept, dry_run)
        return swept

    def _shared(self, table: LoadedTable) -> tuple[Reason, str] | None:
        try:
            refuse_shared(self.tables, table)
        except TaskRefused as refused:
            if refused.reason not in list(SharingRefusal):
                raise
            return Reason(refused.reason), str(refused)
        return None

    def _due(self, table: LoadedTable, swept: Swept, now_ms: int) -> list[StoredList]:
        """The oldest lists first; those that are young by the storage's word are not read."""
        due: list[StoredList] = []
        read, left = 0, MAX_READ_BYTES
        for place in sorted(_places(table), key=lambda one: one.stored_at_ms):
            if now_ms < (of_age_ms := place.stored_at_ms + self.age_ms):
                swept.left.append(Left(place.path, Reason.YOUNG, until_ms=of_age_ms))
                continue
            read, left = read + 1, left - min(place.bytes, write_ahead_list.MAX_BYTES)
            if read > MAX_LISTS or left < 0:
                break
            found = self._read(table, place, now_ms)
            if isinstance(found, Left):
                swept.left.append(found)
            elif found is not None:
                due.append(found)
        return due

    def _due_by_storage(
        self, table: LoadedTable, due: list[StoredList], swept: Swept
    ) -> list[StoredList]:
        now_ms = self.storage_now_ms(table)
        if now_ms is None:
            return due
        young = {one.path: self._young(one, now_ms) for one in due}
        swept.left += [left for left in young.values() if left is not None]
        return [one for one in due if young[one.path] is None]

    def _read(self, table: LoadedTable, place: Place, now_ms: int) -> StoredList | Left | None:
        if place.bytes > write_ahead_list.MAX_BYTES:
            return Left(place.path, Reason.UNREADABLE, f"{place.bytes} bytes")
        try:
            listed = write_ahead_list.read(table.io, place.path, self.keys)
        except FileNotFoundError:
            return None  # its task came to its end just now
        except SignatureRefused as refused:
            return Left(place.path, Reason.NOT_SIGNED, str(refused))
        except ValueError as error:
            return Left(place.path, Reason.UNREADABLE, str(error))
        if listed.table_key != table.identity.key:
            return Left(place.path, Reason.OTHER_TABLE, listed.table_key[:80])
        run = removal.run_of_list(table, listed, place)
        if run is None:
            return Left(place.path, Reason.INVALID_OUTPUTS, "not the name of this task's list")
        found = StoredList(place, listed, run)
        return self._young(found, now_ms) or found

    def _young(self, stored: StoredList, now_ms: int) -> Left | None:
        why = removal.too_young(stored.listed, stored.place, self.age_ms, now_ms)
        return why and Left(stored.path, why[0], "", why[1])

    def _clear(self, name: TableName, due: list[StoredList], swept: Swept, dry_run: bool) -> None:
        decided = self._read_all(name, due)
        for one in due:
            verdicts = {path: decided.verdict(one, path) for path in one.listed.outputs}
            found = Counter(verdicts.values())
            wrong = found.keys() - {Verdict.MAY_GO, Verdict.REACHABLE}
            if wrong:
                path = next(path for path in verdicts if verdicts[path] in wrong)
                text = f"{verdicts[path]}: {path[:300]}"
                swept.left.append(Left(one.path, Reason.INVALID_OUTPUTS, text))
                continue
            swept.reachable += found[Verdict.REACHABLE]
            gone = [path for path in verdicts if verdicts[path] is Verdict.MAY_GO]
            (_try_out if dry_run else _remove)(decided, one, gone, swept)

    def _read_all(self, name: TableName, due: list[StoredList]) -> Removal:
        """Read the table, younger than the lists."""
        for _ in range(READS - 1):
            try:
                return Removal.of(self.tables.load(name), due)
            except MetadataFileGone:
                continue
        return Removal.of(self.tables.load(name), due)


def _never_sent(table: LoadedTable, due: list[StoredList], swept: Swept) -> list[StoredList]:
    kept = list[StoredList]()
    for one in due:
        if why := removal.why_shared(table, one):
            swept.left.append(Left(one.path, why))
        else:
            kept.append(replace(one, never_sent=True))
    return kept


def _places(table: LoadedTable) -> list[Place]:
    return list(write_ahead_list.places(table.io, metadata_folders(table)))


def _try_out(decided: Removal, stored: StoredList, paths: Collection[str], swept: Swept) -> None:
    io = decided.table.io
    swept.removed += [path for path in paths if io.new_input(path).exists()]
    swept.lists.append(stored.path)
    try:
        swept.uploads += [one.path for one in unfinished(io, paths)]
    except PermissionError as error:
        swept.uploads_unknown = f"{error}; {REMEDY}"


def _remove(decided: Removal, stored: StoredList, paths: Collection[str], swept: Swept) -> None:
    """Remove outputs. The list goes last: what it names is removed, or still on it."""
    try:
        for path in paths:
            if decided.remove(stored, path):
                swept.removed.append(path)
        gone, unknown = give_up_all(decided.table.io, paths)
        swept.uploads += gone
        swept.uploads_unknown = swept.uploads_unknown or unknown
        decided.remove_list(stored)
        swept.lists.append(stored.path)
    except OSError as error:
        swept.left.append(Left(stored.path, Reason.NOT_REMOVED, str(error)))
