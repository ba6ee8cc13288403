"""Live files of a snapshot and the delete files that apply to each (spec, "Scan Planning").

Pure on entries, except `live_files` and `live_entries`, which read them. Held against the plan
of Java itself by `tests/integration/test_planning_oracle.py`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from firnline_domain.identity import Scope
from firnline_domain.records.results import DeleteKind

from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry, FileEntry
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.table.loaded_table import LoadedTable

_sequence_number = attrgetter("sequence_number")
Deletes = tuple[DeleteFileEntry, ...]


class DeleteIndex:
    """Index of the delete files that apply to a data file (iceberg-rules 4.1, `DeleteFileIndex`).

    Bounds are not looked at: what applies here may still match no row (see `delete_pruning`)."""

    def __init__(self, deletes: Iterable[DeleteFileEntry]) -> None:
        self._global: list[DeleteFileEntry] = []
        self._equality: dict[Scope, list[DeleteFileEntry]] = defaultdict(list)
        self._position: dict[Scope, list[DeleteFileEntry]] = defaultdict(list)
        self._by_path: dict[str, list[DeleteFileEntry]] = defaultdict(list)
        self._vectors: dict[str, list[DeleteFileEntry]] = defaultdict(list)
        for delete in sorted(deletes, key=_sequence_number):
            self._lists_for(delete).append(delete)

    def _lists_for(self, delete: DeleteFileEntry) -> list[DeleteFileEntry]:
        """Return the list of the index that a delete belongs to."""
        if delete.is_global:
            return self._global
        if delete.kind is DeleteKind.EQUALITY:
            return self._equality[delete.scope]
        if delete.referenced_data_file is None:
            return self._position[delete.scope]
        places = self._vectors if delete.kind is DeleteKind.DELETION_VECTOR else self._by_path
        return places[delete.referenced_data_file]

    def equality_deletes(self, data: DataFileEntry) -> Deletes:
        """Return equality deletes: data sequence number strictly below the delete's."""
        found = (self._global, self._equality.get(data.scope, []))
        return tuple(d for deletes in found for d in _select_later(deletes, data.sequence_number))

    def position_deletes(self, data: DataFileEntry) -> Deletes:
        """Return position deletes and DVs: data sequence number up to the delete's.

        A DV hides every position-delete file of its data file."""
        if vectors := self._applying_to(self._vectors.get(data.normal_path), data):
            return vectors
        of_partition = self._applying_to(self._position.get(data.scope), data)
        return of_partition + self._applying_to(self._by_path.get(data.normal_path), data)

    @staticmethod
    def _applying_to(deletes: list[DeleteFileEntry] | None, data: DataFileEntry) -> Deletes:
        if not deletes:
            return ()
        return tuple(deletes[bisect_left(deletes, data.sequence_number, key=_sequence_number) :])

    def for_data_file(self, data: DataFileEntry) -> Deletes:
        """Return all deletes that apply to a data file: global ones, those of its partition, and
        positional ones, each by sequence number."""
        return self.equality_deletes(data) + self.position_deletes(data)


def _select_later(deletes: list[DeleteFileEntry], number: int) -> list[DeleteFileEntry]:
    """Return the deletes with a sequence number above `number`; they are sorted by it."""
    return deletes[bisect_right(deletes, number, key=_sequence_number) :]


@dataclass(frozen=True)
class PlannedFile:
    """A data file with all delete files that apply to it."""

    data: DataFileEntry
    deletes: Deletes


@dataclass(frozen=True)
class LiveFiles:
    """Every live file of one snapshot."""

    snapshot_id: int | None
    data: tuple[DataFileEntry, ...]
    deletes: Deletes

    @cached_property
    def delete_index(self) -> DeleteIndex:
        """Return the index of the snapshot's deletes, built at the first call."""
        return DeleteIndex(self.deletes)

    @cached_property
    def _by_scope(self) -> dict[Scope, list[DataFileEntry]]:
        scopes: dict[Scope, list[DataFileEntry]] = defaultdict(list)
        for file in self.data:
            scopes[file.scope].append(file)
        return dict(scopes)

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Scopes that hold data files, in order."""
        return tuple(sorted(self._by_scope))

    def files_of_scope(self, scope: Scope) -> tuple[PlannedFile, ...]:
        """Return the data files of one spec and partition, each with its deletes."""
        files = self._by_scope.get(scope, ())
        return tuple(PlannedFile(f, self.delete_index.for_data_file(f)) for f in files)

    def data_file(self, path: str) -> DataFileEntry | None:
        """Return the live data file of a normalised path, else None."""
        return self._by_path.get(path)

    @cached_property
    def repeated_paths(self) -> frozenset[str]:
        """Return the normal paths of data files, and of delete files, that are live more than once.
        Vectors share a path and differ in their offset."""
        found = set[str]()
        if len(self._by_path) < len(self.data):
            found |= _find_repeated((file.normal_path, file.normal_path) for file in self.data)
        return frozenset(
            found | _find_repeated((file.normal_path, file.key) for file in self.deletes)
        )

    @cached_property
    def _by_path(self) -> dict[str, DataFileEntry]:
        return {file.normal_path: file for file in self.data}


def _find_repeated(keys: Iterable[tuple[str, object]]) -> set[str]:
    """Return the paths whose key occurs twice in these pairs."""
    seen, found = set[object](), set[str]()
    for path, key in keys:
        if key in seen:
            found.add(path)
        seen.add(key)
    return found


def live_files(
    table: LoadedTable, snapshot_id: int | None, detail: Detail = Detail.REFERENCES
) -> LiveFiles:
    """Return all live entries of a snapshot, each manifest read once; none for None.

    Raises SnapshotGone, MetadataFileGone, RetryLater."""
    found = () if snapshot_id is None else tuple(live_entries(table, snapshot_id, detail))
    return LiveFiles(
        snapshot_id,
        tuple(entry for entry in found if isinstance(entry, DataFileEntry)),
        tuple(entry for entry in found if isinstance(entry, DeleteFileEntry)),
    )


def live_entries(
    table: LoadedTable, snapshot_id: int, detail: Detail, deletes: bool | None = None
) -> Iterator[FileEntry]:
    """Yield the live entries of a snapshot one by one. `deletes`: True = only delete files, False =
    only data files. Raises the errors of `live_files`."""
    for manifest in table.manifests_of(table.snapshot(snapshot_id)):
        wanted = deletes is None or manifest.holds_deletes == deletes
        if wanted and not manifest.holds_no_live:
            yield from (entry for entry in table.entries_of(manifest, detail) if entry.is_live)
