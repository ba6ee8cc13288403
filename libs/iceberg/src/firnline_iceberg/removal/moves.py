"""Moves files of a table from a place below its location to another. One that cannot be moved
stays, and is told; the others are moved.

Arrow's move is a rename on local disks, HDFS and Azure's stores with folders. On S3 and on Azure's
others a move is a copy and a deletion; Arrow's would also write a mark for each folder on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from typing import Final

from firnline_domain.errors import StorageUnreachable

from firnline_iceberg.removal.removal import (
    FileMove,
    NotRemovable,
    copies_to_move,
    copy_large_file,
    copy_small_file,
    remove_copied,
    rename_file,
)
from firnline_iceberg.storage.s3_multipart_copy import MAX_COPY, PART_BYTES
from firnline_iceberg.table.listing import Storage

THREADS: Final = 8  # moves at once
AT_ONCE: Final = 1_000  # files that are copied before any of them is removed where they were
MAX_LEFT: Final = 100  # files of which each may have its reason; of more it is the store's


@dataclass
class MoveResult:
    """Result of moving files. What had been cleared up by its writer is in neither."""

    files: int = 0
    bytes: int = 0
    left: dict[str, str] = field(default_factory=dict)

    def _add_moved(self, move: FileMove) -> None:
        self.files += 1
        self.bytes += move.bytes

    def _add_left(self, move: FileMove, error: Exception | str) -> None:
        self.left[move.place] = str(error)
        if len(self.left) > MAX_LEFT:
            raise StorageUnreachable(f"cannot move {move.place}, nor {MAX_LEFT} others: {error}")


@dataclass
class Mover:
    """Moves files of one table. `max_copy`: bytes of the largest object that the store copies by
    one request; larger ones are copied by parts of `part_bytes`."""

    storage: Storage
    max_copy: int = MAX_COPY
    part_bytes: int = PART_BYTES

    def move_all(self, moves: Iterable[FileMove]) -> MoveResult:
        """Move files. On S3 by a copy of each, and one deletion for each thousand; a file that is
        copied and not yet deleted is in both places if the process ends. Raises StorageUnreachable
        if more than `MAX_LEFT` cannot be moved; files moved by then stay moved."""
        found, rest = MoveResult(), iter(moves)
        with ThreadPoolExecutor(THREADS) as pool:
            while some := list(islice(rest, AT_ONCE)):
                if self.storage.find_bucket()[0] is None:
                    _move_all(pool, self._move_file, some, found, found._add_moved)
                else:
                    self._move_objects(pool, some, found)
        return found

    def _move_objects(
        self, pool: ThreadPoolExecutor, some: Sequence[FileMove], found: MoveResult
    ) -> None:
        copied = list[FileMove]()
        small = [one for one in some if one.bytes <= self.max_copy]
        _move_all(pool, self._copy_and_delete, small, found, copied.append)
        for one in some:
            if one.bytes > self.max_copy:
                try:
                    done = copy_large_file(pool, self.storage, one, self.part_bytes)
                except (NotRemovable, OSError) as error:
                    found._add_left(one, error)
                else:
                    copied += [one] if done else []
        try:
            stuck = remove_copied(self.storage, copied)
        except OSError as error:
            raise StorageUnreachable(f"moved, not removed: {error}") from error
        for one in copied:
            if (why := stuck.get(one.place)) is None:
                found._add_moved(one)
            else:
                found._add_left(one, f"copied, not removed: {why}")

    def _move_file(self, move: FileMove) -> bool:
        """Move a file. False: it is not there any more. Raises NotRemovable, OSError."""
        if not self._store_copies:
            return rename_file(self.storage, move)
        if not self._copy_and_delete(move):
            return False
        remove_copied(self.storage, [move])
        return True

    @cached_property
    def _store_copies(self) -> bool:
        return copies_to_move(self.storage)

    def _copy_and_delete(self, move: FileMove) -> bool:
        """Move a file within the store. False: it is not there any more. Raises NotRemovable,
        OSError."""
        return copy_small_file(self.storage, move)


def _move_all(
    pool: ThreadPoolExecutor,
    act: Callable[[FileMove], bool],
    moves: Sequence[FileMove],
    found: MoveResult,
    done: Callable[[FileMove], None],
) -> None:
    """Move each; those that fail are left. As many are on their way as there are threads."""
    for move, told in zip(moves, pool.map(partial(_run_or_error, act), moves), strict=True):
        if isinstance(told, Exception):
            found._add_left(move, told)
        elif told:
            done(move)


def _run_or_error(act: Callable[[FileMove], bool], move: FileMove) -> bool | Exception:
    try:
        return act(move)
    except (NotRemovable, OSError) as error:
        return error
