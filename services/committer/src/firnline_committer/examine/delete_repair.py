"""Carries position deletes and deletion vectors over from replaced files to the new ones.

The row map of a result says where each row of its inputs went. What came meanwhile, less what the
worker had applied, is written for the outputs: position-delete files in v2, vectors in v3. The
head's own files go in the same snapshot; what they say of other files is written anew under their
own number (unpaired-repair hazard, H5).
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from firnline_adapters.observability.logs import Log
from firnline_deletes.deletes import positions, row_map
from firnline_deletes.deletes.positions import Positions, PositionSet
from firnline_deletes.deletes.row_map import Moves, RowMap
from firnline_deletes.deletes.vectors import Vector, locate_vector
from firnline_deletes.files.parquet import SequencedFile
from firnline_domain.base.values import replace
from firnline_domain.commits.commit_plan import Repair, Written
from firnline_domain.commits.conflicts import (
    Conflict,
    input_files,
    named_by,
    position_deletes_live,
    replaced_files,
    unapplied_position_deletes,
)
from firnline_domain.commits.pinned_head import LiveDelete
from firnline_domain.errors import RetryLater, TaskRefused
from firnline_domain.identity import TableName, normal_path
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import DeleteKind, OutputFile, RewriteFinished
from firnline_domain.records.signing import Keyring
from firnline_iceberg.commit.pinned_head import PinnedHead
from firnline_iceberg.metadata.entries import DeleteFileEntry
from firnline_iceberg.outputs.write_ahead_list import UNSIGNED
from firnline_iceberg.removal import removal
from firnline_iceberg.table.catalog_client import Tables

from firnline_committer.examine.cached_reads import cached_reads_of, make_or_conflict, rows_of
from firnline_committer.examine.delete_files import DeletedDataFile, DeleteFiles

Said = dict[int, list[Positions]]  # number of a group's output -> positions in it


@dataclass(frozen=True)
class Repairs:
    """A maker of repairs, which also clears up after them."""

    tables: Tables
    log: Log
    now_ms: Callable[[], int]
    keys: Keyring = UNSIGNED  # of write-ahead lists

    def make(
        self,
        at: PinnedHead,
        result: RewriteFinished,
        touched: Mapping[int, Conflict],
        written: list[Written],
    ) -> Repair | Conflict:
        """Make a repair of `result` on a head at which `judge` finds these groups touched. It is
        appended to `written`, and so are the files of a repair that fails. Raises RetryLater if the
        storage does not answer, MetadataFileGone if a delete file of the head is missing."""
        found = next(iter(touched.values()))
        otherwise = Conflict(found.reason, f"{found.detail}; no repair")
        numbers = frozenset(touched)
        return make_or_conflict(
            lambda: self._build_repair(_Case.from_result(at, result, numbers), written), otherwise
        )

    def _build_repair(self, case: _Case, written: list[Written]) -> Repair | Conflict:
        """Write position deletes for rows that were deleted during the rewrite, and return the
        repair; a Conflict if a delete that the rewrite applied does not apply any more. Add what
        was written to `written`, also if it fails."""
        dead = case.read_dead_rows()
        if back := case.came_back(dead):
            text = f"rows of {back} are there again"
            return Conflict(ConflictReason.APPLIED_POSITION_DELETE_GONE, text)
        said = [
            (output, where)
            for number in case.touched
            for output, where in case.new_positions(number, dead)
        ]
        files = DeleteFiles(case.at, case.result, uuid.uuid4().hex[:8], self.keys)
        with files.record_leftovers(written):
            files.write_list(len(said) + len(case.unapplied_deletes), self.now_ms())
            for output, where in said:
                files.add_positions(DeletedDataFile.of_output(output), where)
            removed = tuple(
                mark for mark in case.unapplied_deletes if files.take_out(mark, case.replaced_paths)
            )
            added = files.finish()
        repair = Repair(
            case.result.task_id,
            case.at.head.last_sequence_number,
            case.touched,
            removed,
            added,
            sum(len(where) for _, where in said),
            (*files.paths, files.list_path),
        )
        written.append(repair)
        return repair

    def close(self, name: TableName, repair: Written) -> None:
        """Remove the files of a repair that are in no retained snapshot, once none of its commits
        can be applied any more: its list, and all of its files if the table has none of them. The
        sweep removes what fails here."""
        *files, listed = repair.files
        try:
            table = self.tables.load(name)
            removal.remove_uncommitted(table, repair.task_id, files, listed, repair.since)
        except (RetryLater, TaskRefused, removal.NotRemovable, OSError) as error:
            self.log.warning("repair_left", task=repair.task_id, why=error)


@dataclass(frozen=True)
class _Case:
    """One result on one head."""

    at: PinnedHead
    result: RewriteFinished
    touched: frozenset[int]
    rows: RowMap

    @classmethod
    def from_result(cls, at: PinnedHead, result: RewriteFinished, touched: frozenset[int]) -> _Case:
        """Read the row map of a result. Raises as `rows_of`."""
        return cls(at, result, touched, rows_of(at, result.row_map))

    @cached_property
    def replaced_paths(self) -> frozenset[str]:
        """Return the normal paths of all inputs that the result replaces."""
        return frozenset(normal_path(file.path) for file in replaced_files(self.result))

    @cached_property
    def touched_part(self) -> RewriteFinished:
        """Return the result with its touched groups only."""
        groups = tuple(self.result.groups[number] for number in sorted(self.touched))
        return replace(self.result, groups=groups)

    @cached_property
    def unapplied_deletes(self) -> tuple[LiveDelete, ...]:
        """Return position deletes and vectors of the head that may be about an input, and were not
        applied."""
        return tuple(unapplied_position_deletes(self.touched_part, self.at.head))

    @cached_property
    def applied_gone(self) -> bool:
        """Return whether a position delete or vector that was applied is missing at the head: only
        then can rows have come back."""
        return position_deletes_live(self.touched_part, self.at.head) is not None

    def read_dead_rows(self) -> PositionSet:
        """Read the rows of the touched inputs that are deleted at the head. Applied deletes are
        read as well if one of them is missing."""
        marks = self._all_marks() if self.applied_gone else self.unapplied_deletes
        vectors = _deletion_vectors(marks)
        # an applied vector hides position-delete files, read or not
        hidden = self.at.head.paths_with_vector - {
            normal_path(vector.data_file) for vector in vectors
        }
        return positions.collect_positions(
            [
                SequencedFile(mark.path, mark.sequence_number)
                for mark in marks
                if mark.kind is DeleteKind.POSITION
            ],
            [
                SequencedFile(file.path, file.sequence_number)
                for file in input_files(self.touched_part)
                if normal_path(file.path) not in hidden
            ],
            cached_reads_of(self.at.table),
            vectors,
        )

    def _all_marks(self) -> tuple[LiveDelete, ...]:
        numbers = {normal_path(f.path): f.sequence_number for f in input_files(self.touched_part)}
        marks = (
            delete for delete in self.at.head.deletes if delete.kind is not DeleteKind.EQUALITY
        )
        return tuple(mark for mark in marks if named_by(mark, self.result.scope, numbers))

    def came_back(self, dead: PositionSet) -> str | None:
        """Return the path of an input with a row that was masked as deleted and is not deleted at
        the head; None if there is none."""
        if not self.applied_gone:
            return None
        for file in input_files(self.touched_part):
            marked = self.rows.get(file.path, row_map.NOTHING).marked
            if not np.isin(marked, dead.positions_in(file.path), assume_unique=True).all():
                return file.path
        return None

    def new_positions(
        self, number: int, dead: PositionSet
    ) -> Iterator[tuple[OutputFile, Positions]]:
        """Return, for one group, the positions in its outputs of rows that were deleted meanwhile,
        ascending."""
        group = self.result.groups[number]
        records = [(file.path, file.records) for file in group.inputs]
        moves = Moves.from_map(self.rows, records, [file.records for file in group.outputs])
        found: Said = defaultdict(list)
        for path, _ in records:
            for owner, places in moves.move_positions(
                path, moves.living_positions(path, dead.positions_in(path))
            ):
                found[owner].append(places)
        for owner, places_of in sorted(found.items()):
            yield group.outputs[owner], np.concatenate(places_of)


def _deletion_vectors(marks: Iterable[LiveDelete]) -> list[Vector]:
    """Return those of `unapplied_deletes` that are deletion vectors. Refused: unreadable_vector."""
    entries = (mark for mark in marks if isinstance(mark, DeleteFileEntry))
    return [locate_vector(entry) for entry in entries if entry.kind is DeleteKind.DELETION_VECTOR]
