"""Moves files of a table from a place below its location to another. One that cannot be moved
stays, and is told; the others are moved.

Arrow's move is a rename on local disks, HDFS and Azure's stores with folders. On S3 and on Azure's
others a move is a copy and a deletion; Arrow's would also write a mark for each folder on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from typing import Final, NamedTuple

from firnline_domain.errors import StorageUnreachable
from pyarrow.fs import AzureFileSystem, GcsFileSystem

from firnline_iceberg.below_location import Storage
from firnline_iceberg.naming import folder_of
from firnline_iceberg.removal import remove_copied
from firnline_iceberg.s3_client import Bucket, NotRemoved
from firnline_iceberg.s3_copies import MAX_COPY, PART_BYTES, copy_in_parts

THREADS: Final = 8  # moves at once
AT_ONCE: Final = 1_000  # files that are copied before any of them is removed where they were
MAX_LEFT: Final = 100  # files of which each may have its reason; of more it is the store's


class Move(NamedTuple):
    """`bytes`: as listed; 0: not known."""

    place: str
    to: str
    bytes: int = 0


@dataclass
class Moved:
    """`left`: why each file that could not be moved is where it was, by its place. What had been
    cleared up by its writer is in neither."""

    files: int = 0
    bytes: int = 0
    left: dict[str, str] = field(default_factory=dict)

    def _add(self, move: Move) -> None:
        self.files += 1
        self.bytes += move.bytes

    def _leave(self, move: Move, error: Exception | str) -> None:
        self.left[move.place] = str(error)
        if len(self.left) > MAX_LEFT:
            raise StorageUnreachable(f"cannot move {move.place}, nor {MAX_LEFT} others: {error}")


@dataclass
class Mover:
    """Of one table. `max_copy`: bytes of the largest object that the store copies by one request;
    larger ones are copied by parts of `part_bytes`."""

    storage: Storage
    max_copy: int = MAX_COPY
    part_bytes: int = PART_BYTES

    def move_all(self, moves: Iterable[Move]) -> Moved:
        """On S3 a copy of each, and a deletion for each thousand; a file that is copied and not yet
        deleted is in both places if this ends. Raises StorageUnreachable where more than `MAX_LEFT`
        cannot be moved; what has been moved by then stays there."""
        found, rest = Moved(), iter(moves)
        with ThreadPoolExecutor(THREADS) as pool:
            while some := list(islice(rest, AT_ONCE)):
                if self.storage.bucket()[0] is None:
                    _tried(pool, self._move, some, found, found._add)
                else:
                    self._move_objects(pool, some, found)
        return found

    def _move_objects(self, pool: ThreadPoolExecutor, some: Sequence[Move], found: Moved) -> None:
        copied = list[Move]()
        small = [one for one in some if one.bytes <= self.max_copy]
        _tried(pool, self._copy, small, found, copied.append)
        for one in some:
            if one.bytes > self.max_copy:
                try:
                    done = copy_in_parts(
                        pool, self._bucket_of_now, one.place, one.to, self.part_bytes
                    )
                except OSError as error:
                    found._leave(one, error)
                else:
                    copied += [one] if done else []
        bucket, root = self._bucket_of_now()
        stuck = dict[str, str]()
        try:
            bucket.remove([f"{root}{one.place}" for one in copied])
        except NotRemoved as error:
            stuck = error.keys
        except OSError as error:
            raise StorageUnreachable(f"moved, not removed: {error}") from error
        for one in copied:
            if (why := stuck.get(f"{root}{one.place}")) is None:
                found._add(one)
            else:
                found._leave(one, f"copied, not removed: {why}")

    def _bucket_of_now(self) -> tuple[Bucket, str]:
        bucket, root = self.storage.bucket()
        if bucket is None:
            raise StorageUnreachable("the catalog hands out keys of another kind by now")
        return bucket, root

    def _move(self, move: Move) -> bool:
        """False: it is not there any more. Raises OSError."""
        files = self.storage.arrow
        source, target = self.storage.path(move.place), self.storage.path(move.to)
        try:
            if self._copies:
                if not self._copy(move):
                    return False
                remove_copied(self.storage.io, f"{self.storage.location}/{move.place}")
            else:
                files.create_dir(folder_of(target), recursive=True)
                files.move(source, target)
        except FileNotFoundError:
            return False  # a writer has cleared it up itself
        return True

    @cached_property
    def _copies(self) -> bool:
        """Whether the store knows no move. Asked of what is not there, which takes no request."""
        files = self.storage.arrow
        if isinstance(files, AzureFileSystem):
            try:
                files.move(self.storage.path("firnline-none"), self.storage.path("firnline-none-2"))
            except NotImplementedError:
                return True
            except OSError:
                return False
        return isinstance(files, GcsFileSystem)

    def _copy(self, move: Move) -> bool:
        """Within the store. False: it is not there any more. Raises OSError."""
        files = self.storage.arrow
        try:
            files.copy_file(self.storage.path(move.place), self.storage.path(move.to))
        except OSError:
            with suppress(StorageUnreachable):
                if not self.storage.holds(move.place):
                    return False
            raise
        return True


def _tried(
    pool: ThreadPoolExecutor,
    act: Callable[[Move], bool],
    moves: Sequence[Move],
    found: Moved,
    done: Callable[[Move], None],
) -> None:
    """Each that could not be is left. As many are on their way as there are threads."""
    for move, told in zip(moves, pool.map(partial(_told, act), moves), strict=True):
        if isinstance(told, OSError):
            found._leave(move, told)
        elif told:
            done(move)


def _told(act: Callable[[Move], bool], move: Move) -> bool | OSError:
    try:
        return act(move)
    except OSError as error:
        return error
