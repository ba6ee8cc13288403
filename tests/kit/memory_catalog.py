"""A catalog that lives in this process, over real files: the twin of `tables.Tables`.

It writes no metadata files; manifests and data files are PyIceberg's own, on a real FileIO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from firnline_domain.identity import CATALOG, TableName
from firnline_iceberg.storage.file_io import make_file_io
from firnline_iceberg.table.catalog_client import ALL_SNAPSHOTS, StoredMetadata, to_loaded_table
from firnline_iceberg.table.loaded_table import LoadedTable, TableGone
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata

Identifier = tuple[str, ...]


@dataclass(frozen=True)
class Commit:
    """One accepted commit, as a writer would send it to a REST catalog."""

    table: TableName
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]


class MemoryCatalog(NoopCatalog):
    """PyIceberg tables under `warehouse` (a directory's path or URI); keeps every commit."""

    def __init__(self, warehouse: str) -> None:
        super().__init__("memory")
        self._warehouse = warehouse
        self._tables: dict[Identifier, TableMetadata] = {}
        self.namespaces: dict[Identifier, dict[str, str]] = {}  # properties
        self.commits: list[Commit] = []

    def make(
        self,
        name: str,
        schema: Schema,
        spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        **properties: str,
    ) -> Table:
        """Create `namespace.name`."""
        identifier = self.identifier_to_tuple(name)
        location = "/".join((self._warehouse, *identifier))
        self._tables[identifier] = new_table_metadata(
            schema, spec, UNSORTED_SORT_ORDER, location, dict(properties)
        )
        return self.load_table(identifier)

    def clone(self, name: str, of: str) -> None:
        """Another name for the same metadata, as `register_table` gives one."""
        self._tables[self.identifier_to_tuple(name)] = self._tables[self.identifier_to_tuple(of)]

    def load_table(self, identifier: str | Identifier) -> Table:
        """Raises NoSuchTableError."""
        key = self.identifier_to_tuple(identifier)
        if key not in self._tables:
            raise NoSuchTableError(".".join(key))
        location = self._tables[key].location
        return Table(
            key, self._tables[key], _metadata_file(location), make_file_io({}, location), self
        )

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Raises CommitFailedException where a requirement does not hold."""
        key = table.name()
        base = self._tables[key]
        for requirement in requirements:
            requirement.validate(base)
        self._tables[key] = update_table_metadata(base, updates)
        self.commits.append(Commit(_name(key, base), requirements, updates))
        location = {"metadata-location": _metadata_file(base.location)}
        return CommitTableResponse(metadata=self._tables[key], **location)

    def names(self) -> list[Identifier]:
        """Of all tables."""
        return [*self._tables]

    def rename_table(self, old: str | Identifier, new: str | Identifier) -> Table:
        """Give a table another name."""
        self._tables[self.identifier_to_tuple(new)] = self._tables.pop(
            self.identifier_to_tuple(old)
        )
        return self.load_table(new)

    def drop_table(self, identifier: str | Identifier) -> None:
        """Forget the table, keep its files."""
        del self._tables[self.identifier_to_tuple(identifier)]


def _metadata_file(location: str) -> str:
    return f"{location}/metadata/in-memory.json"


def _name(key: Identifier, metadata: TableMetadata) -> TableName:
    return TableName(str(metadata.table_uuid), key[:-1], key[-1])


class MemoryTables:
    """Twin of `Tables` over a MemoryCatalog."""

    def __init__(self, catalog: MemoryCatalog) -> None:
        self._catalog = catalog
        self.loads = 0  # of the catalog, for tests that count them
        self.namespace_loads = 0
        self.pace: Callable[[], None] = lambda: None

    def load(self, table: TableName) -> LoadedTable:
        """As `Tables.load`."""
        self.loads += 1
        found = self._found(table)
        if str(found.metadata.table_uuid) != table.uuid:
            raise TableGone(table, f"is now {found.metadata.table_uuid}")
        return to_loaded_table(table, found)

    def load_named(self, namespace: tuple[str, ...], name: str) -> LoadedTable:
        """As `Tables.named`."""
        found = self._found(TableName("", namespace, name))
        return to_loaded_table(_name((*namespace, name), found.metadata), found)

    catalog_path = CATALOG
    address = ("memory:", "")
    archives = external_files = unreadable_tables = ""

    def for_table(self, table: TableName) -> MemoryTables:
        """As `Tables.for_table`."""
        return self

    def known_catalogs(self, table: TableName) -> Sequence[MemoryTables]:
        """As `Tables.known_catalogs`."""
        return (self,)

    def table_names(self) -> Iterator[Identifier]:
        """As `Tables.names`, of all."""
        yield from self._catalog.names()

    def metadata_json(self, name: Identifier) -> tuple[str, dict[str, Any]]:
        """As `Tables.metadata_json`."""
        found = self._found(TableName("", name[:-1], name[-1]))
        return found.metadata_location, found.metadata.model_dump(mode="json", by_alias=True)

    prefix = ""

    def read_metadata(
        self, name: Identifier, snapshots: str = ALL_SNAPSHOTS, etag: str = ""
    ) -> StoredMetadata | None:
        """As `Tables.read_metadata`; a version is the number of commits."""
        self.pace()
        self.loads += 1
        location, metadata = self.metadata_json(name)
        version = f"{metadata['table-uuid']} {len(self._catalog.commits)}"
        if etag == version:
            return None
        return StoredMetadata(f"{location} {version}", metadata, version, len(str(metadata)))

    def list_namespace(self, namespace: Identifier) -> tuple[list[Identifier], list[Identifier]]:
        """As `Tables.list_namespace`."""
        self.pace()
        depth, names = len(namespace), self._catalog.names()
        below = {one[: depth + 1] for one in names if len(one) > depth + 1}
        return (
            [one for one in names if one[:-1] == namespace],
            sorted(one for one in below if one[:depth] == namespace),
        )

    def namespace_properties(self, table: TableName) -> dict[str, str]:
        """As `Tables.namespace_properties`."""
        self.namespace_loads += 1
        return dict(self._catalog.namespaces.get(table.namespace, {}))

    def _found(self, table: TableName) -> Table:
        try:
            return self._catalog.load_table((*table.namespace, table.name))
        except NoSuchTableError as error:
            raise TableGone(table) from error
