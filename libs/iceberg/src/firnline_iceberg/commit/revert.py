"""Can a maintenance commit be taken back, and if not, why not? Answered from the table alone.

Taking it back sets the ref to the snapshot before the commit, while that is retained and nothing
has landed since: the files that it replaced are live again, and its own go when its snapshot
expires. Nothing is written anew and no row changes, since a rewrite changes none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.identity import Scope, TableName
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    SetSnapshotRefUpdate,
)

from firnline_iceberg.commit.hidden_history import hides_history
from firnline_iceberg.commit.pinned_head import changed_by
from firnline_iceberg.commit.previous_state import knowing_before
from firnline_iceberg.commit.rewrite import claimed_task_ids
from firnline_iceberg.metadata.entries import DataFileEntry, EntryStatus, FileEntry
from firnline_iceberg.storage.errors import storage_error
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable

NAMED = 10  # later commits, at the most


@dataclass(frozen=True)
class UndoPlan:
    """Plan of taking a task back."""

    ref: str
    snapshot_ids: tuple[int, ...]  # of its commit, the newest first
    restored: int  # the head of the ref afterwards
    task_ids: tuple[str, ...]  # all that the snapshots serve; the others go back as well
    scopes: tuple[Scope, ...]
    files_back: int  # live again
    files_gone: int  # not live any more
    snapshot: Snapshot | None = None  # `restored`, where the catalog has to be told of it anew

    @property
    def head(self) -> int:
        """Return the snapshot that must be the head of the ref now."""
        return self.snapshot_ids[0]


class UndoRefusal(ReasonCode):
    """Reasons why a task cannot be taken back."""

    LATER_COMMITS = (
        "later_commits",
        "Other commits followed. Each is named. Undo Firnline's own first, the newest first. A "
        "writer's commit cannot be undone.",
        "other commits followed",
    )
    HISTORY_HIDDEN = (
        "history_hidden",
        "The catalog shows only the newest state "
        "([Nessie](../deploy/catalogs.md#nessie)). Assign the branch in the catalog.",
        "the catalog shows only the newest state",
    )
    SNAPSHOT_GONE = (
        "snapshot_gone",
        "The task's snapshot has expired. Restore a backup.",
        "its snapshot has expired",
    )
    PARENT_GONE = (
        "parent_gone",
        "The snapshot before the task's has expired. Restore a backup.",
        "the snapshot before it has expired",
    )
    NOT_IN_HISTORY = ("not_in_history", "The task was undone before.", "it was undone before")
    FILES_GONE = (
        "files_gone",
        "A replaced file was removed. The current state is complete. Keep it.",
        "a replaced file was removed",
    )


@dataclass(frozen=True)
class CannotUndo:
    """Reason why not, and what can be done instead."""

    reason: UndoRefusal
    detail: str
    remedy: str


def undo_of(table: LoadedTable, ref: str, task_id: str) -> UndoPlan | CannotUndo:
    """Plan the undo of a task on a branch, or return why it cannot be undone. Raises RefGone,
    MetadataFileGone, RetryLater if storage does not answer."""
    head = table.head(ref).snapshot_id
    made = [
        snapshot.snapshot_id
        for snapshot in table.snapshots
        if task_id in claimed_task_ids(snapshot.summary)
    ]
    if not made and hides_history(table, head):
        return _refuse_hidden_history(table, ref)
    if not made:
        return CannotUndo(
            UndoRefusal.SNAPSHOT_GONE,
            f"{table.identity.dotted_name} retains no snapshot of task {task_id}: it made none, "
            "or it is expired, and the files that it replaced went with the snapshots before it",
            "no state of before it is left in the table; only a backup has one",
        )
    history = list(table.ancestors(head))
    if not {one.snapshot_id for one in history} & {*made}:
        return CannotUndo(
            UndoRefusal.NOT_IN_HISTORY,
            f"snapshot {made[-1]} is not in the history of {ref}: it was taken back before, or "
            "the branch was rolled back past it",
            "there is nothing left to undo",
        )
    mine = [place for place, one in enumerate(history) if task_id in claimed_task_ids(one.summary)]
    upto = history[: mine[-1] + 1]  # a handover commits twice, and others may come in between
    later = [
        one
        for one in upto
        if task_id not in claimed_task_ids(one.summary) or _adds_rows(table, one)
    ]
    if later:
        return _refuse_later_commits(later)
    return _plan_undo(table, ref, upto)


def _adds_rows(table: LoadedTable, snapshot: Snapshot) -> bool:
    """Return True for a snapshot with more rows than were in the files that it removed: a writer's,
    whatever its summary says, even with the signature of one of ours."""
    rows = {True: 0, False: 0}
    for entry in changed_by(table, snapshot.snapshot_id):
        if isinstance(entry, DataFileEntry):
            rows[entry.is_live] += entry.records
    return rows[True] > rows[False]


def give_back(tables: Tables, table: TableName, undo: UndoPlan) -> bool:
    """Set a ref back to a snapshot that the catalog hides: it is added once more, with its own id
    and number. False if another commit has landed since, or the catalog has not done it: Nessie
    ignores unknown snapshots. Raises TableGone, RetryLater: then it may be done."""
    assert undo.snapshot is not None
    ref = {"ref-name": undo.ref, "type": "branch", "snapshot-id": undo.restored}
    updates = (AddSnapshotUpdate(snapshot=undo.snapshot), SetSnapshotRefUpdate.model_validate(ref))
    if not tables.commit_changes(table, updates, {undo.ref: undo.head}):
        return False
    return tables.load(table).head_id(undo.ref) == undo.restored


def _refuse_hidden_history(table: LoadedTable, ref: str) -> CannotUndo:
    """Build the refusal of an undo whose earlier state the catalog hides."""
    return CannotUndo(
        UndoRefusal.HISTORY_HIDDEN,
        f"of {table.identity.dotted_name} the catalog shows the current snapshot alone. That is "
        f"another one than the task's, or no metadata file of the state before it is "
        f"left that {ref} could be set to",
        "take it back in the catalog itself, which has kept that state and its files: in Nessie, "
        "assign the branch to the commit before it. What came after it to any table of that "
        "branch goes along",
    )


def _refuse_later_commits(later: Sequence[Snapshot]) -> CannotUndo:
    """Build the refusal of an undo below later commits; it describes the first NAMED of them."""
    named = "; ".join(map(_describe_snapshot, later[:NAMED]))
    more = f"; and {len(later) - NAMED} more" if len(later) > NAMED else ""
    return CannotUndo(
        UndoRefusal.LATER_COMMITS,
        f"{len(later)} later on top of it: {named}{more}",
        "undo Firnline's own among them first, the newest before the others; what a writer "
        "committed would be lost with it, so it stays. Its rows are the same either way",
    )


def _describe_snapshot(snapshot: Snapshot) -> str:
    operation = snapshot.summary.operation.value if snapshot.summary else "unknown"
    tasks = ",".join(claimed_task_ids(snapshot.summary))
    return f"{snapshot.snapshot_id} ({operation}{f', task {tasks}' if tasks else ''})"


def _plan_undo(table: LoadedTable, ref: str, ours: Sequence[Snapshot]) -> UndoPlan | CannotUndo:
    """Plan to set the ref to the snapshot before `ours` (newest first). Refuse it if that snapshot
    is hidden or expired, or if a file that `ours` removed is not in the storage any more."""
    parent, earlier = ours[-1].parent_snapshot_id, None
    if parent is None and hides_history(table, ours[0].snapshot_id):
        if (known := knowing_before(table, ref)) is None:
            return _refuse_hidden_history(table, ref)
        table, state = known
        earlier, parent = state.snapshot, state.snapshot.snapshot_id
    if parent is None or not table.retains(parent):
        return CannotUndo(
            UndoRefusal.PARENT_GONE,
            f"snapshot {parent}, the state before it, is expired, and its files with it",
            "no state of before it is left in the table; only a backup has one",
        )
    entries = [entry for snapshot in ours for entry in changed_by(table, snapshot.snapshot_id)]
    # Of several snapshots, one may have removed what another had added.
    added = {entry.normal_path for entry in entries if entry.status is EntryStatus.ADDED}
    back = {
        entry.normal_path: entry
        for entry in entries
        if not entry.is_live and entry.normal_path not in added
    }
    if missing := _first_missing(table, back.values()):
        return CannotUndo(
            UndoRefusal.FILES_GONE,
            f"{missing}, which it replaced, does not exist any more",
            "somebody removed files that a retained snapshot has; the table as it is now is whole",
        )
    tasks = (task for snapshot in ours for task in claimed_task_ids(snapshot.summary))
    scopes = sorted({entry.scope for entry in entries})
    return UndoPlan(
        ref,
        tuple(snapshot.snapshot_id for snapshot in ours),
        parent,
        tuple(dict.fromkeys(tasks)),
        tuple(scopes),
        len(back),
        len(added),
        earlier,
    )


def _first_missing(table: LoadedTable, entries: Iterable[FileEntry]) -> str | None:
    try:
        return next((entry.path for entry in entries if not _file_exists(table, entry)), None)
    except OSError as error:
        raise storage_error("storage", error) from error


def _file_exists(table: LoadedTable, entry: FileEntry) -> bool:
    return bool(table.io.new_input(entry.path).exists())
