"""The state of a table before its head, where the catalog shows the head alone. Such a catalog
leaves a metadata file for each state; which of them was the one before, the head's own entries say.

Whoever may write beside the metadata files can leave one that looks like an earlier state. So what
a file says is believed only where its files are, by path and sequence number, those of the head
without what the head added and with what it took out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from firnline_domain.errors import TaskRefused
from firnline_domain.identity import MAIN
from pyarrow.fs import FileSelector
from pyiceberg.table.snapshots import Snapshot

from firnline_iceberg.commit.pinned_head import changed_by
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.scan.planning import live_entries
from firnline_iceberg.storage.errors import storage_error
from firnline_iceberg.storage.file_io import file_system
from firnline_iceberg.storage.paths import folder_of
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.reachability import metadata_file

SUFFIX = ".metadata.json"
MAX_LOOKED = 64  # metadata files, the newest first; commits that did not land leave some as well
MAX_BYTES = 64_000_000  # of one
Files = frozenset[tuple[str, int | None, int]]  # path, offset of a vector, data sequence number


@dataclass(frozen=True)
class EarlierState:
    """`metadata_location`: the file in which `snapshot` is current."""

    snapshot: Snapshot
    metadata_location: str


def find_previous_state(table: LoadedTable, head: int) -> EarlierState | None:
    """Return what `head`, the newest snapshot, was made from; None if no file is left that
    proves to be that. Raises SnapshotGone, MetadataFileGone, RetryLater."""
    number = table.snapshot(head).sequence_number or 0
    wanted: Files | None = None
    for location in _metadata_locations(table):
        found = _read_state(table, location)
        snapshot = None if found is None else found.metadata.current_snapshot()
        if found is None or snapshot is None or (snapshot.sequence_number or 0) >= number:
            continue
        wanted = _files_before(table, head) if wanted is None else wanted
        if _live_files(found, snapshot.snapshot_id) == wanted:
            return EarlierState(snapshot, location)
    return None


def _metadata_locations(table: LoadedTable) -> Iterator[str]:
    """Yield the metadata files next to the one in force, the newest first."""
    folder = folder_of(table.metadata_location)
    try:
        files, path = file_system(table.io, folder)
        listed = files.get_file_info(FileSelector(path, allow_not_found=True))
    except OSError as error:
        raise storage_error("storage", error) from error
    own = table.metadata_location.rpartition("/")[2]
    known = [
        one
        for one in listed
        if one.is_file and one.base_name.endswith(SUFFIX) and one.base_name != own
        if (one.size or 0) <= MAX_BYTES
    ]
    known.sort(key=lambda one: one.mtime_ns or 0, reverse=True)
    yield from (f"{folder}/{one.base_name}" for one in known[:MAX_LOOKED])


def _read_state(table: LoadedTable, location: str) -> LoadedTable | None:
    """Return the table as a file has it; None if it is no state of this table, or gone by
    now."""
    then = replace(table, metadata_location=location, hidden=())
    try:
        return replace(then, metadata=metadata_file(then))
    except TaskRefused:
        return None


def _files_before(table: LoadedTable, head: int) -> Files:
    changed = list(changed_by(table, head))
    added = frozenset(one.key_and_number for one in changed if one.is_live)
    removed = frozenset(one.key_and_number for one in changed if not one.is_live)
    return (_live_files(table, head) - added) | removed


def _live_files(table: LoadedTable, snapshot_id: int) -> Files:
    try:
        entries = live_entries(table, snapshot_id, Detail.REFERENCES)
        return frozenset(one.key_and_number for one in entries)
    except MetadataFileGone:
        return frozenset()  # of a state that the catalog has let go


def knowing_before(table: LoadedTable, ref: str) -> tuple[LoadedTable, EarlierState] | None:
    """Return the table together with the snapshot before its head; None if that is not found."""
    head = table.head_id(ref)
    if ref != MAIN or head is None or (found := find_previous_state(table, head)) is None:
        return None
    return table.with_hidden_snapshots([found.snapshot]), found
