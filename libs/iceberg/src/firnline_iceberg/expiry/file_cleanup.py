"""Remove what no snapshot needs any more once snapshots are out of a table's metadata.

By reachability, whatever refs there are: a manifest that only expired snapshots list is read, and
of its files those go that no manifest of a retained snapshot has. Data files go first and manifest
lists last, so that what was interrupted can be found again from the lists."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice

from firnline_domain.errors import StorageUnreachable

from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.removal.removal import ExpiredRemoval
from firnline_iceberg.storage.paths import file_name
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.retained_names import (
    ListReader,
    NamesReader,
    RetainedNames,
    content_names,
    content_paths,
    manifest_paths,
)

READERS, REMOVERS = 8, 16  # threads; a deletion is one request that waits
BULK_REMOVERS = 4  # where one request removes a thousand: S3 counts each of them
PORTION = 4_000  # files that are being removed at a time
TRIES, WAIT_S = 4, 0.5  # of one deletion; a store that is asked too often says 503


@dataclass(frozen=True)
class ExpiredLists:
    """Manifest lists of expired snapshots, and statistics of their own."""

    lists: tuple[str, ...]
    statistics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cleaned:
    """Files that were removed; those that were gone already count where a store does not say.
    `left`: path -> why a file stays that nothing needs."""

    content: int = 0
    manifests: int = 0
    lists: int = 0
    left: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> int:
        return self.content + self.manifests + self.lists


def named_by_snapshots(table: LoadedTable, gone: Iterable[int]) -> ExpiredLists:
    """Return what snapshots named, of a table as it was before the expiry."""
    ids = frozenset(gone)
    metadata = table.metadata
    lists = [one.manifest_list for one in metadata.snapshots if one.snapshot_id in ids]
    statistics = [
        one.statistics_path
        for one in chain(metadata.statistics, metadata.partition_statistics)
        if one.snapshot_id in ids
    ]
    return ExpiredLists(tuple(lists), tuple(statistics))


def remove_unneeded(
    table: LoadedTable,
    expired: ExpiredLists,
    outside: Callable[[str], str] | None = None,
    manifests_of: ListReader = manifest_paths,
    names_of: NamesReader = content_names,
) -> Cleaned:
    """Remove what no retained snapshot needs. `table`: as it is after the expiry. `outside`:
    returns why a file outside its own locations stays, if the table's owner allows the removal of
    such files.

    In memory: 16 bytes for each file that the table retains, the paths of manifests, and 64 bytes
    for each file that is removed. Raises MetadataFileGone (expired by another since),
    MetadataUnreadable, RetryLater, TaskRefused."""
    retained = RetainedNames(table, True, manifests_of, names_of)
    lists = [path for path in expired.lists if not retained.has_name(file_name(path))]
    named = set(chain.from_iterable(manifests_of(table, lists, skip_gone=True)))
    manifests = {path for path in named if not retained.has_name(file_name(path))}
    removal = ExpiredRemoval(table, outside)

    def count_removed(paths: Iterable[str]) -> int:
        return _remove_paths(removal, paths)

    content = count_removed(_unneeded_files(table, retained, sorted(manifests)))
    content += count_removed(
        one for one in expired.statistics if not retained.has_name(file_name(one))
    )
    return Cleaned(content, count_removed(sorted(manifests)), count_removed(lists), removal.left)


def _unneeded_files(
    table: LoadedTable, retained: RetainedNames, manifests: Sequence[str]
) -> Iterator[str]:
    """Yield the files of these manifests, each once."""
    seen = set[int]()
    with ThreadPoolExecutor(READERS) as pool:
        for some in _in_portions(manifests, 2 * READERS):
            for paths in pool.map(lambda path: _live_paths(table, path), some):
                for path in paths:
                    if not retained.has_name(file_name(path)) and (key := hash(path)) not in seen:
                        seen.add(key)
                        yield path


def _live_paths(table: LoadedTable, path: str) -> list[str]:
    """Return the paths of a manifest's live files; none if the manifest is missing: an earlier
    cleanup has removed it after its files."""
    try:
        return list(content_paths(table, path, live_alone=True))
    except MetadataFileGone:
        return []


def _remove_paths(removal: ExpiredRemoval, paths: Iterable[str]) -> int:
    at_once = removal.at_once
    with ThreadPoolExecutor(REMOVERS if at_once == 1 else BULK_REMOVERS) as pool:
        return sum(
            sum(pool.map(partial(_remove_with_retries, removal), _in_portions(some, at_once)))
            for some in _in_portions(paths, PORTION)
        )


def _remove_with_retries(removal: ExpiredRemoval, paths: list[str]) -> int:
    for attempt in range(TRIES):
        try:
            return removal.remove_allowed(paths)
        except OSError as error:
            if attempt == TRIES - 1:
                text = f"cannot remove {paths[0]}, or one of {len(paths)}: {error}"
                raise StorageUnreachable(text) from error
            time.sleep(random.uniform(0, WAIT_S * 2**attempt))
    raise AssertionError


def _in_portions(paths: Iterable[str], size: int) -> Iterator[list[str]]:
    left = iter(paths)
    while some := list(islice(left, size)):
        yield some
