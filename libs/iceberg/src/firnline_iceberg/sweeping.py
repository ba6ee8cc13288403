"""Removes what killed tasks and commits left: files on a write-ahead list that no snapshot has.

Lists first, then the table: "is it reachable?" is answered from a read that is younger than every
list that was seen. What a commit may yet name is too young to be swept (`Lifetimes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from firnline_domain.errors import RetryLater
from firnline_domain.events import OutputsSwept
from firnline_domain.identity import TableName, normal_path
from pyiceberg.io import FileIO

from firnline_iceberg import output_lists
from firnline_iceberg.avro import MetadataFileGone
from firnline_iceberg.foreign import ForeignFiles
from firnline_iceberg.heads import paths_since
from firnline_iceberg.output_lists import OutputList, Place
from firnline_iceberg.tables import LoadedTable

READS = 3  # of a table whose snapshots expire while it is read
YOUNG, IN_FLIGHT, UNREADABLE = "young", "in_flight", "unreadable"
OTHER_TABLE, NOT_REMOVED = "other_table", "not_removed"
GC_DISABLED, FOREIGN_FILES = "gc_disabled", "foreign_files"


class Loads(Protocol):
    """`tables.Tables`."""

    def load(self, table: TableName) -> LoadedTable:
        """Raises TableGone, RetryLater, TaskRefused."""


@dataclass(frozen=True)
class Left:
    """A list that was left alone, and why; `until_ms`: when time alone changes that."""

    path: str
    reason: str
    detail: str = ""
    until_ms: int | None = None


@dataclass(frozen=True)
class Found:
    """A list that may be swept."""

    place: Place
    listed: OutputList

    @property
    def path(self) -> str:
        return self.place.path


@dataclass
class Swept:
    """What a sweep of one table did, or would do."""

    table: TableName
    removed: list[str] = field(default_factory=list)  # outputs, as listed
    lists: list[str] = field(default_factory=list)  # removed after them
    reachable: int = 0  # outputs that a retained snapshot has
    left: list[Left] = field(default_factory=list)

    @property
    def reasons(self) -> dict[str, int]:
        """Lists left alone, by reason."""
        return dict(Counter(one.reason for one in self.left))

    def event(self, swept_by: str, at_ms: int) -> OutputsSwept:
        """What `maintenance-events` is told of it."""
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
        """When a list that was too young comes of age."""
        moments = (one.until_ms for one in self.left if one.until_ms is not None)
        return min(moments, default=None)


@dataclass(frozen=True)
class Sweeper:
    """Sweeps tables, one at a time. `storage_now_ms`: of a directory's storage, None = unknown;
    the earlier of the two clocks counts, for a clock of ours that is ahead makes all lists old."""

    tables: Loads
    now_ms: Callable[[], int]
    age_ms: int
    storage_now_ms: Callable[[FileIO, str], int | None] = output_lists.storage_now_ms
    foreign: ForeignFiles = field(default_factory=ForeignFiles)

    def sweep(self, name: TableName, dry_run: bool = False) -> Swept:
        """Raises TableGone, TaskRefused, RetryLater; what was removed until then is gone."""
        try:
            return self._sweep(name, dry_run)
        except OSError as error:
            raise RetryLater(f"storage: {error}") from error

    def _sweep(self, name: TableName, dry_run: bool) -> Swept:
        table, swept = self.tables.load(name), Swept(name)
        if table.properties.get("gc.enabled", "true").lower() == "false":
            # Its files are shared with another table (snapshot(), migrate()), which we do not see.
            swept.left = [
                Left(place.path, GC_DISABLED)
                for place in output_lists.places(table.io, folders(table))
            ]
            return swept
        due = self._due(table, swept, self.now_ms())
        if due and self.foreign.keep_back(table):
            swept.left += [Left(one.path, FOREIGN_FILES) for one in due]
            return swept
        if due and not dry_run:
            due = self._due_by_storage(table, due, swept)
        if due:
            self._clear(name, due, swept, dry_run)
        return swept

    def _due(self, table: LoadedTable, swept: Swept, now_ms: int) -> list[Found]:
        due = []
        for place in output_lists.places(table.io, folders(table)):
            found = self._read(table, place, now_ms)
            if isinstance(found, Left):
                swept.left.append(found)
            elif found is not None:
                due.append(found)
        return due

    def _due_by_storage(self, table: LoadedTable, due: list[Found], swept: Swept) -> list[Found]:
        now_ms = self.storage_now_ms(table.io, folders(table)[0])
        if now_ms is None:
            return due
        judged = [(one, self._left(table, one.listed, one.place, now_ms)) for one in due]
        swept.left += [left for _, left in judged if left is not None]
        return [one for one, left in judged if left is None]

    def _read(self, table: LoadedTable, place: Place, now_ms: int) -> Found | Left | None:
        try:
            listed = output_lists.read(table.io, place.path)
        except FileNotFoundError:
            return None  # its task came to its end just now
        except ValueError as error:
            return Left(place.path, UNREADABLE, str(error))
        return self._left(table, listed, place, now_ms) or Found(place, listed)

    def _left(
        self, table: LoadedTable, listed: OutputList, place: Place, now_ms: int
    ) -> Left | None:
        return why_left(listed, place, table.identity.uuid, self.age_ms, now_ms)

    def _clear(self, name: TableName, due: list[Found], swept: Swept, dry_run: bool) -> None:
        io, reachable = self._reachable(name, min(one.listed.start_sequence_number for one in due))
        for one in due:
            kept = [path for path in one.listed.outputs if normal_path(path) in reachable]
            swept.reachable += len(kept)
            gone = [path for path in one.listed.outputs if path not in kept]
            _try_out(io, gone, one, swept) if dry_run else _remove(io, gone, one, swept)

    def _reachable(self, name: TableName, since: int) -> tuple[FileIO, frozenset[str]]:
        """Normal paths of all files, of any status, in manifests of any retained snapshot."""
        for _ in range(READS - 1):
            try:
                return _paths(self.tables.load(name), since)
            except MetadataFileGone:
                continue
        return _paths(self.tables.load(name), since)


def why_left(
    listed: OutputList, place: Place, table_uuid: str, age_ms: int, now_ms: int
) -> Left | None:
    """Why a list is not swept; None = it may be. Its age is what writer and storage both grant."""
    if listed.table_uuid != table_uuid:
        return Left(place.path, OTHER_TABLE, listed.table_uuid)
    of_age_ms = max(listed.written_at_ms, place.stored_at_ms) + age_ms
    if now_ms < of_age_ms:
        return Left(place.path, YOUNG, until_ms=of_age_ms)
    if now_ms < listed.deadline_ms:
        return Left(place.path, IN_FLIGHT, until_ms=listed.deadline_ms)
    return None


def folders(table: LoadedTable) -> tuple[str, ...]:
    """Where lists may lie: beside the metadata files, wherever these were over time."""
    files = [table.metadata_location]
    files += [entry.metadata_file for entry in table.metadata.metadata_log]
    found = (path.rsplit("/", 1)[0] for path in files)
    return tuple({normal_path(path): path for path in found}.values())


def _paths(table: LoadedTable, since: int) -> tuple[FileIO, frozenset[str]]:
    found = {
        entry.normal
        for of_deletes in (False, True)
        for entry in paths_since(table, since, of_deletes)
    }
    return table.io, frozenset(found)


def _try_out(io: FileIO, paths: Iterable[str], one: Found, swept: Swept) -> None:
    swept.removed += [path for path in paths if io.new_input(path).exists()]
    swept.lists.append(one.path)


def _remove(io: FileIO, paths: Iterable[str], one: Found, swept: Swept) -> None:
    """The list goes last: what it names is removed, or still on it."""
    try:
        for path in paths:
            if output_lists.remove(io, [path]):
                swept.removed.append(path)
        output_lists.remove(io, [one.path])
        swept.lists.append(one.path)
    except OSError as error:
        swept.left.append(Left(one.path, NOT_REMOVED, str(error)))
