"""Orphans wait before they are deleted: moved aside, where whoever misses one finds it, below
`firnline-quarantine/TIME/` with the path that it had. TIME is the storage's, in milliseconds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

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
from firnline_iceberg.table.retained_names import RetainedNames, content_paths

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


@dataclass(frozen=True)
class _NamedPlaces:
    """Places in a quarantine at which the table itself has files: somebody has added them there, or
    writes there. Manifests are read once, at the first question."""

    table: LoadedTable
    names: RetainedNames

    def contains(self, path: str) -> bool:
        """Return True if the table names this very path. Raises the errors of `content_paths`."""
        found = parse_address(path)
        return found is None or found.segments in self._segments

    @cached_property
    def _segments(self) -> set[tuple[str, ...]]:
        manifests = self.names.manifests
        paths = chain.from_iterable(content_paths(self.table, one, False) for one in manifests)
        own = (one for one in chain(paths, manifests, self.names.lists) if f"/{QUARANTINE}/" in one)
        return {one.segments for one in map(parse_address, own) if one is not None}


def release_files(
    table: LoadedTable, names: RetainedNames, storage: Storage, before_ms: int
) -> QuarantineRelease:
    """Delete what was put in before `before_ms`; put back what the table names by now, however long
    it has been there. 0: nothing is deleted. Raises StorageUnreachable, OSError."""
    deleted = deleted_bytes = 0
    due, missed, left = list[ListedObject](), list[FileMove](), dict[str, str]()
    owner, live = Ownership(table), _NamedPlaces(table, names)
    for at_ms, file in list_quarantined(storage):
        if names.has_name(file_name(file.place)):
            _, _, place = file.place.split("/", 2)
            if live.contains(f"{storage.location}/{file.place}"):
                left[file.place] = "the table names it in the quarantine"
            elif not storage.has_file(place):
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
