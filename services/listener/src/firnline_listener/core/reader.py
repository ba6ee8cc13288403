"""Look at a place: what the catalog shows of a table, or lists in a namespace. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from firnline_domain.base.values import replace
from firnline_domain.identity import TableName
from firnline_iceberg.table.catalog_client import ALL_SNAPSHOTS, REFS_ONLY, StoredMetadata
from firnline_iceberg.table.loaded_table import TableGone

from firnline_listener.core.known_tables import KnownTable, KnownTables, Place, place_of

Names = list[tuple[str, ...]]


class Catalog(Protocol):
    """Port of one catalog: `firnline_iceberg.table.catalog_client.Tables`, or a test twin."""

    @property
    def catalog_path(self) -> str:
        """Return `TableName.catalog_path` of its tables. Raises RetryLater."""

    @property
    def prefix(self) -> str:
        """Return the prefix of its paths. Raises RetryLater."""

    def read_metadata(
        self, name: tuple[str, ...], snapshots: str = ALL_SNAPSHOTS, etag: str = ""
    ) -> StoredMetadata | None:
        """Return a table's metadata; None if its version is `etag`. Raises TableGone, RetryLater,
        ValueError."""

    def list_namespace(self, namespace: tuple[str, ...]) -> tuple[Names, Names]:
        """Return the tables of a namespace, and the namespaces right below it. Raises
        RetryLater."""


@dataclass(frozen=True)
class TableSeen:
    """A table was read. `elsewhere`: it is also under the name that it had before."""

    table: TableName
    stored: StoredMetadata
    elsewhere: bool = False


@dataclass(frozen=True)
class NothingNew:
    """The table is as it was when it was read last."""


@dataclass(frozen=True)
class NoTable:
    """There is no table of that name."""


@dataclass(frozen=True)
class Listed:
    """Names of the tables of a namespace, and of the namespaces right below it."""

    tables: Names
    namespaces: Names


Seen = TableSeen | NothingNew | NoTable | Listed


class CatalogReader:
    """Reads one catalog at one prefix; from many threads at once."""

    def __init__(self, name: str, catalog: Catalog, known: KnownTables) -> None:
        self._name, self._catalog, self._known = name, catalog, known

    def look_at(self, place: Place) -> tuple[Place, Seen]:
        """Look at a place, and return it with the catalog's own path. Raises RetryLater,
        TaskRefused, and ValueError, KeyError, TypeError for an answer that is none."""
        place = replace(place, catalog=self._catalog.catalog_path)
        if not place.name:
            return place, Listed(*self._catalog.list_namespace(place.namespace))
        try:
            stored = self._read_changed(place.path, self._known.at_place(place))
        except TableGone:
            return place, NoTable()
        if stored is None:
            return place, NothingNew()
        uuid = str(stored.metadata["table-uuid"])
        table = TableName(uuid, place.namespace, place.name, self._name, self._catalog.prefix)
        return place, TableSeen(table, stored, self._is_elsewhere(table))

    def _read_changed(
        self, path: tuple[str, ...], known: KnownTable | None
    ) -> StoredMetadata | None:
        """Read a table with all its snapshots; None if it has not changed. A catalog without
        versions is asked for a short answer first, which names the metadata file."""
        if known is None or not known.is_read:
            return self._catalog.read_metadata(path)
        if not known.etag and known.location:
            short = self._catalog.read_metadata(path, REFS_ONLY)
            if short is not None and short.location == known.location:
                return None
        return self._catalog.read_metadata(path, etag=known.etag)

    def _is_elsewhere(self, table: TableName) -> bool:
        known = self._known.by_key.get(table.key)
        if known is None or place_of(known.table) == place_of(table):
            return False
        try:
            old = self._catalog.read_metadata(known.table.path, REFS_ONLY)
        except TableGone:
            return False
        return old is not None and old.metadata.get("table-uuid") == table.uuid
