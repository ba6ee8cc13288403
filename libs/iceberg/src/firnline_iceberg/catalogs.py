"""Several catalogs: who opens the table that a record names (docs/decisions/0037).

A record's table has the name of its connection and the prefix of the paths it was found under.
Nobody but the server knows what a prefix stands for, so a client that opens one says which one it
wants, and does nothing where the server has led it to another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from cachetools import LRUCache
from firnline_domain.errors import CatalogUnreachable, Misconfigured, TaskRefused
from firnline_domain.identity import TableName, is_catalog_name
from py4j.protocol import Py4JJavaError
from pyiceberg.table.update import TableRequirement, TableUpdate

from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.connection.call_metrics import declare_catalogs
from firnline_iceberg.connection.connection import Catalog, CatalogConnection, connection_of
from firnline_iceberg.connection.prefix import OtherPrefix, at_prefix
from firnline_iceberg.java.jvm import Jvm
from firnline_iceberg.metadata.entry_cache import FileCache
from firnline_iceberg.table.catalog_client import NO_HEADS, Tables
from firnline_iceberg.table.loaded_table import LoadedTable

MAX_OPEN = 100  # catalogs and prefixes with clients of their own; the least used are forgotten
Connections = Mapping[str, CatalogConnection]
Opened = TypeVar("Opened")


class UnknownCatalog(TaskRefused):
    """Nobody told this process how to reach that catalog."""

    def __init__(self, table: TableName, known: Mapping[str, object]) -> None:
        names = ", ".join(known)
        text = (
            f"{table.full_name}: no catalog {table.catalog} is configured here, only {names}: "
            f"give all services the same [catalogs.{table.catalog}], or unregister its tables"
        )
        super().__init__("unknown_catalog", text)


def connections_of(catalog: Catalog | Connections) -> Connections:
    """Return connections by name. Raises Misconfigured for a name that no key, path or setting
    could hold."""
    found = catalog
    if not isinstance(found, Mapping):
        connection = connection_of(found)
        found = {connection.name: connection}
    for name in found:
        if not is_catalog_name(name):
            raise Misconfigured(
                f"[catalogs.{name}]: a catalog's name is of letters, digits, - and _, 63 at most"
            )
    return found


class CatalogClients(Generic[Opened]):
    """One client for each catalog and prefix, made when it is first needed. Thread-safe."""

    def __init__(
        self, connections: Connections, make: Callable[[CatalogConnection], Opened]
    ) -> None:
        self.connections = connections
        self._make = make
        self._opened = LRUCache[tuple[str, str], Opened](MAX_OPEN)
        self._lock = threading.Lock()

    def client_of(self, table: TableName) -> Opened:
        """Return the client of a table's catalog, created for its first table. Raises
        UnknownCatalog, and the errors of creating one."""
        place = (table.catalog, table.prefix)
        with self._lock:
            if (known := self._opened.get(place)) is not None:
                return known
        made = self._make(self._connection_of(table))  # may take a round trip; others go on
        with self._lock:
            return self._opened.setdefault(place, made)

    def _connection_of(self, table: TableName) -> CatalogConnection:
        if (connection := self.connections.get(table.catalog)) is None:
            raise UnknownCatalog(table, self.connections)
        return at_prefix(connection, table.prefix)


class CatalogTables(Tables):
    """`Tables` of all catalogs: of the one that a table is in. What names no table is about the
    first of them."""

    def __init__(
        self, catalogs: Catalog | Connections, cache: FileCache | None = None, **properties: str
    ) -> None:
        """Prepare a client for each catalog, opened for its first table. `cache`: shared by all.
        Raises Misconfigured."""
        connections = connections_of(catalogs)
        declare_catalogs(connections)
        super().__init__(next(iter(connections.values())), cache, **properties)

        def make_tables(connection: CatalogConnection) -> Tables:
            return Tables(connection, cache, **properties)

        self._each = CatalogClients(connections, make_tables)

    def for_table(self, table: TableName) -> Tables:
        """Return the client of a table's catalog. Raises UnknownCatalog."""
        return self._each.client_of(table)

    def known_catalogs(self, table: TableName) -> Sequence[Tables]:
        """Return clients of all configured catalogs: first that of the table with its own prefix,
        then all others with the prefixes of their settings. Raises UnknownCatalog, OtherPrefix."""
        own = self._each.client_of(table)
        return (
            own,
            *(one for one in _open_all(self._each) if one.catalog_path != own.catalog_path),
        )

    def load(self, table: TableName) -> LoadedTable:
        """Load a table from its own catalog. Raises UnknownCatalog, and the errors of
        `Tables.load`."""
        return self._each.client_of(table).load(table)

    def commit_changes(
        self,
        table: TableName,
        updates: tuple[TableUpdate, ...],
        heads: Mapping[str, int | None] = NO_HEADS,
        *requirements: TableRequirement,
    ) -> bool:
        """Commit to a table's own catalog. Raises UnknownCatalog, and the errors of
        `Tables.commit_changes`."""
        return self._each.client_of(table).commit_changes(table, updates, heads, *requirements)

    def namespace_properties(self, table: TableName) -> dict[str, str]:
        """Return the properties of a table's namespace in its own catalog. Raises UnknownCatalog,
        and the errors of `Tables.namespace_properties`."""
        return self._each.client_of(table).namespace_properties(table)


class OneCatalogTables(Tables):
    """`Tables` of one catalog, for a command that works there alone. A table of another one may
    share files with one of it, so all are asked for that."""

    def __init__(
        self, catalog: Catalog, all_of_them: Connections, cache: FileCache | None = None
    ) -> None:
        super().__init__(catalog, cache)
        self._each = CatalogClients(all_of_them, Tables)

    def known_catalogs(self, table: TableName) -> Sequence[Tables]:
        """Return the catalogs that `CatalogTables.known_catalogs` does, this one first."""
        others = _open_all(self._each)
        return (self, *(one for one in others if one.catalog_path != self.catalog_path))


def _open_all(each: CatalogClients[Tables]) -> Iterator[Tables]:
    """Yield the clients of all connections, each with its own prefix and with those of its
    `firnline.prefixes`. Raises OtherPrefix if a server leads to another one."""
    for name, connection in each.connections.items():
        yield each.client_of(TableName("", (), "", name))
        for prefix in connection.other_prefixes:
            found = each.client_of(TableName("", (), "", name, prefix))
            if found.prefix != prefix:
                raise OtherPrefix(name, prefix, found.prefix)
            yield found


class CatalogCommits:
    """`JavaCommits` of all catalogs, each with a client of its own."""

    def __init__(self, iceberg: Jvm, catalogs: Catalog | Connections) -> None:
        """Open the Java client of each catalog; one that does not answer is opened for its first
        table. Raises Misconfigured, or py4j.protocol.Py4JJavaError if no catalog answers."""
        connections = connections_of(catalogs)

        def make_commits(connection: CatalogConnection) -> JavaCommits:
            return JavaCommits(iceberg, connection)

        self._each = CatalogClients(connections, make_commits)
        failures = []
        for name in connections:
            try:
                self._each.client_of(TableName("", (), "", name))
            except Py4JJavaError as failure:
                failures.append(failure)
        if len(failures) == len(connections):
            raise failures[0]

    def for_table(self, table: TableName) -> JavaCommits:
        """Return the client of a table's catalog. Raises UnknownCatalog, CatalogUnreachable."""
        try:
            return self._each.client_of(table)
        except Py4JJavaError as error:
            raise CatalogUnreachable(f"catalog {table.catalog}: {error.java_exception}") from error
