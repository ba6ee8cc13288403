"""Files below a table's location that nothing in the table names: what writers that died have left.

What is compared is the last segment of a path, not the path: a scheme, a host or an encoding that
somebody spells otherwise makes no file an orphan. Where two files share a name, both are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from firnline_domain.errors import StorageUnreachable, TaskRefused
from firnline_domain.records.orphans import OrphanRefusal
from pyarrow.fs import FileInfo, FileSelector, FileType

from firnline_iceberg.inventory import Inventory
from firnline_iceberg.locations import address, metadata_folders
from firnline_iceberg.naming import PREFIX, file_name, folder_of
from firnline_iceberg.removal import QUARANTINE, shares_files
from firnline_iceberg.retained_names import RetainedNames
from firnline_iceberg.storage import file_system
from firnline_iceberg.tables import LoadedTable

# More than half of a table's files are no leftovers: the location is another's, or the metadata
# that was read is not all there is.
MAX_SHARE, SURELY_FEW = 0.5, 100
_METADATA = (".metadata.json", ".metadata.json.gz")
_HADOOP = "version-hint.text"  # names a Hadoop catalog's newest metadata file


@dataclass(frozen=True)
class StoredFile:
    """`place`: below the table's location, without a slash in front. `stored_at_ms`: by the
    storage's clock."""

    place: str
    bytes: int
    stored_at_ms: int


@dataclass(frozen=True)
class Orphans:
    """`seen`: files that were old enough to be orphans."""

    files: tuple[StoredFile, ...]
    seen: int

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.files)


class Storage:
    """What lies below a table's location, through Arrow: PyIceberg's FileIO cannot list.

    Raises StorageUnreachable, everywhere.
    """

    def __init__(self, table: LoadedTable) -> None:
        self._files, self._root = file_system(table.io, table.metadata.location.rstrip("/"))

    def files(self, below: str = "") -> Iterator[StoredFile]:
        """All of them, directory by directory: those of one are in memory. Nothing for a place that
        is not there."""
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

    def move(self, place: str, to: str) -> None:
        """On an object store a copy, and then a deletion."""
        try:
            target = self._path(to)
            self._files.create_dir(folder_of(target), recursive=True)
            self._files.move(self._path(place), target)
        except FileNotFoundError:
            return  # a writer has cleared it up itself
        except OSError as error:
            raise StorageUnreachable(f"cannot move {place}: {error}") from error

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

    def _path(self, place: str) -> str:
        return f"{self._root}/{place}" if place else self._root


def _stored_at_ms(info: FileInfo) -> int:
    if info.mtime_ns is None:
        text = f"the storage does not say when {info.path} was written"
        raise TaskRefused(OrphanRefusal.NOT_DATED, text)
    return int(info.mtime_ns) // 1_000_000


def find_orphans(
    table: LoadedTable,
    names: RetainedNames,
    storage: Storage,
    older_than_ms: int,
    inventory: str = "",
    forced: bool = False,
) -> Orphans:
    """Files stored before `older_than_ms`, by the storage's clock, that the table does not name.

    `inventory`: read in place of listing; what it calls an orphan is looked at. `forced`: a person
    has looked at how many there are. Firnline's own leftovers are no orphans: they stand on
    write-ahead lists (`sweeping`). Raises as `Storage` and `Inventory`, and TaskRefused with an
    `OrphanRefusal`.
    """
    if not inventory:
        return _found(table, names, storage.files(), older_than_ms, forced)
    files = _from_inventory(table, Inventory.of(table.io, inventory))
    told = _found(table, names, files, older_than_ms, forced)
    there = storage.as_they_are(told.files)
    return Orphans(tuple(one for one in there if one.stored_at_ms < older_than_ms), told.seen)


def _from_inventory(table: LoadedTable, inventory: Inventory) -> Iterator[StoredFile]:
    location = table.metadata.location.rstrip("/")
    root = address(location)
    length = len("/".join(root.segments)) + 1 if root else 0
    for one in inventory.below(location):
        if not one.key.endswith("/"):  # else a mark that stands for a folder
            yield StoredFile(one.key[length:], one.bytes, one.stored_at_ms)


def _found(
    table: LoadedTable,
    names: RetainedNames,
    files: Iterable[StoredFile],
    older_than_ms: int,
    forced: bool,
) -> Orphans:
    folders = {address(folder) for folder in metadata_folders(table)}
    location = table.metadata.location.rstrip("/")
    found, seen = [], 0
    for file in files:
        name = file_name(file.place)
        if file.place.startswith(f"{QUARANTINE}/"):
            continue  # among it the table's own old metadata files
        if (
            name.endswith(_METADATA)
            and address(f"{location}/{folder_of(file.place)}") not in folders
        ):
            text = f"another table keeps its metadata below this one's location: {file.place}"
            raise TaskRefused(OrphanRefusal.SHARED_LOCATION, text)
        if _is_hidden(file.place) or file.stored_at_ms >= older_than_ms:
            continue
        seen += 1
        if not names.has(name):
            found.append(file)
    if not forced and len(found) > max(SURELY_FEW, MAX_SHARE * seen):
        text = f"{len(found):,} of {seen:,} files would be orphans"
        raise TaskRefused(OrphanRefusal.TOO_MANY, text)
    return Orphans(tuple(found), seen)


def refuse_unclear(table: LoadedTable) -> None:
    """Raises TaskRefused where the location says too little about whose files lie there."""
    if shares_files(table):
        raise TaskRefused(OrphanRefusal.GC_DISABLED, "gc.enabled=false: others have its files")
    root = address(table.metadata.location)
    if root is None or len(root.segments) < 1:
        text = f"{table.metadata.location} is the root of a bucket, or no clear place"
        raise TaskRefused(OrphanRefusal.UNCLEAR_LOCATION, text)
    current = address(folder_of(table.metadata_location))
    if current is None or not current.within(root):
        text = f"its metadata lies elsewhere, in {folder_of(table.metadata_location)}"
        raise TaskRefused(OrphanRefusal.UNCLEAR_LOCATION, text)


def _is_hidden(place: str) -> bool:
    """Of Firnline, of a Hadoop catalog, or by the convention that Hadoop and Iceberg have."""
    segments = place.split("/")
    if segments[-1].startswith(PREFIX) or segments[-1] == _HADOOP:
        return True
    return any(one.startswith((".", "_")) and "=" not in one for one in segments)
