"""Track the data files that earlier slices of a conversion have converted, and whether that still
holds.

A converted file keeps its data sequence number, so its equality deletes still reach it. Only when
every file of the partition is answered for may they go. A mark is a slice's word for one file: up
to the number of its start, equality deletes name these rows, and position deletes or a vector of
its commit say so. It is believed as far as the table itself shows it today: the file is the same,
and what that commit has said of it is live. So neither a rollback, nor another branch, nor an
engine that takes the vector away can make a removed delete be missed. Anything else voids the mark,
and the file is read again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from firnline_domain.base.values import Value, replace
from firnline_domain.commits.pinned_head import LiveData, LiveDelete, reaches_scope
from firnline_domain.identity import Scope
from firnline_domain.records.results import DeleteKind


class MarkingSlice(Value):
    """A slice, and what it has answered: equality deletes of its start that reach the partition, by
    normal path, with their data sequence numbers."""

    task_id: str
    attempt: int
    sequence_number: int  # of its start
    deletes: dict[str, int]


class ConversionMark(Value):
    """Mark of a slice for one data file, which had this number and so many rows. `masked`: rows
    that equality deletes name; 0: nothing had to be written of it."""

    sequence_number: int
    records: int
    masked: int
    slice: int  # number of it in `Marks.slices`


class Marks(Value):
    """Marks of one pass over one partition, up to one of its slices. `files`: by normal path."""

    table_key: str
    scope: Scope
    slices: tuple[MarkingSlice, ...]
    files: dict[str, ConversionMark]
    before: str | None = None  # path of the marks that these take the place of


def earlier_marks(marks: Marks, task_id: str) -> Marks:
    """Return the marks without the slice of this task and its findings: its result contains these,
    group by group, and some may be lost."""
    slices = tuple(one for one in marks.slices if one.task_id != task_id)
    numbers = {one.task_id: number for number, one in enumerate(slices)}
    tasks = [one.task_id for one in marks.slices]
    files = {
        path: replace(mark, slice=numbers[tasks[mark.slice]])
        for path, mark in marks.files.items()
        if tasks[mark.slice] != task_id
    }
    return replace(marks, slices=slices, files=files)


Wrote = Callable[[MarkingSlice, str], bool]
"""Whether a slice's commit has written the delete file of that path."""


def converted_up_to(
    marks: Marks, data: Mapping[str, LiveData], deletes: Iterable[LiveDelete], wrote: Wrote
) -> dict[str, int]:
    """Return, by normal path of the files whose marks hold, the number up to which no equality
    delete is left to be applied. `data`, `deletes`: what is live, as far as it may concern them."""
    said, equality = defaultdict[str, list[LiveDelete]](list), list[LiveDelete]()
    for delete in deletes:
        if delete.kind is DeleteKind.EQUALITY:
            equality += [delete] if reaches_scope(delete, marks.scope) else []
        elif delete.referenced_data_file is not None:
            said[delete.referenced_data_file].append(delete)
    newest_missed = [_newest_missed(one, equality) for one in marks.slices]
    found = dict[str, int]()
    for path, mark in marks.files.items():
        by, live = marks.slices[mark.slice], data.get(path)
        if live is None or not _is_unchanged(mark, live, marks.scope):
            continue
        if newest_missed[mark.slice] > live.sequence_number:
            continue
        if mark.masked and not _is_written(mark, by, said[path], wrote):
            continue
        found[path] = by.sequence_number
    return found


def _is_unchanged(mark: ConversionMark, live: LiveData, scope: Scope) -> bool:
    """Return True if a data file has the sequence number, the record count and the partition of its
    mark."""
    now = live.sequence_number, live.records, live.scope
    return now == (mark.sequence_number, mark.records, scope)


def _newest_missed(by: MarkingSlice, equality: Iterable[LiveDelete]) -> int:
    """Return the highest number of the deletes up to the slice's own that the slice did not see,
    else -1: another engine may add one with the number of those that it replaces."""
    missed = (
        delete.sequence_number
        for delete in equality
        if delete.sequence_number <= by.sequence_number
        and by.deletes.get(delete.normal_path) != delete.sequence_number
    )
    return max(missed, default=-1)


def _is_written(
    mark: ConversionMark, by: MarkingSlice, said: list[LiveDelete], wrote: Wrote
) -> bool:
    """Return True if what the slice's commit has written about the file is read today. A vector
    hides all other position deletes of its file."""
    vectors = [delete for delete in said if delete.kind is DeleteKind.DELETION_VECTOR]
    return any(
        delete.records >= mark.masked
        and delete.sequence_number >= mark.sequence_number
        and wrote(by, delete.path)
        for delete in vectors or said
    )
