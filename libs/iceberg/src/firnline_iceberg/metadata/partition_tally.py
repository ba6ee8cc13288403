"""Count changes per partition from manifest entries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from firnline_domain.identity import Scope
from firnline_domain.records.events import PartitionChange
from firnline_domain.records.parts.tallies import FileTally, size_class, tally_of
from firnline_domain.records.results import DeleteKind

from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry, FileEntry

_DELETE_FIELDS = {
    DeleteKind.EQUALITY: "equality_deletes",
    DeleteKind.POSITION: "position_deletes",
    DeleteKind.DELETION_VECTOR: "deletion_vectors",
}


@dataclass(slots=True)
class _Sums:
    """Field of FileTally -> [files, records, bytes]; a FileTally per file would be slow."""

    sums: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0] * 3))

    def add_entry(self, name: str, entry: FileEntry) -> None:
        found = self.sums[name]
        found[0] += 1
        found[1] += entry.records
        found[2] += _own_bytes(entry)

    def to_tally(self) -> FileTally:
        return FileTally(**{name: tally_of(*found) for name, found in self.sums.items()})


@dataclass(slots=True)
class _Partition:
    added: _Sums = field(default_factory=_Sums)
    removed: _Sums = field(default_factory=_Sums)
    data_sequences: list[int] = field(default_factory=list)
    delete_sequences: list[int] = field(default_factory=list)

    def add_entry(self, name: str, entry: FileEntry) -> None:
        if not entry.is_live:
            self.removed.add_entry(name, entry)
            return
        self.added.add_entry(name, entry)
        of_data = isinstance(entry, DataFileEntry)
        (self.data_sequences if of_data else self.delete_sequences).append(entry.sequence_number)

    def to_change(self, scope: Scope) -> PartitionChange:
        return PartitionChange(
            scope=scope,
            added=self.added.to_tally(),
            removed=self.removed.to_tally(),
            data_sequence_min=min(self.data_sequences, default=None),
            data_sequence_max=max(self.data_sequences, default=None),
            delete_sequence_max=max(self.delete_sequences, default=None),
        )


def partition_changes(
    entries: Iterable[FileEntry], target_bytes: int
) -> tuple[PartitionChange, ...]:
    """Return one change per partition, in order: DELETED entries removed, all others added."""
    found: defaultdict[Scope, _Partition] = defaultdict(_Partition)
    for entry in entries:
        found[entry.scope.counted_scope].add_entry(_tally_field(entry, target_bytes), entry)
    return tuple(found[scope].to_change(scope) for scope in sorted(found))


def _tally_field(entry: FileEntry, target_bytes: int) -> str:
    """Return the field of the tally that counts a file: of its kind of deletes, or of its size
    class."""
    if isinstance(entry, DeleteFileEntry):
        return _DELETE_FIELDS[entry.kind]
    return size_class(entry.bytes, target_bytes).value


def _own_bytes(entry: FileEntry) -> int:
    """Return the bytes of an entry. Of a DV only its own: the entry's size is of the whole Puffin
    file, which several DVs share."""
    size = entry.content_size if isinstance(entry, DeleteFileEntry) else None
    return entry.bytes if size is None else size
