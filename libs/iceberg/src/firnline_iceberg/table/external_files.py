"""Files of a table that lie outside its own locations: by `add_files`, or from before a migration.

Somebody else may need them, and nothing in the table says so. Only what is clearly below one of
the table's locations is its own; a doubtful spelling makes a file external, which deletes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from threading import Lock

from cachetools import FIFOCache
from firnline_domain.errors import RetryLater
from firnline_domain.identity import normal_path
from firnline_domain.policy.table_action.snapshot_retention import may_share_files, owner_agrees
from pyiceberg.table.snapshots import Snapshot

from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.metadata.entries import FileEntry
from firnline_iceberg.storage.paths import is_clear, resolve_file
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.locations import CONTENT_PROPERTIES
from firnline_iceberg.table.retained_names import ListReader, content_paths, manifest_paths

REMEMBERED = 200_000  # manifests and lists without an external file; 100 bytes each


@dataclass(frozen=True)
class OwnLocations:
    """Prefixes of a table's own paths, each with a slash at its end. Asked of every entry of every
    manifest: 1.2 us, a seventh of taking a path apart as `Locations` does before a deletion."""

    prefixes: tuple[str, ...]

    @classmethod
    def from_properties(cls, location: str, properties: Mapping[str, str]) -> OwnLocations:
        """Return a table's location, and where its properties have data and metadata written."""
        named = (properties[name] for name in CONTENT_PROPERTIES if properties.get(name))
        found = (_spell(path).rstrip("/") + "/" for path in (location, *named))
        return cls(tuple(dict.fromkeys(found)))

    def contains(self, path: str) -> bool:
        """Return True if the file is clearly the table's own."""
        if not _spell(path).startswith(self.prefixes):
            return False
        return is_clear(path)

    def count_external(
        self, entries: Iterable[FileEntry], external: Counter[bool]
    ) -> Iterator[FileEntry]:
        """Yield the same entries, counted by whether they are external."""
        for entry in entries:
            external[not self.contains(entry.path)] += 1
            yield entry


def _spell(path: str) -> str:
    if path.startswith("/"):
        path = f"file://{path}"
    return normal_path(path)


def own_locations(table: LoadedTable) -> OwnLocations:
    """Return the locations that are a table's own, by its metadata as it was loaded."""
    return OwnLocations.from_properties(table.metadata.location, table.properties)


@dataclass
class ExternalFiles:
    """Looks for them in all that a table retains. Lists and manifests never change, so what was
    read once, and held none, is not read again: an expiry costs the commits since the last one."""

    most: int = REMEMBERED
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._clean = FIFOCache[bytes, None](self.most)

    def find_first(
        self, table: LoadedTable, manifests_of: ListReader = manifest_paths
    ) -> str | None:
        """Return the path of some file outside the table's own locations, of any retained snapshot
        of any ref; None = there is none. In memory: the paths of the table's manifests.

        Raises MetadataFileGone (expired meanwhile), RetryLater; UnclearPath where one of them may
        be read in two ways."""
        places = own_locations(table)
        statistics = (*table.metadata.statistics, *table.metadata.partition_statistics)
        for one in statistics:
            if not places.contains(one.statistics_path):
                return one.statistics_path
        unread = [
            one for one in table.snapshots if not self._is_known_clean(places, one.manifest_list)
        ]
        listed = manifests_of(table, [one.manifest_list for one in unread])
        seen = set[str]()  # manifests without one: lists that follow one another share nearly all
        for snapshot, paths in zip(unread, listed, strict=True):
            if found := self._in_snapshot(table, places, snapshot, set(paths) - seen):
                return found
            seen.update(paths)
        return None

    def keep_back(self, table: LoadedTable, manifests_of: ListReader = manifest_paths) -> bool:
        """Return True if nothing of the table may be deleted: it may share files, and its
        properties do not allow their removal. Raises RetryLater."""
        if owner_agrees(table.properties):
            return False
        try:
            shares = may_share_files(table.properties)
            return shares or self.find_first(table, manifests_of) is not None
        except MetadataFileGone as error:
            raise RetryLater(f"expired meanwhile: {error}") from error

    def _in_snapshot(
        self, table: LoadedTable, places: OwnLocations, snapshot: Snapshot, paths: set[str]
    ) -> str | None:
        """Return a path of a snapshot outside the table's own locations, else None. `paths`:
        manifests of its list to search."""
        if not places.contains(snapshot.manifest_list):
            return snapshot.manifest_list
        for manifest in paths:
            if self._is_known_clean(places, manifest):
                continue
            if not places.contains(manifest):
                return manifest
            for path in content_paths(table, manifest, live_alone=False):
                if not places.contains(path):
                    resolve_file(path)
                    return path
            self._remember_external(places, manifest)
        self._remember_external(places, snapshot.manifest_list)
        return None

    def _is_known_clean(self, places: OwnLocations, path: str) -> bool:
        """Return True if a manifest or manifest list was searched before, and names no file outside
        the table's locations."""
        with self._lock:
            return _cache_key(places, path) in self._clean

    def _remember_external(self, places: OwnLocations, path: str) -> None:
        with self._lock:
            self._clean[_cache_key(places, path)] = None


def _cache_key(places: OwnLocations, path: str) -> bytes:
    """Return the key for these locations: a table may be given others."""
    return blake2b("\n".join((path, *places.prefixes)).encode(), digest_size=16).digest()
