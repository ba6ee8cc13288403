"""Read what is behind a head whose catalog shows no history from its manifests
(`firnline_domain.commits.ancestry`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock

from cachetools import LRUCache
from firnline_domain.commits.ancestry import KnownAncestry, traced_snapshots

from firnline_iceberg.metadata.entries import FileEntry
from firnline_iceberg.table.loaded_table import LoadedTable

MAX_TABLES = 256
MAX_READ_BYTES = 64_000_000  # of manifests, for one head: 400,000 entries
UNKNOWN = KnownAncestry()


@dataclass
class KnownAncestries:
    """Ancestries of the tables that were read last. Safe for many threads."""

    _known: LRUCache[str, KnownAncestry] = field(default_factory=lambda: LRUCache(MAX_TABLES))
    _lock: Lock = field(default_factory=Lock)

    def ancestry_of(self, key: str) -> KnownAncestry:
        """Return the ancestry that was kept for the table with this key, or an empty one."""
        with self._lock:
            return self._known.get(key, UNKNOWN)

    def keep_ancestry(self, key: str, lineage: KnownAncestry) -> None:
        """Keep the ancestry of the table with this key, in place of an earlier one. The table that
        was read longest ago may be forgotten for it."""
        with self._lock:
            self._known[key] = lineage


def hides_history(table: LoadedTable, snapshot_id: int) -> bool:
    """Return True if a snapshot has parents that the catalog hides. The oldest shown one then has
    no parent, and is not the table's first one: its list names files of other snapshots, or it is
    the only one and its number is above 1. Expired parents are still named. Raises SnapshotGone,
    MetadataFileGone, RetryLater."""
    table.snapshot(snapshot_id)
    *_, oldest = table.ancestors(snapshot_id)
    if oldest.parent_snapshot_id is not None:
        return False
    if len(table.snapshots) == 1 and (oldest.sequence_number or 0) > 1:
        return True
    return bool(traced_snapshots(table.manifests_of(oldest)) - {oldest.snapshot_id})


def find_traces(
    table: LoadedTable,
    snapshot_id: int,
    wanted: frozenset[int],
    read: Iterable[FileEntry] = (),
    lineages: KnownAncestries | None = None,
) -> frozenset[int]:
    """Return the snapshots behind one whose history is hidden; at least those of `wanted` with an
    entry in it. `read`: entries of it that were read anyway; others are read if these and
    `lineages` are not enough. Raises the errors of `hides_history`."""
    shown = [one.snapshot_id for one in table.ancestors(snapshot_id)]
    if len(shown) > 1 and wanted <= set(shown):  # no list of a root has to be read for it
        return frozenset()
    if not hides_history(table, snapshot_id):
        return frozenset()
    key = table.identity.key
    known = UNKNOWN if lineages is None else lineages.ancestry_of(key)
    manifests = table.manifests_of(table.snapshot(snapshot_id))
    found = known.ancestors_of(traced_snapshots(manifests, read))
    left = MAX_READ_BYTES
    for manifest in manifests:
        if wanted <= found:
            break
        if manifest.existing_files == 0:  # then all entries are of the snapshot that wrote it
            continue
        if (left := left - manifest.length) < 0:
            break
        found |= known.ancestors_of(traced_snapshots((), table.entries_of(manifest)))
    if lineages is not None:
        lineages.keep_ancestry(key, known.with_head(snapshot_id, found - {snapshot_id}))
    return found
