"""Values of one file in a manifest (spec, "Manifests": `data_file`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from firnline_domain.identity import Scope, normal_path
from firnline_domain.records.results import DeleteKind

PATH_ID = 2147483546  # of `file_path`, the column of a position-delete file


class EntryStatus(IntEnum):
    """`status` of a manifest entry."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True)
class FileStats:
    """Per field id. Bounds are single-value bytes, perhaps truncated (lower down, upper up)."""

    value_counts: dict[int, int]
    null_counts: dict[int, int]
    nan_counts: dict[int, int]
    lower: dict[int, bytes]
    upper: dict[int, bytes]


@dataclass(frozen=True, slots=True)
class FileLayout:
    """Layout of a file, to describe a copy of it."""

    column_sizes: dict[int, int]  # bytes, per field id
    split_offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A manifest entry with its inherited numbers filled in.

    `sequence_number` is the *data* sequence number, the one delete rules compare
    (iceberg-rules 2.1); 0 throughout for files of v1 manifests. A writer that breaks the spec
    and leaves it out of an entry that is not ADDED makes it None.
    """

    path: str  # as written; compare through `normal_path`
    manifest_path: str
    status: EntryStatus
    snapshot_id: int | None  # that added the file or, where DELETED, removed it
    sequence_number: int
    file_sequence_number: int | None
    spec_id: int
    partition: str  # canonical JSON text, see `partitions`
    format: str  # PARQUET | AVRO | ORC | PUFFIN
    records: int
    bytes: int
    sort_order_id: int | None = None
    encrypted: bool = False  # `key_metadata` is set
    has_odd_numbers: bool = False  # beyond any file's: `records` or `bytes` is 0 instead
    stats: FileStats | None = None  # only where it was asked for, as the next one
    layout: FileLayout | None = None

    @property
    def scope(self) -> Scope:
        """Spec and partition: what a partition-scoped delete must share."""
        return Scope(self.spec_id, self.partition)

    @property
    def normal_path(self) -> str:
        """The path in the one spelling that may be compared."""
        return normal_path(self.path)

    @property
    def key_and_number(self) -> tuple[str, int | None, int]:
        """Return path, offset in it, and data sequence number, by which readers distinguish live
        files."""
        return (self.normal_path, None, self.sequence_number)

    @property
    def is_live(self) -> bool:
        """ADDED or EXISTING."""
        return self.status is not EntryStatus.DELETED


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileEntry(FileEntry):
    """A data file. `first_row_id` is inherited as the v3 spec says; None before v3."""

    first_row_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFileEntry(FileEntry):
    """A delete file; for a deletion vector `path` is the Puffin file it shares with others.

    `referenced_data_file` is the normalised path of the one data file that a position delete
    or DV is about: field 143, else equal lower and upper bounds of its path column
    (`ContentFileUtil.referencedDataFile`); None = the whole partition.
    """

    kind: DeleteKind
    equality_ids: tuple[int, ...] = ()  # ascending
    referenced_data_file: str | None = None
    named_by_bounds: bool = False  # it is so by bounds, which are perhaps wrong
    content_offset: int | None = None  # of a DV, in the Puffin file
    content_size: int | None = None  # of a DV, bytes

    @property
    def is_global(self) -> bool:
        """An equality delete of an unpartitioned spec: it applies to every spec's files."""
        return self.kind is DeleteKind.EQUALITY and self.scope.is_unpartitioned

    @property
    def key(self) -> tuple[str, int | None]:
        """Identity: two DVs may share one Puffin path and differ only in their offset."""
        return (self.normal_path, self.content_offset)

    @property
    def key_and_number(self) -> tuple[str, int | None, int]:
        return (*self.key, self.sequence_number)
