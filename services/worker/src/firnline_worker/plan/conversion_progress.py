"""Marks of a conversion that is done in slices: read before a slice is planned, and written with
its own files added (`firnline_domain.commits.conversion_progress`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from firnline_domain.commits.conversion_progress import (
    ConversionMark,
    MarkingSlice,
    Marks,
    converted_up_to,
)
from firnline_domain.commits.pinned_head import reaches_scope
from firnline_domain.identity import normal_path
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.results import DeleteKind, RewriteGroup
from firnline_iceberg.outputs import conversion_progress
from firnline_iceberg.scan.planning import LiveFiles
from firnline_iceberg.table.loaded_table import LoadedTable


@dataclass(frozen=True)
class PassMarks:
    """The marks of earlier slices, and the files for which they still hold (`converted_up_to`)."""

    marks: Marks | None = None
    answered: Mapping[str, int] = field(default_factory=dict)

    @property
    def void(self) -> frozenset[str]:
        """Return the normal paths of files whose mark does not hold any more."""
        said = self.marks.files if self.marks is not None else {}
        return frozenset(path for path in said if path not in self.answered)


NO_MARKS = PassMarks()


def read_marks(table: LoadedTable, order: RewriteFiles, live: LiveFiles) -> PassMarks:
    """Read the marks of the slices before this one. Raises OSError if the storage does not
    answer."""
    if order.action != Action.CONVERT or order.after is None or order.after.marks is None:
        return NO_MARKS
    key = table.identity.key
    marks = conversion_progress.read_marks(table.io, order.after.marks, key, order.scope)
    if marks is None:
        return NO_MARKS
    data = {file.data.normal_path: file.data for file in live.files_of_scope(order.scope)}
    return PassMarks(
        marks, converted_up_to(marks, data, live.deletes, conversion_progress.wrote_in(key))
    )


def marks_after(
    order: RewriteFiles,
    start: int,
    live: LiveFiles,
    known: PassMarks,
    groups: Sequence[RewriteGroup],
) -> Marks:
    """Return the marks with those of this slice, which replace older ones of the same files."""
    before = known.marks
    slices = before.slices if before is not None else ()
    mine = MarkingSlice(
        order.task_id,
        order.attempt,
        start,
        {
            one.normal_path: one.sequence_number
            for one in live.deletes
            if one.kind is DeleteKind.EQUALITY and reaches_scope(one, order.scope)
        },
    )
    files = {
        path: mark
        for path, mark in (before.files if before is not None else {}).items()
        if live.data_file(path) is not None
    }
    for group in groups:
        if group.converts:
            (file,) = group.inputs
            mark = ConversionMark(
                file.sequence_number, file.records, group.rows_masked, len(slices)
            )
            files[normal_path(file.path)] = mark
    path = order.after.marks.path if order.after and order.after.marks else None
    return Marks(order.table.key, order.scope, (*slices, mine), files, path)
