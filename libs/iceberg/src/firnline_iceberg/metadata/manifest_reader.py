"""Manifest lists and manifests of format v1, v2 and v3 (spec, "Manifests").

PyIceberg 0.12 reads v3 manifests with the v2 schema and so loses the fields of deletion
vectors (v3-manifest hazard, H19); this keeps them. Statistics, the bulk of a manifest, are decoded
on demand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from firnline_domain.base.values import LONG, MAX_AMOUNT, amount_of
from firnline_domain.identity import normal_path
from firnline_domain.records.results import DeleteKind
from pyiceberg.io import FileIO
from pyiceberg.types import StringType

from firnline_iceberg.metadata.avro_reader import (
    AvroFields,
    MetadataUnreadable,
    Record,
    read_records,
    readable,
)
from firnline_iceberg.metadata.column_bounds import read_range
from firnline_iceberg.metadata.entries import (
    PATH_ID,
    DataFileEntry,
    DeleteFileEntry,
    EntryStatus,
    FileEntry,
    FileLayout,
    FileStats,
)
from firnline_iceberg.metadata.field_ids import (
    ENTRY,
    ENTRY_WHOLE,
    ENTRY_WITH_BOUNDS,
    ENTRY_WITH_STATS,
    LIST,
    PARTITION,
)
from firnline_iceberg.metadata.partition_text import PartitionText


class Detail(IntEnum):
    """Amount of an entry to decode; each level includes the one before."""

    COUNTS = 0  # no bounds: position deletes do not know their `referenced_data_file`
    REFERENCES = 1  # bounds of delete files, for that; the default
    STATS = 2  # `FileEntry.stats` of every file
    WHOLE = 3  # `FileEntry.layout` of every file


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """A partition field over all files of a manifest; bounds are single-value bytes. What a writer
    left out is None, and may be anything."""

    contains_null: bool | None
    lower: bytes | None
    upper: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """One row of a manifest list. Counts are None if a v1 writer left them out."""

    path: str
    length: int
    spec_id: int
    added_snapshot_id: int | None
    added_files: int | None = None
    existing_files: int | None = None
    deleted_files: int | None = None
    sequence_number: int = 0  # v1: 0
    min_sequence_number: int = 0
    holds_deletes: bool = False
    first_row_id: int | None = None  # v3
    encrypted: bool = False
    partitions: tuple[FieldSummary, ...] = ()  # by field of its spec; empty: not known

    @property
    def changes_nothing(self) -> bool:
        """Neither adds nor removes a file, only carries entries on (`rewrite_manifests`)."""
        return self.added_files == 0 and self.deleted_files == 0

    @property
    def holds_no_live(self) -> bool:
        """Nothing but DELETED entries."""
        return self.added_files == 0 and self.existing_files == 0


def read_manifest_list(io: FileIO, path: str) -> tuple[ManifestFile, ...]:
    """Return all manifests of a snapshot. Raises MetadataFileGone, RetryLater,
    MetadataUnreadable."""
    with readable(path):
        return tuple(_manifest_file(row) for row in read_records(io, path, LIST))


def _manifest_file(row: Record) -> ManifestFile:
    return ManifestFile(
        path=_text(row["path"]),
        length=amount_of(row["length"]) or 0,
        spec_id=row["spec_id"],
        added_snapshot_id=row.get("added_snapshot_id"),
        added_files=amount_of(row.get("added_files")),
        existing_files=amount_of(row.get("existing_files")),
        deleted_files=amount_of(row.get("deleted_files")),
        sequence_number=row.get("sequence_number") or 0,
        min_sequence_number=row.get("min_sequence_number") or 0,
        holds_deletes=row.get("content") == 1,
        first_row_id=row.get("first_row_id"),
        encrypted=row.get("key_metadata") is not None,
        partitions=tuple(_to_summary(one) for one in row.get("partitions") or ()),
    )


def _to_summary(record: Record) -> FieldSummary:
    bounds = record.get("lower_bound"), record.get("upper_bound")
    return FieldSummary(record.get("contains_null"), *bounds)


def read_manifest(
    io: FileIO, manifest: ManifestFile, partition: PartitionText, detail: Detail = Detail.REFERENCES
) -> Iterator[FileEntry]:
    """Yield the entries of every status, in order, numbers inherited (`DataFileEntry`,
    `DeleteFileEntry`).

    `partition` writes partitions of the manifest's spec (`LoadedTable.partition_text`). If an entry
    claims more rows or bytes than any file has, COUNTS reads the number as 0. For any other detail
    the manifest is unreadable, because callers act on the number: a file of 0 rows has only dead
    rows. Raises MetadataFileGone, RetryLater, MetadataUnreadable."""
    with readable(manifest.path):
        yield from _entries(io, manifest, partition, detail)


def _entries(
    io: FileIO, manifest: ManifestFile, partition: PartitionText, detail: Detail
) -> Iterator[FileEntry]:
    next_row_id = manifest.first_row_id
    texts = PartitionTexts(partition)
    for record in read_records(io, manifest.path, _fields_for(manifest, detail)):
        entry = _common_values(record, manifest, texts, detail)
        rows = entry["records"]
        if not 0 <= rows <= MAX_AMOUNT or not 0 <= entry["bytes"] <= MAX_AMOUNT:
            entry |= _without_odd(entry, manifest, detail)
        if record["file"].get("content"):
            yield _delete_file(record["file"], entry)
            continue
        row_id = record["file"].get("first_row_id") if manifest.first_row_id is not None else None
        if row_id is None and next_row_id is not None and entry["status"] != EntryStatus.DELETED:
            row_id, next_row_id = next_row_id, next_row_id + rows
            if next_row_id >= LONG:
                raise MetadataUnreadable(manifest.path, f"{entry['path']}: row ids above 64 bits")
        yield DataFileEntry(**entry, first_row_id=row_id)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a path is {value!r}")
    return value


def _without_odd(entry: dict[str, Any], manifest: ManifestFile, detail: Detail) -> dict[str, Any]:
    """Replace the numbers of an entry that no file has. One below zero was decoded, and is nonsense
    (see `records`): then so may be all else. Raises MetadataUnreadable."""
    rows, size = entry["records"], entry["bytes"]
    if min(rows, size) < 0 or detail is not Detail.COUNTS:
        text = f"{entry['path']}: record_count {rows}, file_size_in_bytes {size}"
        raise MetadataUnreadable(manifest.path, f"no file has as much: {text}; write it anew")
    return {
        "records": amount_of(rows) or 0,
        "bytes": amount_of(size) or 0,
        "has_odd_numbers": True,
    }


class PartitionTexts:
    """Partition texts of one manifest, each written once: few partitions, many files."""

    def __init__(self, partition: PartitionText) -> None:
        self._partition = partition
        self._known: dict[tuple[Any, ...], str] = {}

    def text_of(self, record: Record) -> str:
        key = tuple(record.values())
        if key not in self._known or any(type(value) is float for value in key):
            # -0.0 == 0.0, yet they are two partitions
            self._known[key] = self._partition(
                {int(name.removeprefix(PARTITION)): value for name, value in record.items()}
            )
        return self._known[key]


def _fields_for(manifest: ManifestFile, detail: Detail) -> AvroFields:
    if detail >= Detail.STATS:
        return ENTRY_WHOLE if detail is Detail.WHOLE else ENTRY_WITH_STATS
    bounds = manifest.holds_deletes and detail is Detail.REFERENCES
    return ENTRY_WITH_BOUNDS if bounds else ENTRY


def _common_values(
    record: Record, manifest: ManifestFile, texts: PartitionTexts, detail: Detail
) -> dict[str, Any]:
    file, status = record["file"], EntryStatus(record["status"])
    snapshot_id = record.get("snapshot_id")
    return {
        "path": _text(file["path"]),
        "manifest_path": manifest.path,
        "status": status,
        "snapshot_id": manifest.added_snapshot_id if snapshot_id is None else snapshot_id,
        "sequence_number": inherit_sequence(record.get("sequence_number"), status, manifest),
        "file_sequence_number": inherit_sequence(
            record.get("file_sequence_number"), status, manifest
        ),
        "spec_id": manifest.spec_id,
        "partition": texts.text_of(file["partition"] or {}),
        "format": file["format"].upper(),
        "records": file["records"],
        "bytes": file["bytes"],
        "sort_order_id": file.get("sort_order_id"),
        "encrypted": file.get("key_metadata") is not None,
        "stats": _file_stats(file) if detail >= Detail.STATS else None,
        "layout": _file_layout(file) if detail is Detail.WHOLE else None,
    }


def inherit_sequence(number: int | None, status: EntryStatus, manifest: ManifestFile) -> int | None:
    """Return an entry's number (spec, "Sequence Number Inheritance"): null is inherited by ADDED
    entries only; v1 is 0."""
    if number is None and (manifest.sequence_number == 0 or status is EntryStatus.ADDED):
        return manifest.sequence_number
    return number


def _delete_file(file: Record, common: dict[str, Any]) -> DeleteFileEntry:
    kind = _delete_kind(file["content"], common["format"])
    named = None if kind is DeleteKind.EQUALITY else file.get("referenced_data_file")
    bound = _path_of_bounds(file) if kind is DeleteKind.POSITION and named is None else None
    path = named if bound is None else bound
    return DeleteFileEntry(
        **common,
        kind=kind,
        equality_ids=tuple(sorted(map(int, file.get("equality_ids") or ()))),
        referenced_data_file=None if path is None else normal_path(path),
        named_by_bounds=bound is not None,
        content_offset=file.get("content_offset"),
        content_size=amount_of(file.get("content_size")),
    )


def _delete_kind(content: int, file_format: str) -> DeleteKind:
    if content == 2:
        return DeleteKind.EQUALITY
    if content != 1:
        raise ValueError(f"a file has content {content}")
    return DeleteKind.DELETION_VECTOR if file_format == "PUFFIN" else DeleteKind.POSITION


def _path_of_bounds(file: Record) -> str | None:
    """Read the one data file that the bounds name, as Iceberg's readers do
    (`ContentFileUtil.referencedDataFile`). Bounds that are no text name none: the file may be about
    its whole partition."""
    lower, upper = (_to_map(file.get(side)).get(PATH_ID) for side in ("lower", "upper"))
    found = read_range(StringType(), lower, upper)
    return found[0] if found and found[0] == found[1] else None


def _file_stats(file: Record) -> FileStats:
    return FileStats(
        value_counts=_valid_amounts(file.get("value_counts")),
        null_counts=_valid_amounts(file.get("null_counts")),
        nan_counts=_valid_amounts(file.get("nan_counts")),
        lower=_to_map(file.get("lower")),
        upper=_to_map(file.get("upper")),
    )


def _file_layout(file: Record) -> FileLayout:
    return FileLayout(
        _valid_amounts(file.get("column_sizes")), tuple(file.get("split_offsets") or ())
    )


def _valid_amounts(pairs: list[Record] | None) -> dict[int, int]:
    """Return those that are amounts; the others are not known."""
    return {key: one for key, one in _to_map(pairs).items() if amount_of(one) is not None}


def _to_map(pairs: list[Record] | None) -> dict[int, Any]:
    return {pair["key"]: pair["value"] for pair in pairs or ()}
