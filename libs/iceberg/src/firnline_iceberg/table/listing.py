"""List what lies below a table's location: PyIceberg's FileIO can neither list nor move.

On S3 by Amazon's client where it reaches the store (`s3_client`), on this machine without following
links (`local_files`), else by Arrow's file system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from firnline_domain.errors import StorageUnreachable, TaskRefused
from firnline_domain.records.parts.orphans import OrphanRefusal
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, GcsFileSystem

from firnline_iceberg.storage.file_io import file_system, s3_bucket
from firnline_iceberg.storage.local_files import FoundFiles, LinkOnPath, list_folders
from firnline_iceberg.storage.paths import resolve_folder
from firnline_iceberg.storage.s3_client import S3Bucket
from firnline_iceberg.storage.s3_listing import ListPage, NotOrdered, all_below, listed_in_turn
from firnline_iceberg.storage.stored_files import ListedObject, StoredFiles
from firnline_iceberg.table.loaded_table import LoadedTable

AT_ONCE = 1_000  # files of a directory that are handed on together
_DIRECTORY_BUCKET = "--x-s3"  # S3 Express: it lists in no order


class Storage:
    """Storage of one table. `links`: places of links that were met and not followed. Raises
    StorageUnreachable, everywhere; UnclearPath where the location is unclear."""

    def __init__(self, table: LoadedTable, location: str = "") -> None:
        """List a table's storage. `location`: another folder than the table's location."""
        self.io, self.location = table.io, (location or table.metadata.location).rstrip("/")
        self.links: list[str] = []
        self._ordered = True

    def list_files(self, below: str = "") -> Iterator[ListedObject]:
        """Yield the files of `pages`, one by one."""
        for some in self.list_pages(below):
            yield from some

    def list_pages(self, below: str = "", skipped: str = "") -> Iterator[StoredFiles]:
        """Yield all of them, in no order: a page of a listing or a directory in memory, on Google's
        store all. Nothing for a place that is not there. `skipped`: a folder of which only some
        files may come.

        Raises NotOrdered, and then lists in turn when it is asked again."""
        bucket, root = self.find_bucket()
        if self.local_path is not None:
            yield from self._by_folder(below)
            return
        if bucket is None:
            yield from self._by_arrow(below)
            return
        prefix = f"{root}{below}/" if below else root
        in_turn = not self._ordered or bucket.name.endswith(_DIRECTORY_BUCKET)
        try:
            for page in (
                listed_in_turn(self._request_page, prefix)
                if in_turn
                else all_below(self._request_page, prefix, f"{prefix}{skipped}/" if skipped else "")
            ):
                yield page.files_below(root)
        except NotOrdered:
            self._ordered = False
            raise
        except OSError as error:
            raise StorageUnreachable(f"cannot list {below or 'the location'}: {error}") from error

    def current_bucket(self) -> tuple[S3Bucket, str]:
        """Return `find_bucket`, where there was one a moment ago."""
        bucket, root = self.find_bucket()
        if bucket is None:
            raise StorageUnreachable("the catalog hands out keys of another kind by now")
        return bucket, root

    def _request_page(
        self, prefix: str, after: str = "", token: str = "", by_folder: bool = False
    ) -> ListPage:
        """Request a page with the current keys."""
        bucket, _ = self.find_bucket()
        if bucket is None:
            raise OSError("the catalog hands out keys of another kind by now")
        return bucket.list_page(prefix, after, token, by_folder)

    def find_bucket(self) -> tuple[S3Bucket | None, str]:
        """Return the bucket with the current keys, and what the keys of all files begin with. None:
        Arrow's file system is the only way."""
        found = s3_bucket(self.io, self.location)
        return (None, "") if found is None else (found[0], f"{found[1]}/" if found[1] else "")

    @cached_property
    def local_path(self) -> str | None:
        """Return the location as a path of this host; None: it is elsewhere."""
        found = resolve_folder(self.location)
        return found.local_path if found.is_local else None

    def _by_folder(self, below: str) -> Iterator[StoredFiles]:
        links = list[str]()
        try:
            for some in list_folders(f"{self.local_path}/{below}", links):
                for at in range(0, len(some), AT_ONCE):
                    yield _found_here(some[at : at + AT_ONCE], f"{below}/" if below else "")
        except LinkOnPath as error:
            raise TaskRefused("link_in_location", str(error)) from error
        except OSError as error:
            raise StorageUnreachable(f"cannot list {below or 'the location'}: {error}") from error
        finally:
            self.links += [f"{below}/{one}" if below else one for one in links]

    def _by_arrow(self, below: str) -> Iterator[StoredFiles]:
        """Yield the files of a folder by Arrow, one directory at a time. Google's store has no
        folders, and Arrow lists none that only keys imply: it lists all at once, a thousand objects
        a request."""
        flat = isinstance(self.arrow_files, GcsFileSystem)
        folders = [below]
        while folders:
            files = list[FileInfo]()
            for info in self._list_with_arrow(folders.pop(), recursive=flat):
                if info.is_file:
                    files.append(info)
                elif not flat and info.type is FileType.Directory:
                    folders.append(self._place_of(info))
            for at in range(0, len(files), AT_ONCE):
                yield self._to_stored_files(files[at : at + AT_ONCE])

    def _to_stored_files(self, infos: Sequence[FileInfo]) -> StoredFiles:
        times = np.array([_stored_at_ms(info) for info in infos], dtype=np.int64)
        places, sizes = [self._place_of(info) for info in infos], [info.size or 0 for info in infos]
        return StoredFiles(places, sizes, times)

    def _place_of(self, info: FileInfo) -> str:
        """Return a file's path below the storage's location, without a leading slash."""
        found: str = info.path[len(self._arrow_root) :].lstrip("/")
        return found

    def stat_files(self, files: Sequence[ListedObject]) -> list[ListedObject]:
        """Return those that are there, with their current size and time: a request each."""
        try:
            infos = self.arrow_files.get_file_info([self.arrow_path(one.place) for one in files])
        except OSError as error:
            raise StorageUnreachable(f"cannot look at {len(files):,} files: {error}") from error
        return [
            ListedObject(one.place, info.size or 0, _stored_at_ms(info))
            for one, info in zip(files, infos, strict=True)
            if info.is_file
        ]

    def has_file(self, place: str) -> bool:
        """Return True if there is a file."""
        try:
            return bool(self.arrow_files.get_file_info(self.arrow_path(place)).is_file)
        except OSError as error:
            raise StorageUnreachable(f"cannot look at {place}: {error}") from error

    def _list_with_arrow(self, below: str, recursive: bool = False) -> list[FileInfo]:
        chosen = FileSelector(self.arrow_path(below), allow_not_found=True, recursive=recursive)
        try:
            found: list[FileInfo] = self.arrow_files.get_file_info(chosen)
        except OSError as error:
            raise StorageUnreachable(f"cannot list {below or 'the location'}: {error}") from error
        return found

    @property
    def arrow_files(self) -> FileSystem:
        """Return Arrow's file system with the current keys."""
        return file_system(self.io, self.location)[0]

    @cached_property
    def _arrow_root(self) -> str:
        return file_system(self.io, self.location)[1]

    def arrow_path(self, place: str) -> str:
        """Return the path for `arrow`."""
        return f"{self._arrow_root}/{place}" if place else self._arrow_root


def _found_here(some: FoundFiles, below: str) -> StoredFiles:
    times = np.array([about.st_mtime_ns // 1_000_000 for _, about in some], dtype=np.int64)
    places, sizes = [f"{below}{place}" for place, _ in some], [about.st_size for _, about in some]
    return StoredFiles(places, sizes, times)


def _stored_at_ms(info: FileInfo) -> int:
    if info.mtime_ns is None:
        text = f"the storage does not say when {info.path} was written"
        raise TaskRefused(OrphanRefusal.NOT_DATED, text)
    return int(info.mtime_ns) // 1_000_000
