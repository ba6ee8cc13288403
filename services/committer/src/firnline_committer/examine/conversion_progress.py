"""Marks of conversions that are done in slices, as the committer reads them: the files of a head
whose equality deletes are already answered (`firnline_domain.commits.conversion_progress`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from firnline_domain.commits.conversion_progress import Marks, converted_up_to, earlier_marks
from firnline_domain.errors import RetryLater
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.commit.pinned_head import PinnedHead
from firnline_iceberg.outputs import conversion_progress
from firnline_iceberg.outputs.names import run_of
from firnline_iceberg.removal.removal import shares_files
from firnline_iceberg.storage.paths import file_name, folder_of
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.locations import Locations


def marks_of(table: LoadedTable, result: RewriteFinished) -> Marks | None:
    """Return the marks of the slices before this result's, from the file that its worker has
    written. None: there are none, or it cannot be known. Raises RetryLater if the storage does not
    answer."""
    file = result.slice.marks if result.slice is not None else None
    if file is None:
        return None
    run = run_of(table.identity.key, result.task_id, file_name(file.path))
    if run is None or file_name(file.path) != run.marks_name:
        return None
    if not Locations.from_table(table).is_beside_metadata(file.path):
        return None
    try:
        marks = conversion_progress.read_marks(table.io, file, table.identity.key, result.scope)
    except OSError as error:
        raise RetryLater(f"storage: {error}") from error
    return None if marks is None else earlier_marks(marks, result.task_id)


def answered_at(at: PinnedHead, known: Iterable[Marks]) -> Mapping[str, int]:
    """Return the answered sequence numbers by normal path of the data files, for
    `commit_plan.plan`."""
    wrote = conversion_progress.wrote_in(at.table.identity.key)
    found = dict[str, int]()
    for marks in known:
        found |= converted_up_to(marks, at.head.data, at.head.deletes, wrote)
    return found


def replaced_by(table: LoadedTable, marks: Marks | None) -> tuple[str, tuple[str, ...]] | None:
    """Return the task before, and its files that these marks replace: its own marks and their list.
    If a group of it was lost its row map still exists, and the list stays: it names outputs that
    the sweep has to remove."""
    if marks is None or marks.before is None or not marks.slices:
        return None
    task_id, folder = marks.slices[-1].task_id, folder_of(marks.before)
    run = run_of(table.identity.key, task_id, file_name(marks.before))
    if run is None or file_name(marks.before) != run.marks_name:
        return None
    if table.io.new_input(f"{folder}/{run.row_map_name}").exists():
        return task_id, (marks.before,)
    noted = (f"{folder}/{run.sent_name}",) if shares_files(table) else ()
    return task_id, (marks.before, *noted, f"{folder}/{run.list_name}")
