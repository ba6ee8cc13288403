"""Find which of a few files a table can still reach, from its files, not from records. Read from
its files, not from what anybody says.

The metadata file is the truth: an answer of the catalog may leave snapshots out. Of every manifest
that any retained snapshot has, the bytes are searched for the files' names: a manifest of 8 MB in
about 70 ms, without decoding its entries, so in whatever form an entry holds a path. Names are
unique, so it does not matter which scheme or host a path is spelled with."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

from firnline_domain.errors import TaskRefused
from pyiceberg.exceptions import ValidationError
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from firnline_iceberg.metadata.avro_reader import (
    MetadataFileGone,
    MetadataUnreadable,
    find_names,
    read_records,
)
from firnline_iceberg.metadata.field_ids import LIST_NAMES
from firnline_iceberg.storage.errors import storage_error
from firnline_iceberg.storage.paths import PREFIX, file_name
from firnline_iceberg.table.loaded_table import LoadedTable

_UNREADABLE = (
    *(ValueError, TypeError, KeyError, AttributeError, EOFError, NotImplementedError),
    *(ValidationError, zlib.error),
)
THREADS = 8  # each holds one manifest at a time
T = TypeVar("T")
U = TypeVar("U")


def find_reachable(
    table: LoadedTable, names: Collection[str], since: int | None = None, entries: bool = True
) -> frozenset[str]:
    """Return those of these file names that anything has which the table retains: a snapshot,
    referenced or not, in its manifest list or in an entry of any status; statistics; a metadata
    file.

    `since`: a sequence number of the table that this process has read from it before it made the
    names. What is not younger cannot have them, and is not read. Never a number that came from
    outside. `entries` False: the names are of manifests and manifest lists.

    Raises MetadataFileGone (expired while it was read: load again), RetryLater, TaskRefused."""
    truth = metadata_file(table)
    snapshots = _all_snapshots(table.metadata, truth)
    lists = (snapshot.manifest_list for snapshot in snapshots)
    own = chain(named_by_metadata(table, truth), lists)
    found = set(names) & {file_name(path) for path in own}
    numbered = since is not None and table.format_version > 1 and truth.format_version > 1
    if numbered:
        snapshots = [
            snapshot for snapshot in snapshots if _sequence_number(snapshot) > (since or 0)
        ]
    manifests: set[str] = set()
    with ThreadPoolExecutor(THREADS) as pool:
        for paths in map_in_parallel(
            pool, lambda one: _new_manifests(table, one, since, numbered), snapshots
        ):
            manifests |= paths
        found |= set(names) & {file_name(path) for path in manifests}
        if not entries or found >= set(names):
            return frozenset(found)
        wanted = {name.encode() for name in names if name.startswith(PREFIX)}
        for inside in map_in_parallel(
            pool, lambda path: find_names(table.io, path, wanted), manifests
        ):
            found |= {name.decode() for name in inside}
    return frozenset(found)


def metadata_file(table: LoadedTable) -> TableMetadata:
    """Return the table's metadata in its storage. Raises MetadataFileGone, RetryLater, and
    TaskRefused if it is another table's or unreadable."""
    path = table.metadata_location
    try:
        found = FromInputFile.table_metadata(table.io.new_input(path))
    except FileNotFoundError as error:
        raise MetadataFileGone(path) from error
    except OSError as error:
        raise storage_error(f"cannot read {path}", error) from error
    except _UNREADABLE as error:
        raise MetadataUnreadable(path, error) from error
    if found.table_uuid != table.metadata.table_uuid:
        raise TaskRefused("metadata_of_another", f"{path} is of table {found.table_uuid}")
    return found


def refuse_if_hidden(table: LoadedTable) -> None:
    """Refuse a table whose metadata file has a snapshot that the catalog's answer lacks, before
    another engine removes files by the catalog's answer. Raises TaskRefused, and the errors of
    `metadata_file`."""
    hidden = [
        snapshot
        for snapshot in metadata_file(table).snapshots
        if not table.retains(snapshot.snapshot_id)
    ]
    if hidden:
        text = f"the catalog tells nothing of {len(hidden)} snapshots that the metadata file has"
        raise TaskRefused("snapshots_hidden", text)


def _all_snapshots(loaded: TableMetadata, stored: TableMetadata) -> list[Snapshot]:
    return list({one.snapshot_id: one for one in (*loaded.snapshots, *stored.snapshots)}.values())


def named_by_metadata(table: LoadedTable, truth: TableMetadata) -> Iterator[str]:
    """Yield the paths of metadata and statistics files in the metadata itself, both in the
    catalog's answer and in the storage (`metadata_file`)."""
    yield table.metadata_location
    for metadata in (table.metadata, truth):
        yield from (one.metadata_file for one in metadata.metadata_log)
        statistics = chain(metadata.statistics, metadata.partition_statistics)
        yield from (file.statistics_path for file in statistics)


def _sequence_number(snapshot: Snapshot) -> int:
    return snapshot.sequence_number or 0


def _new_manifests(
    table: LoadedTable, snapshot: Snapshot, since: int | None, numbered: bool
) -> set[str]:
    rows = read_records(table.io, snapshot.manifest_list, LIST_NAMES)
    return {
        row["path"]
        for row in rows
        if not numbered or (row.get("sequence_number") or 0) > (since or 0)
    }


def map_in_parallel(
    pool: ThreadPoolExecutor, ask: Callable[[T], U], things: Iterable[T]
) -> Iterator[U]:
    """Map in parallel and in order, at most `2 * THREADS` things in advance of the caller."""
    left = iter(things)
    while few := list(islice(left, 2 * THREADS)):
        yield from pool.map(ask, few)
