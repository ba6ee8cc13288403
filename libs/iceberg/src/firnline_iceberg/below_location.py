"""What lies below a table's location: PyIceberg's FileIO can neither list nor move.

On S3 by Amazon's client where it reaches the store (`s3_client`), else by Arrow's file system.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from firnline_domain.errors import StorageUnreachable, TaskRefused
from firnline_domain.records.orphans import OrphanRefusal
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType

from firnline_iceberg.naming import folder_of
from firnline_iceberg.s3_client import Bucket
from firnline_iceberg.s3_pages import NotOrdered, Page, all_below, listed_in_turn
from firnline_iceberg.storage import file_system, s3_bucket
from firnline_iceberg.tables import LoadedTable

THREADS = 8  # moves at once
AT_ONCE = 1_000  # files that are copied before any of them is removed where they were
_DIRECTORY_BUCKET = "--x-s3"  # S3 Express: it lists in no order


class StoredFile(NamedTuple):
    """`place`: below the table's location, without a slash in front. `stored_at_ms`: by the
    storage's clock."""

    place: str
    bytes: int
    stored_at_ms: int


class Storage:
    """Of one table. Raises StorageUnreachable, everywhere."""

    def __init__(self, table: LoadedTable) -> None:
        self._io, self._location = table.io, table.metadata.location.rstrip("/")
        self._ordered = True

    def files(self, below: str = "", skipped: str = "") -> Iterator[StoredFile]:
        """All of them, a page or a directory in memory, in no order. Nothing for a place that is
        not there. `skipped`: a folder of which only some files may come.

        Raises NotOrdered, and then lists in turn when it is asked again.
        """
        bucket, root = self._bucket()
        if bucket is None:
            yield from self._walked(below)
            return
        prefix = f"{root}{below}/" if below else root
        in_turn = not self._ordered or bucket.name.endswith(_DIRECTORY_BUCKET)
        try:
            for page in (
                listed_in_turn(self._ask, prefix)
                if in_turn
                else all_below(self._ask, prefix, f"{prefix}{skipped}/" if skipped else "")
            ):
                for one in page:
                    if not one.key.endswith("/"):  # else a mark that stands for a folder
                        yield StoredFile(one.key[len(root) :], one.bytes, one.stored_at_ms)
        except NotOrdered:
            self._ordered = False
            raise
        except OSError as error:
            raise StorageUnreachable(f"cannot list {below or 'the location'}: {error}") from error

    def _ask(self, prefix: str, after: str = "", token: str = "", by_folder: bool = False) -> Page:
        """With the keys of now."""
        bucket, _ = self._bucket()
        if bucket is None:
            raise OSError("the catalog hands out keys of another kind by now")
        return bucket.page(prefix, after, token, by_folder)

    def _bucket(self) -> tuple[Bucket | None, str]:
        """And what the keys of all files begin with."""
        found = s3_bucket(self._io, self._location)
        return (None, "") if found is None else (found[0], f"{found[1]}/" if found[1] else "")

    def _walked(self, below: str) -> Iterator[StoredFile]:
        folders = [below]
        while folders:
            for info in self._listed(folders.pop()):
                place = info.path[len(self._root) :].lstrip("/")
                if info.type is FileType.Directory:
                    folders.append(place)
                elif info.is_file:
                    yield StoredFile(place, info.size or 0, _stored_at_ms(info))

    def as_they_are(self, files: Sequence[StoredFile]) -> list[StoredFile]:
        """Those that are there, with size and time of now: a request each."""
        try:
            infos = self._files.get_file_info([self._path(one.place) for one in files])
        except OSError as error:
            raise StorageUnreachable(f"cannot look at {len(files):,} files: {error}") from error
        return [
            StoredFile(one.place, info.size or 0, _stored_at_ms(info))
            for one, info in zip(files, infos, strict=True)
            if info.is_file
        ]

    def folders(self, below: str) -> list[str]:
        """Names of the directories in one."""
        found = self._listed(below)
        return [info.base_name for info in found if info.type is FileType.Directory]

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        """From a place to another. On S3 a copy of each, and a deletion for each thousand; a file
        that is copied and not yet deleted is in both places if this ends. What has been moved by
        then stays there."""
        rest = iter(moves)
        with ThreadPoolExecutor(THREADS) as pool:
            while some := list(islice(rest, AT_ONCE)):
                bucket, root = self._bucket()
                if bucket is None:
                    list(pool.map(self._move, some))
                    continue
                copied = list(pool.map(self._copy, some))
                there = [place for (place, _), done in zip(some, copied, strict=True) if done]
                try:
                    bucket.remove([f"{root}{place}" for place in there])
                except OSError as error:
                    raise StorageUnreachable(f"moved, not removed: {error}") from error

    def _move(self, move: tuple[str, str]) -> None:
        place, to = move
        try:
            target = self._path(to)
            self._files.create_dir(folder_of(target), recursive=True)
            self._files.move(self._path(place), target)
        except FileNotFoundError:
            return  # a writer has cleared it up itself
        except OSError as error:
            raise StorageUnreachable(f"cannot move {place}: {error}") from error

    def _copy(self, move: tuple[str, str]) -> bool:
        """Within the store. False: it is not there any more. Arrow's move would also write a mark
        for each folder on the way, which is eight requests in place of two."""
        place, to = move
        try:
            self._files.copy_file(self._path(place), self._path(to))
        except OSError as error:
            if not self.holds(place):
                return False
            raise StorageUnreachable(f"cannot copy {place}: {error}") from error
        return True

    def holds(self, place: str) -> bool:
        """Whether there is a file."""
        try:
            return bool(self._files.get_file_info(self._path(place)).is_file)
        except OSError as error:
            raise StorageUnreachable(f"cannot look at {place}: {error}") from error

    def _listed(self, below: str) -> list[FileInfo]:
        chosen = FileSelector(self._path(below), allow_not_found=True)
        try:
            found: list[FileInfo] = self._files.get_file_info(chosen)
        except OSError as error:
            raise StorageUnreachable(f"cannot list {below or 'the location'}: {error}") from error
        return found

    @property
    def _files(self) -> FileSystem:
        """With the keys of now."""
        return file_system(self._io, self._location)[0]

    @cached_property
    def _root(self) -> str:
        return file_system(self._io, self._location)[1]

    def _path(self, place: str) -> str:
        return f"{self._root}/{place}" if place else self._root


def _stored_at_ms(info: FileInfo) -> int:
    if info.mtime_ns is None:
        text = f"the storage does not say when {info.path} was written"
        raise TaskRefused(OrphanRefusal.NOT_DATED, text)
    return int(info.mtime_ns) // 1_000_000
