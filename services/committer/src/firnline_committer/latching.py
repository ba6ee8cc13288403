"""The read that a commit in step is made from, while the gateway keeps others' reads waiting."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from firnline_domain.commits.latches import BEGIN, END, HEADER, HOLD, PASS
from firnline_domain.identity import TableName
from firnline_iceberg.file_cache import FileCache
from firnline_iceberg.tables import LoadedTable, Tables


@dataclass(frozen=True)
class Catalog:
    """One catalog, spoken to in four ways. Where no gateway listens, they are the same."""

    tables: Tables  # waits for nobody's hold
    begins: Tables
    ends: Tables
    holds: Tables

    def load_latched(self, table: TableName) -> LoadedTable:
        """As `Tables.load`. Whoever reads the table from now on waits, until our commit is answered
        or `let_go` or the gateway's patience ends."""
        return self.begins.load(table)

    def load_held(self, table: TableName) -> LoadedTable:
        """As `Tables.load`. Whoever commits to the table from now on waits as long."""
        return self.holds.load(table)

    def let_go(self, table: TableName) -> None:
        """No commit was sent. Where this does not arrive, time lets go."""
        with suppress(Exception):  # whatever went wrong before is what counts
            self.ends.load(table)


def catalog(uri: str, name: str = "lake", **properties: str) -> Catalog:
    """What is read through one of the four is cached for all."""
    cache = FileCache()

    def saying(word: str) -> Tables:
        return Tables(uri, name, cache, **{**properties, f"header.{HEADER}": word})

    return Catalog(saying(PASS), saying(BEGIN), saying(END), saying(HOLD))


def unlatched(tables: Tables) -> Catalog:
    """For who has no gateway before them."""
    return Catalog(tables, tables, tables, tables)
