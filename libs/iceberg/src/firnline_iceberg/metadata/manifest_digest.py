"""Digest a manifest in 8 to 24 bytes a file: enough to know which manifests have to be read for a
few of them, and what the others do to the decisions of a commit.

Hashes are of this process alone. Two that are equal cost a look into the manifest, no more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from firnline_domain.identity import Scope, normal_path
from firnline_domain.records.results import DeleteKind
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from firnline_iceberg.metadata.avro_reader import read_records, readable
from firnline_iceberg.metadata.entries import DeleteFileEntry, EntryStatus
from firnline_iceberg.metadata.field_ids import ENTRY_OF_DIGEST
from firnline_iceberg.metadata.manifest_reader import (
    ManifestFile,
    PartitionTexts,
    inherit_sequence,
    read_manifest,
)
from firnline_iceberg.metadata.partition_text import PartitionText

Hashes = NDArray[np.int64]  # ascending


@dataclass(frozen=True)
class Digest:
    """`paths`: normal ones of data files, whatever their entry's status; of a delete manifest those
    that live position deletes and vectors are about. `scopes`: of live files, each with the
    `lowest` data sequence number; of a delete manifest those that live deletes are about.
    `everywhere`: it has a live global equality delete."""

    paths: Hashes
    scopes: Hashes
    lowest: NDArray[np.int64]
    everywhere: bool = False

    @property
    def nbytes(self) -> int:
        """Return the bytes in memory."""
        return self.paths.nbytes + self.scopes.nbytes + self.lowest.nbytes

    def may_name(self, paths: Hashes) -> bool:
        """Return False if the manifest names none of the files with these path hashes."""
        return _have_common(self.paths, paths)

    def may_be_about(self, scopes: Hashes) -> bool:
        """Return False if the manifest has live files of none of the partitions with these
        hashes."""
        return _have_common(self.scopes, scopes)

    def lowest_of(self, scope: Scope) -> int | None:
        """Return the lowest number of a scope's live files; None: there is none."""
        at = int(np.searchsorted(self.scopes, key := hash_of(scope)))
        found = at < len(self.scopes) and self.scopes[at] == key
        return int(self.lowest[at]) if found else None

    @property
    def lowest_of_all(self) -> int | None:
        """Return the lowest number of all live files."""
        return int(self.lowest.min()) if len(self.lowest) else None


def hash_of(what: str | Scope) -> int:
    """Return the hash of a normal path or a scope."""
    return hash(what if isinstance(what, str) else (what.spec_id, what.partition))


def hashes_of(of: Iterable[str | Scope]) -> Hashes:
    """Return hashes to look up in several digests."""
    return np.array(sorted({hash_of(one) for one in of}), dtype=np.int64)


def read_digest(io: FileIO, manifest: ManifestFile, partition: PartitionText) -> Digest:
    """Read the digest of a manifest of data or delete files. Raises the errors of
    `read_manifest`."""
    with readable(manifest.path):
        if manifest.holds_deletes:
            return _digest_deletes(io, manifest, partition)
        return _digest_data(io, manifest, partition)


def _digest_data(io: FileIO, manifest: ManifestFile, partition: PartitionText) -> Digest:
    """Read a manifest of data files; return the hashes of all paths, and by partition the lowest
    data sequence number of its live files."""
    texts = PartitionTexts(partition)
    paths, lowest = list[int](), dict[Scope, int]()
    for record in read_records(io, manifest.path, ENTRY_OF_DIGEST):
        file, status = record["file"], EntryStatus(record["status"])
        paths.append(hash_of(normal_path(file["path"])))
        if status is not EntryStatus.DELETED:
            scope = Scope(manifest.spec_id, texts.text_of(file["partition"] or {}))
            # a number that a broken writer left out is below all others
            number = inherit_sequence(record.get("sequence_number"), status, manifest) or 0
            lowest[scope] = min(number, lowest.get(scope, number))
    return _build_digest(paths, lowest)


def _digest_deletes(io: FileIO, manifest: ManifestFile, partition: PartitionText) -> Digest:
    """Read a manifest of delete files; return the hashes of the data files that live ones name, the
    partitions where others apply, and whether one applies everywhere."""
    paths, lowest, everywhere = list[int](), dict[Scope, int](), False
    for entry in read_manifest(io, manifest, partition):
        assert isinstance(entry, DeleteFileEntry), f"{manifest.path} has data files"
        if not entry.is_live:
            continue
        everywhere |= entry.is_global
        if entry.referenced_data_file is not None:
            paths.append(hash_of(entry.referenced_data_file))
        if entry.kind is DeleteKind.EQUALITY or entry.referenced_data_file is None:
            lowest[entry.scope] = 0
    return _build_digest(paths, lowest, everywhere)


def _build_digest(paths: list[int], lowest: dict[Scope, int], everywhere: bool = False) -> Digest:
    pairs = sorted((hash_of(scope), number) for scope, number in lowest.items())
    scopes = np.array([key for key, _ in pairs], dtype=np.int64)
    numbers = np.array([number for _, number in pairs], dtype=np.int64)
    if len(scopes) > 1:  # of two scopes with one hash the lower number
        scopes, first = np.unique(scopes, return_index=True)
        numbers = numbers[first]
    return Digest(np.unique(np.array(paths, dtype=np.int64)), scopes, numbers, everywhere)


def _have_common(ascending: Hashes, wanted: Hashes) -> bool:
    if not len(ascending) or not len(wanted):
        return False
    at = np.searchsorted(ascending, wanted)
    return bool((ascending[np.minimum(at, len(ascending) - 1)] == wanted).any())
