"""Delete files that apply to no data file of a snapshot any more (spec, "Scan Planning").

They come about where data files go without their deletes: an overwrite, a dropped partition, a
rewrite by an engine that leaves delete files behind. Readers open or at least plan them all the
same. Taking one out of the metadata changes no row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from firnline_domain.identity import Scope
from firnline_domain.records.results import DeleteKind
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from firnline_iceberg.metadata.column_bounds import UNKNOWN
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.metadata.partition_text import is_source_dropped
from firnline_iceberg.scan.delete_pruning import have_no_common, key_fields, may_match
from firnline_iceberg.scan.parquet_footers import AT_ONCE, Footers, Spans, read_paths
from firnline_iceberg.scan.planning import live_entries
from firnline_iceberg.table.loaded_table import LoadedTable

MAX_PAIRS = 1_000_000  # of a data file and an equality delete, that bounds are compared of: 2 s
MAX_FILES_READ = 5_000  # in one look, eight at once: a minute of S3. Deletes that need more stay


class LiveSequences:
    """Lowest data sequence number of each scope, of its files without a deletion vector, and of the
    files that deletes name: what is left to apply to."""

    def __init__(self, deletes: Sequence[DeleteFileEntry]) -> None:
        """Prepare for the data files of a snapshot. `deletes`: all its live ones."""
        self._vectors = {
            one.referenced_data_file: one.sequence_number
            for one in deletes
            if one.kind is DeleteKind.DELETION_VECTOR
        }
        self._referenced = {one.referenced_data_file for one in deletes}
        self.named: dict[str, int] = {}
        self.unmarked: set[str] = set()  # those of them that no vector is about
        self.lowest: dict[Scope, int] = {}
        self.lowest_unmarked: dict[Scope, int] = {}
        self.lowest_of_all: int | None = None
        self.files = 0

    def add_file(self, file: DataFileEntry) -> None:
        """Add a live data file."""
        self.files += 1
        number = file.sequence_number or 0  # what a broken writer left out is below all others
        _keep_lower(self.lowest, file.scope, number)
        least = self.lowest_of_all
        self.lowest_of_all = number if least is None else min(number, least)
        if not (marked := (self._vectors.get(file.normal_path) or -1) >= number):
            _keep_lower(self.lowest_unmarked, file.scope, number)
        if file.normal_path in self._referenced:
            self.named[file.normal_path] = number
            if not marked:
                self.unmarked.add(file.normal_path)

    def reached_by(self, delete: DeleteFileEntry) -> int | None:
        """Return the lowest data sequence number among the files that a delete may be about; None:
        there is none. A vector hides all position deletes of its data file."""
        if delete.is_global:
            return self.lowest_of_all
        if delete.kind is DeleteKind.EQUALITY:
            return self.lowest.get(delete.scope)
        if (path := delete.referenced_data_file) is None:
            return self.lowest_unmarked.get(delete.scope)
        hidden = delete.kind is DeleteKind.POSITION and path not in self.unmarked
        return None if hidden else self.named.get(path)


def _keep_lower(lowest: dict[Scope, int], scope: Scope, number: int) -> None:
    lowest[scope] = min(number, lowest.get(scope, number))


def dangling_deletes(table: LoadedTable, snapshot_id: int) -> tuple[DeleteFileEntry, ...]:
    """Return the delete files of a snapshot that apply to no live row. All manifests are read once;
    those of data files once more, with bounds, if few enough equality deletes are left to compare.

    Bounds choose the candidates, and the files' own footers decide. Iceberg's readers prune by
    bounds as well: if these are too narrow, readers skip a delete that still has rows, and it
    stays. A position delete that is of one file by its bounds is read.

    Raises SnapshotGone, MetadataFileGone, MetadataUnreadable, RetryLater."""
    deletes = tuple(_live_deletes(table, snapshot_id, Detail.REFERENCES))
    if not deletes or _has_unknown_partitions(table):
        return ()
    live = LiveSequences(deletes)
    for file in _live_data(table, snapshot_id, Detail.COUNTS):
        live.add_file(file)
    unnamed = dangling_by_number(deletes, live)
    found = tuple(one for one in unnamed if not one.named_by_bounds)
    found += _naming_none(table, snapshot_id, [one for one in unnamed if one.named_by_bounds])
    known = {one.key for one in unnamed}
    equality = [one for one in deletes if _is_equality(one) and one.key not in known]
    if equality and len(equality) * live.files <= MAX_PAIRS:
        kept = {one.key for one in equality}
        exact = _live_deletes(table, snapshot_id, Detail.STATS)
        data = tuple(_live_data(table, snapshot_id, Detail.STATS))
        candidates = [one for one in exact if _is_equality(one) and one.key in kept]
        found += dangling_by_footers(table, by_bounds(candidates, data, table.schema), data)
    return found


def _has_unknown_partitions(table: LoadedTable) -> bool:
    """Return True if the column behind some partition was dropped: Java then reads the value as
    null, and applies a delete of one such partition to the files of all others."""
    fields = (field for spec in table.metadata.partition_specs for field in spec.fields)
    return any(is_source_dropped(table.schema, field) for field in fields)


def dangling_by_number(
    deletes: Iterable[DeleteFileEntry], live: LiveSequences
) -> tuple[DeleteFileEntry, ...]:
    """Return those that no live data file is old enough for, or is the one that they name."""
    return tuple(one for one in deletes if _without_target(one, live))


class _Reached:
    """Data files that an equality delete may be about."""

    def __init__(self, data: Sequence[DataFileEntry]) -> None:
        self._data, self._scopes = data, dict[Scope, list[DataFileEntry]]()
        for file in data:
            self._scopes.setdefault(file.scope, []).append(file)

    def reached_by(self, delete: DeleteFileEntry) -> Iterator[DataFileEntry]:
        """Yield the data files that a delete may apply to: of its partition, or of all if it is
        global, and with a lower sequence number."""
        reached = self._data if delete.is_global else self._scopes.get(delete.scope, ())
        return (one for one in reached if (one.sequence_number or 0) < delete.sequence_number)


def by_bounds(
    deletes: Iterable[DeleteFileEntry], data: Sequence[DataFileEntry], schema: Schema
) -> tuple[DeleteFileEntry, ...]:
    """Return the equality deletes that match no row of any data file they reach, by bounds and null
    counts; all have `stats`. A delete without a sequence number, of a broken writer, may reach
    anything."""
    reached = _Reached(data)
    return tuple(
        delete
        for delete in deletes
        if delete.sequence_number is not None
        and not any(may_match(file, delete, schema) for file in reached.reached_by(delete))
    )


def dangling_by_footers(
    table: LoadedTable, deletes: Iterable[DeleteFileEntry], data: Sequence[DataFileEntry]
) -> tuple[DeleteFileEntry, ...]:
    """Return those that their own footers, and those of all data files that they reach, prove
    dangling. Raises StorageUnreachable."""
    reached, footers, found = _Reached(data), Footers(), list[DeleteFileEntry]()
    for delete in deletes:
        files, fields = (
            (delete, *reached.reached_by(delete)),
            tuple(key_fields(delete, table.schema)),
        )
        if len(footers.known) + len(footers.list_unread(files, fields)) > MAX_FILES_READ:
            continue
        own, *theirs = footers.read_all(table.io, files, fields)
        if all(_exclude_each_other(fields, one, own) for one in theirs):
            found.append(delete)
    return tuple(found)


def _exclude_each_other(fields: Iterable[NestedField], data: Spans, delete: Spans) -> bool:
    ids = [one.field_id for one in fields]
    return any(have_no_common(data.get(one, UNKNOWN), delete.get(one, UNKNOWN)) for one in ids)


def _naming_none(
    table: LoadedTable, snapshot_id: int, deletes: Sequence[DeleteFileEntry]
) -> tuple[DeleteFileEntry, ...]:
    """Return the position deletes whose rows name no live data file that is old enough. Reads
    MAX_FILES_READ of them at most."""
    few = deletes[:MAX_FILES_READ]
    if not few:
        return ()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        named = list(pool.map(lambda one: read_paths(table.io, one), few))
    by_path: dict[str, list[DeleteFileEntry]] = {}
    for delete, paths in zip(few, named, strict=True):
        for path in paths or ():
            by_path.setdefault(path, []).append(delete)
    about = {
        delete.key
        for file in _live_data(table, snapshot_id, Detail.COUNTS)
        for delete in by_path.get(file.normal_path, ())
        if (file.sequence_number or 0) <= delete.sequence_number
    }
    pairs = zip(few, named, strict=True)
    return tuple(one for one, paths in pairs if paths is not None and one.key not in about)


def _without_target(delete: DeleteFileEntry, live: LiveSequences) -> bool:
    """Return True if no live data file is in a delete's reach. Equality deletes reach lower numbers
    than their own; position deletes their own too. One without a number, of a broken writer, may
    reach anything."""
    if (number := delete.sequence_number) is None:
        return False
    lowest = live.reached_by(delete)
    if lowest is None:
        return True
    return lowest >= number if delete.kind is DeleteKind.EQUALITY else lowest > number


def _is_equality(delete: DeleteFileEntry) -> bool:
    return delete.kind is DeleteKind.EQUALITY


def _live_deletes(
    table: LoadedTable, snapshot_id: int, detail: Detail
) -> Iterator[DeleteFileEntry]:
    for entry in live_entries(table, snapshot_id, detail, deletes=True):
        if isinstance(entry, DeleteFileEntry):
            yield entry


def _live_data(table: LoadedTable, snapshot_id: int, detail: Detail) -> Iterator[DataFileEntry]:
    for entry in live_entries(table, snapshot_id, detail, deletes=False):
        if isinstance(entry, DataFileEntry):
            yield entry
