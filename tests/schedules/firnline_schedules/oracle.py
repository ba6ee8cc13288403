"""What has to be true of the table after every step."""

from __future__ import annotations

from collections.abc import Iterable

from firnline_domain.records.results import DeleteKind

from firnline_schedules.table import LabTable
from tests.kit.lake.rows import Row, Rows
from tests.kit.lake.table import Mark, Shown

Said = dict[Mark, int]  # (data file, position): sequence number of what deletes it


class Broken(AssertionError):
    """The table, or what the committer says of it, is not what it has to be."""


def look_around(table: LabTable) -> None:
    """Rows of every branch by Iceberg's reader; every file that a retained snapshot has exists;
    every data file is live once."""
    with table.still():
        for ref in table.loaded.metadata.refs:
            shows(table, table.loaded.head(ref).snapshot_id, table.meant(ref))
        for snapshot in table.loaded.snapshots:
            whole(table, snapshot.snapshot_id)


def shows(table: LabTable, snapshot_id: int, rows: Rows) -> None:
    seen, ought = table.shown_at(snapshot_id), sorted(map(shown, rows))
    if seen != ought:
        back = [row for row in seen if row not in ought or seen.count(row) > 1]
        lost = [row for row in ought if row not in seen]
        raise Broken(f"{snapshot_id} shows {back} too many, {lost} too few (key, version, p)")


def shown(row: Row) -> Shown:
    return row.key, row.version, row.p


def whole(table: LabTable, snapshot_id: int) -> None:
    live = table.live_at(snapshot_id)
    paths = [file.path for file in live.data]
    if len(paths) != len(set(paths)):
        raise Broken(f"a data file is live twice: {sorted(paths)}")
    for file in (*live.data, *live.deletes):
        if not table.ground.storage.exists(file.path):
            raise Broken(f"{snapshot_id} has {file.path}, which does not exist")


def said(table: LabTable) -> Said:
    """What position-delete files say of live files."""
    live = table.live()
    paths = {file.path for file in live.data}
    return {
        mark: delete.sequence_number
        for delete in sorted(live.deletes, key=lambda one: one.sequence_number)
        if delete.kind is DeleteKind.POSITION
        for mark in table.marks_of(delete)
        if mark[0] in paths
    }


def says_the_same(table: LabTable, before: Said, converted: set[str]) -> None:
    """Of files that stay, under the same number (unpaired-repair hazard, H5); of those that may
    have been `converted`, by whatever file."""
    now, live = said(table), {file.path for file in table.live().data}
    for mark, number in before.items():
        if mark[0] in live - converted and now.get(mark) != number:
            raise Broken(f"{mark} was deleted at {number}, and now at {now.get(mark)}")


def nothing_left(table: LabTable, waiting: Iterable[str | None]) -> None:
    """No file of ours lies about that no retained snapshot has, but those that are `waiting`."""
    storage = table.ground.storage
    ours = {path for path in storage.made - storage.gone if "firnline-" in path}
    left = ours - set(waiting)
    if left:
        left -= retained(table)
    if left:
        raise Broken(f"left behind: {sorted(left)}")


def retained(table: LabTable) -> set[str]:
    """Files of all retained snapshots."""
    found = (table.live_at(one.snapshot_id) for one in table.loaded.snapshots)
    return {file.path for live in found for file in (*live.data, *live.deletes)}
