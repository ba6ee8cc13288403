"""Writes what equality deletes say of a data file as a deletion vector or a position-delete file.

The row map of a result names the rows. They are joined with what the head says of the same file by
position, whenever that came, so nothing depends on what the worker saw of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from firnline_deletes.deletes import positions, row_map
from firnline_deletes.deletes.positions import Positions
from firnline_deletes.deletes.row_map import RowMap
from firnline_deletes.deletes.vectors import locate_vector
from firnline_deletes.files.parquet import SequencedFile
from firnline_domain.commits.commit_plan import Conversion, Written
from firnline_domain.commits.conflicts import Conflict
from firnline_domain.identity import Scope, normal_path
from firnline_domain.policy.triggers.v2_deletes import VECTORS
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import DeleteKind, InputFile, RewriteFinished, RewriteGroup
from firnline_domain.records.signing import Keyring
from firnline_iceberg.commit.head_examination import FileSelection, examine_files
from firnline_iceberg.commit.pinned_head import PinnedHead
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry
from firnline_iceberg.outputs.write_ahead_list import UNSIGNED

from firnline_committer.examine.cached_reads import cached_reads_of, make_or_conflict, rows_of
from firnline_committer.examine.delete_files import DeleteFiles

PositionDeletes = tuple[DeleteFileEntry, ...]  # vectors among them
Shared = tuple[DeleteFileEntry, frozenset[str]]  # and the normal paths that it names


@dataclass(frozen=True)
class ConversionBuilder:
    """A maker of conversions; `Repairs.close` clears up after them."""

    now_ms: Callable[[], int]
    keys: Keyring = UNSIGNED  # of write-ahead lists

    def make(
        self,
        at: PinnedHead,
        result: RewriteFinished,
        numbers: Collection[int],
        written: list[Written],
    ) -> Conversion | Conflict:
        """Write the delete files of these groups, all of which convert, for a head that has their
        inputs. They are appended to `written`, whether complete or not. Raises as
        `cached_reads.made`."""
        groups = [result.groups[number] for number in sorted(numbers)]
        otherwise = Conflict(ConflictReason.OUTPUTS_GONE, "no conversion")
        return make_or_conflict(
            partial(self._build_conversion, at, result, groups, written), otherwise
        )

    def _build_conversion(
        self,
        at: PinnedHead,
        result: RewriteFinished,
        groups: list[RewriteGroup],
        written: list[Written],
    ) -> Conversion | Conflict:
        """Write the delete files or vectors of converted groups, and return the conversion; a
        Conflict if the row map names other numbers of rows than the result. Add what was written to
        `written`, also if it fails."""
        rows = rows_of(at, result.row_map)
        for group in groups:
            named = sum(len(_masked_rows(rows, file)) for file in group.inputs)
            if named != group.rows_masked:
                text = f"the row map names {named} rows, not {group.rows_masked}"
                return Conflict(ConflictReason.PROOF_FAILED, text)
        files = DeleteFiles(at, result, uuid.uuid4().hex[:8], self.keys)
        found = [
            _KnownFile(at, _live_entry(at, f), files.of_vectors) for g in groups for f in g.inputs
        ]
        shared = _find_absorbed(at, found)
        known = [one.with_shared(shared) for one in found]
        touched = [one for one in known if one.is_changed_by(_masked_rows(rows, one.entry))]
        with files.record_leftovers(written):
            files.write_list(len(touched), self.now_ms())
            for one in touched:
                dead = np.union1d(_masked_rows(rows, one.entry), one.dead_rows)
                if len(dead):  # a file of no positions leaves no vector
                    files.add_positions(files.live_subject(one.entry), dead)
            own = (delete for one in touched for delete in one.own_deletes)
            removed = (*own, *(delete for delete, _ in shared))
            added = files.finish()
        since, paths = at.head.last_sequence_number, (*files.paths, files.list_path)
        conversion = Conversion(result.task_id, since, removed, added, paths)
        written.append(conversion)
        return conversion


def _masked_rows(rows: RowMap, file: InputFile | DataFileEntry) -> Positions:
    return rows.get(file.path, row_map.NOTHING).masked


def _live_entry(at: PinnedHead, file: InputFile) -> DataFileEntry:
    entry = at.live.data_file(normal_path(file.path))
    assert entry is not None, "examined on another head"
    return entry


def _find_absorbed(at: PinnedHead, files: Sequence[_KnownFile]) -> list[Shared]:
    """Return the position deletes of a partition that name only these files: the conversion writes
    their content once more. In a table of vectors also those whose other files are removed, or have
    a vector, which hides them."""
    reads = cached_reads_of(at.table)
    converted = {one.entry.normal_path for one in files}
    of_partition = {
        delete.normal_path: delete
        for one in files
        for delete in one.deletes
        if delete.kind is DeleteKind.POSITION and delete.referenced_data_file is None
    }
    named = [
        (delete, frozenset(normal_path(path) for path, _ in reads.read_file(delete.path)))
        for delete in of_partition.values()
    ]
    if at.table.format_version >= VECTORS:
        others = frozenset(path for _, paths in named for path in paths - converted)
        converted |= others - _files_without_vector(at, others, [one.entry.scope for one in files])
    return [(delete, paths) for delete, paths in named if paths <= converted]


def _files_without_vector(
    at: PinnedHead, paths: frozenset[str], scopes: Iterable[Scope]
) -> frozenset[str]:
    """Return those of these files that are live without a vector. Raises MetadataFileGone,
    RetryLater."""
    if not paths:
        return paths
    live, _ = examine_files(at.table, at.snapshot_id, FileSelection(paths, frozenset(scopes)))
    vector = DeleteKind.DELETION_VECTOR
    marked = {one.referenced_data_file for one in live.deletes if one.kind is vector}
    return frozenset(one.normal_path for one in live.data if one.normal_path not in marked)


@dataclass(frozen=True)
class _KnownFile:
    """The position deletes and vectors of one data file at a head."""

    at: PinnedHead
    entry: DataFileEntry
    of_vectors: bool
    shared: PositionDeletes = ()  # of the partition, that name it and are absorbed

    def with_shared(self, shared: Sequence[Shared]) -> _KnownFile:
        """Return a copy with those of the absorbed deletes that are about this file."""
        own, deletes = self.entry.normal_path, self.deletes
        mine = tuple(delete for delete, paths in shared if own in paths and delete in deletes)
        return replace(self, shared=mine)

    def is_changed_by(self, masked: Positions) -> bool:
        """Return whether its deletes must be written anew."""
        own = [delete for delete in self.own_deletes if delete.kind is DeleteKind.POSITION]
        if self.of_vectors and any(one.kind is DeleteKind.POSITION for one in self.deletes):
            return len(masked) > 0 or len(own) > 0 or len(self.dead_rows) > 0
        return len(masked) > 0 or len(own) > 1 or len(self.shared) > 0

    @property
    def own_deletes(self) -> PositionDeletes:
        """Return vectors and position deletes that are about this file only."""
        return tuple(delete for delete in self.deletes if delete.referenced_data_file is not None)

    @property
    def dead_rows(self) -> Positions:
        """Return all rows of `own_deletes`, and those of `shared` in the file. A vector has to
        contain the rest as well: with a vector, readers read no other position deletes."""
        deletes = self.deletes if self.of_vectors else (*self.own_deletes, *self.shared)
        vectors = [delete for delete in deletes if delete.kind is DeleteKind.DELETION_VECTOR]
        others = [delete for delete in deletes if delete.kind is DeleteKind.POSITION]
        found = positions.collect_positions(
            [SequencedFile(other.path, other.sequence_number) for other in others],
            [SequencedFile(self.entry.path, self.entry.sequence_number)],
            cached_reads_of(self.at.table),
            [locate_vector(vector) for vector in vectors],
        )
        return found.positions_in(self.entry.path)

    @cached_property
    def deletes(self) -> PositionDeletes:
        """Return all of its position deletes, also those of the partition."""
        return self.at.live.delete_index.position_deletes(self.entry)
