"""Reads of a table to commit onto, while the gateway keeps others' calls waiting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum

from firnline_domain.commits.hold_header import (
    HEADER,
    HOLD_COMMITS,
    HOLD_NEXT_READS,
    HOLD_READS,
    PASS,
    RELEASE,
)
from firnline_domain.identity import TableName
from firnline_iceberg.catalogs import CatalogTables, Connections
from firnline_iceberg.connection import connection
from firnline_iceberg.metadata.entry_cache import FileCache
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable


class HeldCalls(Enum):
    """The calls to a table that the gateway keeps waiting, until our commit is answered, the hold
    is released, or the gateway's own limit ends it."""

    NOBODY = "nobody"
    READS = "reads"
    COMMITS = "commits"


@dataclass
class HeldTable:
    """A table under a hold. The answer to a commit of ours ends the hold; `commit_sent` stays False
    if none is sent."""

    table: LoadedTable
    commit_sent: bool = False


@dataclass(frozen=True)
class HeldCatalog:
    """Catalogs through five clients, by the header that they send. Without a gateway they do the
    same."""

    tables: Tables  # waits for no hold of ours
    holds_reads: Tables
    holds_next_reads: Tables  # from the next commit of a writer on
    releases: Tables
    holds_commits: Tables

    @contextmanager
    def load_held(self, table: TableName, hold: HeldCalls) -> Iterator[HeldTable]:
        """Load a table as it is now, under a hold until the end of the block. Raises as
        `Tables.load`."""
        if hold is HeldCalls.NOBODY:
            yield HeldTable(self.tables.load(table))
            return
        client = self.holds_reads if hold is HeldCalls.READS else self.holds_commits
        held = None
        try:
            held = HeldTable(client.load(table))
            yield held
        finally:
            if held is None or not held.commit_sent:
                with suppress(Exception):  # the hold's own time ends it where this does not arrive
                    self.releases.load(table)


def open_catalog(reached: connection.Catalog | Connections, **properties: str) -> HeldCatalog:
    """Return the five clients, which share one cache of what they read."""
    cache = FileCache()

    def tables_with_hold(word: str) -> Tables:
        return CatalogTables(reached, cache, **{**properties, f"header.{HEADER}": word})

    return HeldCatalog(
        tables_with_hold(PASS),
        tables_with_hold(HOLD_READS),
        tables_with_hold(HOLD_NEXT_READS),
        tables_with_hold(RELEASE),
        tables_with_hold(HOLD_COMMITS),
    )


def without_gateway(tables: Tables) -> HeldCatalog:
    """Return a catalog for a process without a gateway before it."""
    return HeldCatalog(tables, tables, tables, tables, tables)
