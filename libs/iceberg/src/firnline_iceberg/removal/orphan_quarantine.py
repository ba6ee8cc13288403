"""Orphans wait before they are deleted: moved aside, where whoever misses one finds it, below
`firnline-quarantine/TIME/` with the path that it had. TIME is the storage's, in milliseconds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from firnline_iceberg.removal.file_ownership import Ownership
from firnline_iceberg.removal.moves import Mover, MoveResult
from firnline_iceberg.removal.removal import (
    QUARANTINE,
    FileMove,
    quarantine_place,
    remove_quarantined,
)
from firnline_iceberg.storage.paths import file_name, parse_address
from firnline_iceberg.storage.stored_files import ListedObject
from firnline_iceberg.table.listing import AT_ONCE, Storage
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.retained_names import RetainedNames

_TIME = re.compile(r"[1-9][0-9]{0,18}|0")


@dataclass(frozen=True)
class QuarantineRelease:
    """Result for files whose time in the quarantine is over, and for those that were missed.
    `left`: why some of these stay where they are, by their places."""

    deleted: int = 0
    deleted_bytes: int = 0
    restored: int = 0
    left: dict[str, str] = field(default_factory=dict)


def move_in(storage: Storage, files: Iterable[ListedObject], at_ms: int) -> MoveResult:
    """Move orphans into the quarantine of their location. Raises StorageUnreachable; files moved by
    then stay moved."""
    return Mover(storage).move_all(
        FileMove(one.place, quarantine_place(at_ms, one.place), one.bytes) for one in files
    )


def list_quarantined(storage: Storage) -> Iterator[tuple[int, ListedObject]]:
    """Yield each file with the time from which it is there. Folders of other names, and paths that
    may be read in two ways, are left out."""
    for file in storage.list_files(QUARANTINE):
        _, name, *place = file.place.split("/", 2)
        is_time = _TIME.fullmatch(name) is not None
        if place and is_time and parse_address(f"{storage.location}/{file.place}") is not None:
            yield int(name), file


def release_files(
    table: LoadedTable, names: RetainedNames, storage: Storage, before_ms: int
) -> QuarantineRelease:
    """Delete what was put in before `before_ms`; put back what the table names by now, however long
    it has been there. 0: nothing is deleted. Raises StorageUnreachable, OSError."""
    deleted = deleted_bytes = 0
    due, missed, left = list[ListedObject](), list[FileMove](), dict[str, str]()
    owner = Ownership(table)
    for at_ms, file in list_quarantined(storage):
        if names.has_name(file_name(file.place)):
            _, _, place = file.place.split("/", 2)
            if not storage.has_file(place):
                missed.append(FileMove(file.place, place, file.bytes))
        elif at_ms < before_ms:
            _, _, place = file.place.split("/", 2)
            if why := owner.why_not_named(place):  # somebody else has put it here
                left[file.place] = why
            else:
                due.append(file)
    moved = Mover(storage).move_all(missed)
    for at in range(0, len(due), AT_ONCE):
        some = due[at : at + AT_ONCE]
        deleted += remove_quarantined(table, [one.place for one in some])
        deleted_bytes += sum(one.bytes for one in some)
    return QuarantineRelease(deleted, deleted_bytes, moved.files, {**moved.left, **left})
