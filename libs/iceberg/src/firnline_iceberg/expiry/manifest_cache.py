"""Which manifests the manifest lists of tables name, in some hundred bytes a list, and which files
the manifests name, in eight bytes each.

Neither changes once it is written. An expiry reads each list two or three times, and the next
expiry of the table reads it once more; with the cache it reads what came since the last one.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from firnline_iceberg.metadata.entry_cache import FileCache
from firnline_iceberg.metadata.manifest_digest import Hashes
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.retained_names import content_names, manifest_paths

MAX_BYTES = 64_000_000  # of all tables together; as much again for names of files
NAMES_BYTES = 500  # of memory of a manifest, beside its names
LIST_BYTES, MANIFEST_BYTES = 300, 400  # of memory, beside the numbers: paths and their places


@dataclass
class _TableLists:
    """Manifests have numbers in the order in which they were seen first. So most of a list's
    numbers are one more, or one less, than the number before, which compresses to little."""

    numbers: dict[str, int] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    lists: dict[str, bytes] = field(default_factory=dict)
    packed: int = 0  # bytes
    added: int = 0  # lists, those included that have been forgotten

    @property
    def nbytes(self) -> int:
        return self.packed + LIST_BYTES * len(self.lists) + MANIFEST_BYTES * len(self.paths)

    def add(self, path: str, manifests: Collection[str]) -> None:
        if path in self.lists:
            return
        numbers = np.fromiter(map(self._number, manifests), np.int32, len(manifests))
        packed = zlib.compress(np.diff(numbers, prepend=np.int32(0)).tobytes(), 1)
        self.lists[path] = packed
        self.packed += len(packed)
        self.added += 1

    def _number(self, manifest: str) -> int:
        found = self.numbers.get(manifest)
        if found is None:
            found = self.numbers[manifest] = len(self.paths)
            self.paths.append(manifest)
        return found

    def manifests(self, packed: bytes) -> list[str]:
        steps = np.frombuffer(zlib.decompress(packed), np.int32)
        return [self.paths[number] for number in np.cumsum(steps).tolist()]

    def without_others(self, lists: Collection[str]) -> _TableLists:
        """Remove all lists but these; if at most half of all added ones remain, also the manifests
        that only removed ones named."""
        for path in self.lists.keys() - lists:
            self.packed -= len(self.lists.pop(path))
        if 2 * len(self.lists) > self.added:
            return self
        made = _TableLists()
        for path, packed in self.lists.items():
            made.add(path, self.manifests(packed))
        return made


@dataclass
class ManifestCache:
    """Of the tables that were asked for last. For threads."""

    max_bytes: int = MAX_BYTES
    bytes: int = 0  # of memory of the lists, about
    _names: FileCache = field(default_factory=lambda: FileCache(MAX_BYTES))
    _tables: OrderedDict[str, _TableLists] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def manifests(
        self, table: LoadedTable, paths: Iterable[str], skip_gone: bool = False
    ) -> Iterator[list[str]]:
        """Yield the manifests of each list in order, from the cache or by
        `retained_names.manifest_paths`. A cached list may be missing in storage by now."""
        paths = tuple(paths)
        with self._lock:
            known = self._lists_of_table(table)
            packed = {path: known.lists[path] for path in paths if path in known.lists}
        read = manifest_paths(table, [one for one in paths if one not in packed], skip_gone)
        for path in paths:
            if path in packed:
                yield known.manifests(packed[path])
            else:
                found = next(read)
                self._remember(table, path, found)
                yield found

    def _remember(self, table: LoadedTable, path: str, manifests: Sequence[str]) -> None:
        """Cache the manifests of a list, unless it is empty; evict whole tables above `max_bytes`.
        Lists are cached in order, or their numbers compress badly."""
        if not manifests:
            return
        with self._lock:
            known = self._lists_of_table(table)
            before = known.nbytes
            known.add(path, manifests)
            self.bytes += known.nbytes - before
            while self.bytes > self.max_bytes:
                self.bytes -= self._tables.popitem(last=False)[1].nbytes

    def file_names(self, table: LoadedTable, path: str, live_alone: bool) -> Hashes:
        """Return the hashes of `retained_names.content_names`, cached; the manifest may be missing
        in storage by now."""
        return self._names.get_weighed(
            (table.identity.key, path, live_alone),
            lambda: content_names(table, path, live_alone),
            lambda names: NAMES_BYTES + names.nbytes,
        )

    def keep(self, table: LoadedTable, lists: Collection[str]) -> None:
        """Remove all other lists of the table from the cache."""
        with self._lock:
            known = self._lists_of_table(table)
            before = known.nbytes
            kept = self._tables[table.identity.key] = known.without_others(lists)
            self.bytes += kept.nbytes - before

    def _lists_of_table(self, table: LoadedTable) -> _TableLists:
        """Return what is cached of a table, empty at first, and mark it as the last used."""
        key = table.identity.key
        known = self._tables.setdefault(key, _TableLists())
        self._tables.move_to_end(key)
        return known
