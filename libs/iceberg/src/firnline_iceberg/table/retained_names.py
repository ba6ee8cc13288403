"""The names of all files that a table retains, in eight bytes each.

A name is the last segment of a path: no scheme, host or encoding that somebody spells otherwise
makes a file look unneeded. Where two files share a name, both are needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, Protocol
from unicodedata import normalize
from urllib.parse import unquote

import numpy as np
from firnline_domain.errors import TaskRefused
from pyiceberg.table.snapshots import Snapshot

from firnline_iceberg.metadata.avro_reader import MetadataFileGone, read_records
from firnline_iceberg.metadata.entries import EntryStatus
from firnline_iceberg.metadata.field_ids import ENTRY_PATHS
from firnline_iceberg.metadata.manifest_digest import Hashes
from firnline_iceberg.metadata.manifest_file_names import names_in
from firnline_iceberg.metadata.repeated_rows import RepeatedRows
from firnline_iceberg.storage.paths import file_name
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.reachability import map_in_parallel, metadata_file, named_by_metadata

THREADS = 8  # that read manifests; each holds one at a time


class ListReader(Protocol):
    """`manifest_paths`, or one that remembers."""

    def __call__(
        self, table: LoadedTable, paths: Iterable[str], skip_gone: bool = False
    ) -> Iterator[list[str]]: ...


def manifest_paths(
    table: LoadedTable, paths: Iterable[str], skip_gone: bool = False
) -> Iterator[list[str]]:
    """Yield the manifests of each of these manifest lists, in their order. `skip_gone`: none for a
    missing list. Raises MetadataFileGone, MetadataUnreadable, RetryLater."""

    rows = RepeatedRows()

    def read_list(path: str) -> list[str]:
        try:
            return rows.manifest_paths(table.io, path)
        except MetadataFileGone:
            if skip_gone:
                return []
            raise

    with ThreadPoolExecutor(THREADS) as pool:
        yield from map_in_parallel(pool, read_list, paths)


NamesReader = Callable[[LoadedTable, str, bool], Hashes]  # as `content_names`


def content_names(table: LoadedTable, path: str, live_alone: bool) -> Hashes:
    """Return the names of the data and delete files of a manifest. Raises as `manifest_paths`."""
    if live_alone:
        return _name_hashes(content_paths(table, path, live_alone))
    return _name_hashes(names_in(table.io, path))


class RetainedNames:
    """Hashes are of this process. Two that are equal keep a file that nobody needs."""

    def __init__(
        self,
        table: LoadedTable,
        live_alone: bool = False,
        manifests_of: ListReader = manifest_paths,
        names_of: NamesReader = content_names,
    ) -> None:
        """Read the metadata file, every manifest list, and every manifest once. `live_alone`:
        without files of DELETED entries.

        Raises MetadataFileGone (expired since), MetadataUnreadable, RetryLater, TaskRefused."""
        truth = metadata_file(table)
        self.location = table.metadata_location
        known = (*table.metadata.snapshots, *truth.snapshots)
        snapshots = {one.snapshot_id: one for one in known}.values()
        self.lists = tuple(dict.fromkeys(_list_of(one) for one in snapshots))
        self.manifests = set(chain.from_iterable(manifests_of(table, self.lists)))
        with ThreadPoolExecutor(THREADS) as pool:
            entries = pool.map(lambda path: names_of(table, path, live_alone), self.manifests)
            own = chain(named_by_metadata(table, truth), self.lists, self.manifests)
            parts = [_name_hashes(own), *entries]
        self._known: Hashes = np.unique(np.concatenate(parts))

    def has_name(self, name: str) -> bool:
        """Return True if the table retains a file of this name, in any spelling
        (`_all_spellings`)."""
        return self.are_known([name])[0]

    def are_known(self, names: Sequence[str]) -> list[bool]:
        """Look up many names like `has_name`: 0.4 us each, and 4 us for a single one."""
        found = self._known_as([hash(one) for one in names])
        for at, name in enumerate(names):
            if not found[at] and not _PLAIN(name):
                found[at] = any(self._known_as([hash(one) for one in _all_spellings(name)]))
        return found

    def _known_as(self, keys: Sequence[int]) -> list[bool]:
        asked = np.array(keys, dtype=np.int64)
        at = np.searchsorted(self._known, asked)
        at[at == len(self._known)] = 0
        found: list[bool] = (self._known[at] == asked).tolist()
        return found


def content_paths(table: LoadedTable, path: str, live_alone: bool) -> Iterator[str]:
    """Yield the data and delete files of a manifest. Raises the errors of `manifest_paths`."""
    for row in read_records(table.io, path, ENTRY_PATHS):
        if not live_alone or row["status"] != EntryStatus.DELETED:
            yield row["file"]["path"]


def _list_of(snapshot: Snapshot) -> str:
    """Return the manifest list of a snapshot. Raises TaskRefused without one: in v1 the metadata
    itself may list manifests, which no current writer does."""
    if not snapshot.manifest_list:
        raise TaskRefused("no_manifest_list", f"snapshot {snapshot.snapshot_id} has none")
    return snapshot.manifest_list


_PLAIN = re.compile(r"[\w.=-]+", re.ASCII).fullmatch  # is spelled in one way


def _all_spellings(name: str) -> set[str]:
    """Return the spellings of one object's name: `%3D` may be `=` in the storage, PyIceberg's
    writer cuts a path at `#`, `?` and `;`, and some file systems keep another normal form of
    Unicode."""
    found = {name, unquote(name)}
    found |= {_CUT.split(one)[0] for one in found}
    return {normalize("NFC", one) for one in found} | found


_CUT = re.compile(r"[#?;]")


def _name_hashes(paths: Iterable[Any]) -> Hashes:
    names = {file_name(path) for path in paths}
    known = {hash(name) for name in names}
    known |= {hash(one) for name in names if not _PLAIN(name) for one in _all_spellings(name)}
    return np.fromiter(known, dtype=np.int64, count=len(known))
