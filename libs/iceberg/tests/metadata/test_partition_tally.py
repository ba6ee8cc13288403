from __future__ import annotations

from typing import Any

from firnline_domain.identity import MAX_PARTITION, Scope
from firnline_domain.records.events import PartitionChange
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry, EntryStatus
from firnline_iceberg.metadata.partition_tally import partition_changes

BASE: dict[str, Any] = {
    "path": "p",
    "manifest_path": "m",
    "snapshot_id": 1,
    "file_sequence_number": 1,
    "spec_id": 0,
    "format": "PARQUET",
}


def data(
    size: int, at: str = "[1]", status: EntryStatus = EntryStatus.ADDED, seq: int = 1
) -> DataFileEntry:
    return DataFileEntry(
        bytes=size, records=10, partition=at, status=status, sequence_number=seq, **BASE
    )


def delete(kind: DeleteKind, seq: int = 1, size: int | None = None) -> DeleteFileEntry:
    return DeleteFileEntry(
        kind=kind,
        bytes=5,
        records=3,
        partition="[1]",
        status=EntryStatus.ADDED,
        sequence_number=seq,
        content_size=size,
        **BASE,
    )


def only(changes: tuple[PartitionChange, ...]) -> PartitionChange:
    (change,) = changes
    return change


def test_data_files_count_by_size_against_the_target() -> None:
    entries = [data(124), data(125), data(750), data(1800), data(1801)]
    assert only(partition_changes(entries, 1000)).added == FileTally(
        fragments=Tally(1, 10, 124),
        undersized=Tally(1, 10, 125),
        on_target=Tally(2, 20, 2550),
        oversized=Tally(1, 10, 1801),
    )


def test_deletes_count_by_kind_and_a_vector_by_its_own_bytes() -> None:
    deletes = [
        delete(DeleteKind.EQUALITY),
        delete(DeleteKind.POSITION),
        delete(DeleteKind.DELETION_VECTOR, size=2),
        delete(DeleteKind.DELETION_VECTOR, size=1),
    ]
    assert only(partition_changes(deletes, 1000)).added == FileTally(
        equality_deletes=Tally(1, 3, 5),
        position_deletes=Tally(1, 3, 5),
        deletion_vectors=Tally(2, 6, 3),
    )


def test_removed_and_added_stand_apart_and_partitions_too() -> None:
    gone = data(100, "[2]", EntryStatus.DELETED, seq=9)
    first, second = partition_changes([gone, data(100), data(100, "[2]", seq=4)], 1000)
    assert (first.scope, second.scope) == (Scope(0, "[1]"), Scope(0, "[2]"))
    assert (second.added.fragments.files, second.removed.fragments.files) == (1, 1)
    assert (second.data_sequence_min, second.data_sequence_max) == (4, 4)


def test_sequence_ranges_are_of_what_was_added() -> None:
    entries = [data(1, seq=3), data(1, seq=7), delete(DeleteKind.EQUALITY, 8)]
    change = only(partition_changes(entries, 1000))
    assert (change.data_sequence_min, change.data_sequence_max) == (3, 7)
    assert change.delete_sequence_max == 8


def test_a_partition_of_a_megabyte_is_counted_under_a_digest() -> None:
    """Its text would be in every key and record; two that begin alike are still two."""
    one, other = (f'["{"x" * 1_000_000}{end}"]' for end in "ab")
    changes = partition_changes([data(1, one), data(1, other), data(1, one)], 1000)
    assert sorted(change.added.all_data.files for change in changes) == [1, 2]
    assert all(change.scope.is_abbreviated for change in changes)
    assert all(len(change.scope.partition) < 200 for change in changes)
    longest = '["' + "y" * (MAX_PARTITION - 4) + '"]'
    assert only(partition_changes([data(1, longest)], 1000)).scope == Scope(0, longest)
