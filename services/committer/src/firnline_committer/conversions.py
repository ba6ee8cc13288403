"""Writes what equality deletes say of a data file as a deletion vector or a position-delete file.

The row map of a result names the rows. They are joined with what the head says of the same file by
position, whenever that came, so nothing depends on what the worker saw of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from firnline_deletes import positions, row_map
from firnline_deletes.files import SequencedFile
from firnline_deletes.positions import Positions
from firnline_deletes.row_map import RowMap
from firnline_deletes.vectors import located
from firnline_domain.commits.commit_plan import Conversion, Written
from firnline_domain.commits.conflicts import Conflict
from firnline_domain.identity import normal_path
from firnline_domain.records.events import ConflictReason
from firnline_domain.records.results import DeleteKind, InputFile, RewriteFinished, RewriteGroup
from firnline_domain.records.signing import Keyring
from firnline_iceberg.files import DataFileEntry, DeleteFileEntry
from firnline_iceberg.heads import Pinned
from firnline_iceberg.output_lists import UNSIGNED

from firnline_committer.cached_reads import cached_reads_of, made, rows_of
from firnline_committer.delete_files import DeleteFiles

Marks = tuple[DeleteFileEntry, ...]


@dataclass(frozen=True)
class Conversions:
    """Makes conversions; `Repairs.close` clears up after them."""

    now_ms: Callable[[], int]
    keys: Keyring = UNSIGNED  # of write-ahead lists

    def make(
        self,
        at: Pinned,
        result: RewriteFinished,
        numbers: Collection[int],
        written: list[Written],
    ) -> Conversion | Conflict:
        """The delete files of these groups, all of which convert, for a head that has their inputs.
        They are put into `written`, whether there are all of them or not. Raises as
        `cached_reads.made`."""
        groups = [result.groups[number] for number in sorted(numbers)]
        otherwise = Conflict(ConflictReason.OUTPUTS_GONE, "no conversion")
        return made(partial(self._make, at, result, groups, written), otherwise)

    def _make(
        self,
        at: Pinned,
        result: RewriteFinished,
        groups: list[RewriteGroup],
        written: list[Written],
    ) -> Conversion | Conflict:
        rows = rows_of(at, result.row_map)
        for group in groups:
            found = sum(len(_masked(rows, file)) for file in group.inputs)
            if found != group.rows_masked:
                text = f"the row map names {found} rows, not {group.rows_masked}"
                return Conflict(ConflictReason.PROOF_FAILED, text)
        files = DeleteFiles(at, result, uuid.uuid4().hex[:8], self.keys)
        touched = [f for group in groups for f in group.inputs if len(_masked(rows, f))]
        with files.left_to(written):
            files.announce(len(touched), self.now_ms())
            removed = tuple(mark for file in touched for mark in _marked(at, files, file, rows))
            added = files.finished()
        since, paths = at.head.last_sequence_number, (*files.paths, files.list_path)
        conversion = Conversion(result.task_id, since, removed, added, paths)
        written.append(conversion)
        return conversion


def _masked(rows: RowMap, file: InputFile) -> Positions:
    return rows.get(file.path, row_map.NOTHING).masked


def _marked(
    at: Pinned, files: DeleteFiles, file: InputFile, rows: RowMap
) -> Iterator[DeleteFileEntry]:
    """Mark one file's rows; the delete files whose place that takes."""
    entry = at.live.data_file(normal_path(file.path))
    assert entry is not None, "examined on another head"
    known = _Known(at, entry, files.of_vectors)
    files.mark(files.live(entry), np.union1d(_masked(rows, file), known.dead))
    yield from known.own


@dataclass(frozen=True)
class _Known:
    """What a head says of one data file by position."""

    at: Pinned
    entry: DataFileEntry
    of_vectors: bool

    @property
    def own(self) -> Marks:
        """Vectors and position deletes that are about nothing else."""
        return tuple(mark for mark in self._marks if mark.referenced_data_file is not None)

    @property
    def dead(self) -> Positions:
        """All rows of `own`. A vector has to say the rest as well: nothing is read beside it."""
        marks = self._marks if self.of_vectors else self.own
        vectors = [mark for mark in marks if mark.kind is DeleteKind.DELETION_VECTOR]
        others = [mark for mark in marks if mark.kind is DeleteKind.POSITION]
        found = positions.gathered(
            [SequencedFile(other.path, other.sequence_number) for other in others],
            [SequencedFile(self.entry.path, self.entry.sequence_number)],
            cached_reads_of(self.at.table),
            [located(vector) for vector in vectors],
        )
        return found.of(self.entry.path)

    @cached_property
    def _marks(self) -> Marks:
        return self.at.live.index.positional(self.entry)
