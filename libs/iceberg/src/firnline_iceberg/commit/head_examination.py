"""A head as far as a few files and partitions need it (docs/decisions/0010).

Manifests never change, so what is kept of each in the table's cache serves the next try, and after
another writer's commit its new manifests alone are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from firnline_domain.commits.pinned_head import Rest
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import Scope

from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry
from firnline_iceberg.metadata.manifest_digest import Digest, Hashes, hashes_of
from firnline_iceberg.metadata.manifest_pruning import may_hold
from firnline_iceberg.metadata.manifest_reader import ManifestFile
from firnline_iceberg.scan.planning import LiveFiles
from firnline_iceberg.table.loaded_table import LoadedTable

SMALL = 64  # files of a manifest
MOST_DELETES = 1_000_000  # of one result's partitions and files: 750 MB


@dataclass(frozen=True)
class FileSelection:
    """Files by normal path, and partitions."""

    paths: frozenset[str]
    scopes: frozenset[Scope]

    def concerns(self, delete: DeleteFileEntry) -> bool:
        """Return True if a delete file may be about one of them, or about everything."""
        if delete.referenced_data_file is not None:
            return delete.referenced_data_file in self.paths
        return delete.is_global or delete.scope in self.scopes


def examine_files(
    table: LoadedTable, snapshot_id: int, about: FileSelection
) -> tuple[LiveFiles, Rest]:
    """Return of a snapshot's live files those of `about.paths`, with all delete files that may be
    about them or about `about.scopes`; and what is to be known of the other data files.

    Raises SnapshotGone, MetadataFileGone, RetryLater; TaskRefused where there are too many
    deletes."""
    look = _Look(table, about, hashes_of(about.paths), hashes_of(about.scopes))
    for manifest in table.manifests_of(table.snapshot(snapshot_id)):
        if not manifest.holds_no_live:
            look.take_manifest(manifest)
    look.count_left_out()
    return LiveFiles(snapshot_id, tuple(look.data), tuple(look.deletes)), look.rest


@dataclass
class _Look:
    table: LoadedTable
    about: FileSelection
    paths: Hashes
    scopes: Hashes
    data: list[DataFileEntry] = field(default_factory=list)
    deletes: list[DeleteFileEntry] = field(default_factory=list)
    _lowest: list[int] = field(default_factory=list)
    _as_listed: list[int] = field(default_factory=list)
    _by_scope: dict[Scope, int] = field(default_factory=dict)
    _left_out: list[ManifestFile] = field(default_factory=list)

    @property
    def rest(self) -> Rest:
        return Rest(
            min(self._lowest, default=None),
            min(self._as_listed, default=None),
            self._by_scope,
        )

    def take_manifest(self, manifest: ManifestFile) -> None:
        if manifest.holds_deletes:
            self._take_deletes(manifest)
        elif not self._may_hold(manifest):
            self._count_others(manifest.min_sequence_number, manifest.min_sequence_number)
            self._left_out.append(manifest)
        elif _is_small(manifest) or (digest := self.table.digest_of(manifest)).may_name(self.paths):
            self._take_entries(manifest)
        else:
            self._take_digest(manifest, digest)

    def count_left_out(self) -> None:
        """Look for older files of the partitions in the manifests that the list's bounds rule out,
        if there are deletes that such a file needs: what seems spent is removed, and bounds may be
        wrong. Reads digests, which are kept."""
        partial = (one for one in self.deletes if one.referenced_data_file is None)
        newest = max((one.sequence_number or 0 for one in partial if not one.is_global), default=0)
        for manifest in self._left_out:
            if manifest.min_sequence_number <= newest:
                self._count_scopes(self.table.digest_of(manifest))

    def _may_hold(self, manifest: ManifestFile) -> bool:
        """Return True unless the manifest's partition bounds exclude all partitions in question."""
        types = self.table.partition_types(manifest.spec_id)
        return may_hold(manifest, self.about.scopes, types)

    def _take_deletes(self, manifest: ManifestFile) -> None:
        """Take the deletes of a manifest, not pruned by partition: a file that names a data file is
        about it wherever it lies."""
        digest = self.table.digest_of(manifest)
        if digest.everywhere or digest.may_be_about(self.scopes) or digest.may_name(self.paths):
            self.deletes += filter(self.about.concerns, self._read_deletes(manifest))
        if len(self.deletes) > MOST_DELETES:
            text = f"{len(self.deletes)} delete files are about one commit: convert or rewrite less"
            raise TaskRefused("too_many_deletes", text)

    def _read_deletes(self, manifest: ManifestFile) -> Iterator[DeleteFileEntry]:
        entries = self.table.entries_of(manifest)
        return (one for one in entries if one.is_live and isinstance(one, DeleteFileEntry))

    def _take_entries(self, manifest: ManifestFile) -> None:
        own, others = list[DataFileEntry](), list[int]()
        for entry in self.table.entries_of(manifest):
            if not entry.is_live or not isinstance(entry, DataFileEntry):
                continue
            if entry.normal_path in self.about.paths:
                own.append(entry)
            else:
                others.append(entry.sequence_number or 0)
                self._note_in_scope(entry.scope, others[-1])
        self.data += own
        if others:
            lowest = min(others)
            # where it loses files in the commit, Iceberg counts the others anew
            listed = lowest if own else manifest.min_sequence_number
            self._count_others(min(lowest, listed), max(lowest, listed))

    def _take_digest(self, manifest: ManifestFile, digest: Digest) -> None:
        if (lowest := digest.lowest_of_all) is not None:
            listed = manifest.min_sequence_number
            self._count_others(min(lowest, listed), max(lowest, listed))
        self._count_scopes(digest)

    def _count_scopes(self, digest: Digest) -> None:
        for scope in self.about.scopes:
            if (number := digest.lowest_of(scope)) is not None:
                self._note_in_scope(scope, number)

    def _count_others(self, lowest: int, as_listed: int) -> None:
        self._lowest.append(lowest)
        self._as_listed.append(as_listed)

    def _note_in_scope(self, scope: Scope, number: int) -> None:
        """Keep the lowest sequence number of the other data files of a partition in question."""
        if scope in self.about.scopes:
            self._by_scope[scope] = min(number, self._by_scope.get(scope, number))


def _is_small(manifest: ManifestFile) -> bool:
    """Return True if a manifest has at most SMALL entries: its digest would be another file to
    open, and not smaller."""
    counts = manifest.added_files, manifest.existing_files, manifest.deleted_files
    return None not in counts and sum(one or 0 for one in counts) <= SMALL


def entries_named(
    table: LoadedTable, manifests: Collection[ManifestFile], paths: frozenset[str]
) -> Iterator[DataFileEntry]:
    """Yield the entries of these data files, of any status. Raises MetadataFileGone, RetryLater."""
    wanted = hashes_of(paths)
    for manifest in manifests:
        if manifest.holds_deletes:
            continue
        if _is_small(manifest) or table.digest_of(manifest).may_name(wanted):
            for entry in table.entries_of(manifest):
                if entry.normal_path in paths and isinstance(entry, DataFileEntry):
                    yield entry
