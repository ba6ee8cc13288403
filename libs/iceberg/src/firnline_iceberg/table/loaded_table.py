"""A table's metadata at one moment, and the FileIO that reads its files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeVar

from firnline_domain.errors import TaskRefused
from firnline_domain.identity import TableName
from firnline_domain.records.results import METADATA_UNREADABLE, TableForm
from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import IcebergType

import firnline_iceberg.table.nanoseconds  # noqa: F401  teaches PyIceberg
from firnline_iceberg.metadata.entries import FileEntry
from firnline_iceberg.metadata.entry_cache import ENTRY_BYTES, FileCache
from firnline_iceberg.metadata.manifest_digest import Digest, read_digest
from firnline_iceberg.metadata.manifest_reader import (
    Detail,
    ManifestFile,
    read_manifest,
    read_manifest_list,
)
from firnline_iceberg.metadata.partition_text import PartitionText, field_types
from firnline_iceberg.table.write_format import form_of

T = TypeVar("T")


class TableGone(TaskRefused):
    """The table is not there any more, or another one has its name now."""

    def __init__(self, table: TableName, detail: str = "does not exist") -> None:
        identity = f" ({table.uuid})" if table.uuid else ""  # asked for by its name alone
        super().__init__("table_gone", f"{table.dotted_name}{identity} {detail}")


class RefGone(TaskRefused):
    """The table has no such branch or tag."""

    def __init__(self, table: TableName, ref: str) -> None:
        super().__init__("ref_gone", f"{table.dotted_name} has no ref {ref}")


class SnapshotGone(TaskRefused):
    """The table does not retain this snapshot."""

    def __init__(self, table: TableName, snapshot_id: int) -> None:
        super().__init__("snapshot_gone", f"{table.dotted_name} has no snapshot {snapshot_id}")


@dataclass(frozen=True)
class LoadedTable:
    """A table's metadata at one moment, and the FileIO that reads its files."""

    identity: TableName
    metadata: TableMetadata
    io: FileIO
    metadata_location: str
    cache: FileCache | None = None
    hidden: tuple[Snapshot, ...] = ()  # that it has or had, though its catalog shows them not

    def with_hidden_snapshots(self, hidden: Iterable[Snapshot]) -> LoadedTable:
        """Return the same table with snapshots that the catalog hides."""
        return replace(self, hidden=tuple(hidden))

    def manifests_of(self, snapshot: Snapshot) -> Sequence[ManifestFile]:
        """Return the manifests of a snapshot. Raises MetadataFileGone, RetryLater."""
        if self.cache is None:
            return read_manifest_list(self.io, snapshot.manifest_list)
        key = (self.identity.key, snapshot.manifest_list)
        return self.cache.get_or_read(
            key, lambda: read_manifest_list(self.io, snapshot.manifest_list)
        )

    def entries_of(
        self, manifest: ManifestFile, detail: Detail = Detail.REFERENCES
    ) -> Iterable[FileEntry]:
        """Return the entries of a manifest, as `read_manifest` gives them: a stream, where nothing
        is kept."""
        text = self.partition_text(manifest.spec_id)
        if self.cache is None:
            return read_manifest(self.io, manifest, text, detail)
        key = (self.identity.key, manifest, detail)
        return self.cache.get_or_read(
            key, lambda: tuple(read_manifest(self.io, manifest, text, detail))
        )

    def digest_of(self, manifest: ManifestFile) -> Digest:
        """Return the manifest's digest, cached. Raises as `read_manifest`."""
        text = self.partition_text(manifest.spec_id)
        if self.cache is None:
            return read_digest(self.io, manifest, text)
        key = (self.identity.key, manifest, "digest")
        read = partial(read_digest, self.io, manifest, text)
        return self.cache.get_weighed(key, read, lambda found: found.nbytes // ENTRY_BYTES)

    @property
    def format_version(self) -> int:
        """Return the format version: 1, 2 or 3."""
        return self.metadata.format_version

    @property
    def properties(self) -> dict[str, str]:
        """Table properties."""
        return self.metadata.properties

    @property
    def form(self) -> TableForm:
        """Return the form of the table's files."""
        return form_of(self.metadata)

    @property
    def last_sequence_number(self) -> int:
        """Return the number of the table; 0 for v1."""
        return getattr(self.metadata, "last_sequence_number", 0)

    @cached_property
    def _snapshots(self) -> dict[int, Snapshot]:
        all_known = (*self.hidden, *self.metadata.snapshots)
        return {snapshot.snapshot_id: snapshot for snapshot in all_known}

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """All retained snapshots, whether a ref reaches them or not."""
        return tuple(self.metadata.snapshots)

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """Return a snapshot. Raises SnapshotGone."""
        if snapshot_id not in self._snapshots:
            raise SnapshotGone(self.identity, snapshot_id)
        return self._snapshots[snapshot_id]

    def retains(self, snapshot_id: int) -> bool:
        """Return True if the snapshot is still in the metadata, or known from elsewhere."""
        return snapshot_id in self._snapshots

    def head_id(self, ref: str) -> int | None:
        """Return the id of the snapshot that a branch or tag points at; None without such a ref."""
        found = self.metadata.refs.get(ref)
        return None if found is None else found.snapshot_id

    def head(self, ref: str) -> Snapshot:
        """Return the snapshot that a branch or tag points at. Raises RefGone (also for `main` of a
        table that never had a snapshot)."""
        if (snapshot_id := self.head_id(ref)) is None:
            raise RefGone(self.identity, ref)
        return self.snapshot(snapshot_id)

    def ancestors(self, snapshot_id: int | None) -> Iterator[Snapshot]:
        """Yield the snapshot itself, then its parents as far as they are retained."""
        seen: set[int] = set()
        while snapshot_id in self._snapshots and snapshot_id not in seen:
            seen.add(snapshot_id)
            yield (snapshot := self._snapshots[snapshot_id])
            snapshot_id = snapshot.parent_snapshot_id

    def spec(self, spec_id: int) -> PartitionSpec:
        """Return a partition spec. Raises TaskRefused for an id that the table does not have."""
        found = self.metadata.specs().get(spec_id)
        return self._require_spec(found, spec_id)

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.metadata.schema()

    def schema_of(self, schema_id: int | None) -> Schema:
        """Return a schema by id; the current one for None."""
        return (
            self.schema
            if schema_id is None
            else self.metadata.schema_by_id(schema_id) or self.schema
        )

    @cached_property
    def _partition_texts(self) -> dict[int, PartitionText]:
        older = reversed(self.metadata.schemas)
        schemas = (self.schema, *older)
        return {
            spec.spec_id: PartitionText(spec, schemas) for spec in self.metadata.partition_specs
        }

    def partition_types(self, spec_id: int) -> tuple[IcebergType | None, ...]:
        """Return the types of a spec's fields, None if the source column is not known. Raises
        TaskRefused."""
        schemas = (self.schema, *reversed(self.metadata.schemas))
        return field_types(self.spec(spec_id), schemas)

    def partition_text(self, spec_id: int) -> PartitionText:
        """Return the writer of the canonical text of this spec's partitions. Raises TaskRefused."""
        return self._require_spec(self._partition_texts.get(spec_id), spec_id)

    def _require_spec(self, found: T | None, spec_id: int) -> T:
        """Return the spec if there is one. Raises TaskRefused: a manifest list of any writer may
        name a spec that its table does not have."""
        if found is None:
            text = (
                f"{self.identity.dotted_name}: no partition spec {spec_id}, of which a manifest is"
            )
            raise TaskRefused(METADATA_UNREADABLE, text)
        return found
