"""Facts of a table that the enricher keeps between commits: how to read its manifests, its
settings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from cachetools import LRUCache
from firnline_domain.errors import RetryLater
from firnline_domain.identity import TableName
from firnline_domain.records.parts.tallies import target_bytes_of
from firnline_domain.settings.in_force import with_namespace
from firnline_domain.settings.policies import TablePolicies
from firnline_domain.settings.table_rules import TableRule, asked_names
from firnline_iceberg.metadata.partition_text import PartitionText
from firnline_iceberg.table.external_files import OwnLocations, own_locations
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.rule_facts import rule_facts
from pyiceberg.io import FileIO

from firnline_enricher.kept_settings import select_table_settings
from firnline_enricher.namespaces import NamespaceCatalog, Namespaces

# 13 kB each with a client of S3. A fleet of 100,000 has 8,000 that commit every few minutes; with
# fewer kept than that, each of their commits would load its table.
_MAX_TABLES = 10_000


class TableSource(NamespaceCatalog, Protocol):
    """Port that loads tables: `firnline_iceberg.catalogs.CatalogTables`, or a test twin."""

    def load(self, table: TableName) -> LoadedTable:
        """Load a table. Raises TableGone, RetryLater."""


@dataclass(frozen=True)
class TableFacts:
    """The part of a table's metadata that does not change with every commit."""

    format_version: int
    settings: Mapping[str, str]
    partition_texts: Mapping[int, PartitionText]
    io: FileIO
    places: OwnLocations
    asked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # values that rules ask for

    @property
    def target_bytes(self) -> int:
        """Target file size; the default where it is unset or not a number."""
        return target_bytes_of(self.settings)


def facts_of(table: LoadedTable, rules: Iterable[TableRule] = ()) -> TableFacts:
    """Return the facts of a loaded table that the cache keeps, with those for its rules."""
    texts = {spec_id: table.partition_text(spec_id) for spec_id in table.metadata.specs()}
    settings = select_table_settings(table.properties, table.schema)
    asked = rule_facts(table, asked_names(rules))
    return TableFacts(table.format_version, settings, texts, table.io, own_locations(table), asked)


def _table_place(table: TableName) -> str:
    return f"{table.uuid} {table.full_name}"


class FactsCache:
    """Facts by uuid and name, for two tables may have one uuid; the least recently used are
    forgotten first. Thread-safe; a table that loads slowly delays no other."""

    def __init__(
        self,
        tables: TableSource,
        now_ms: Callable[[], int],
        read_policies: Callable[[], TablePolicies] = TablePolicies,
    ) -> None:
        self._tables = tables
        self._read_policies, self._policies = read_policies, read_policies()
        self._namespaces = Namespaces(tables, now_ms)
        self._facts = LRUCache[str, TableFacts](_MAX_TABLES)
        self._lock = threading.Lock()

    def get_facts(self, table: TableName) -> TableFacts:
        """Return the cached facts, or load them. Raises TableGone, RetryLater."""
        facts = self._find_facts(table) or self._load(table)[1]
        namespace = self._namespaces.read_settings(table)
        return replace(facts, settings=with_namespace(facts.settings, namespace))

    def peek_facts(self, table: TableName) -> TableFacts | None:
        """Return the cached facts if they are complete."""
        try:
            return self.get_facts(table) if self._find_facts(table) else None
        except RetryLater:  # the namespace's; told without settings, those told before stay
            return None

    def _find_facts(self, table: TableName) -> TableFacts | None:
        if (policies := self._read_policies()).rules != self._policies.rules:
            self._policies = policies
            self.clear()  # they may ask for other facts
        with self._lock:
            return self._facts.get(_table_place(table))

    def load(self, table: TableName) -> LoadedTable:
        """Load the table as it is now; its facts replace the cached ones. Raises TableGone,
        RetryLater."""
        return self._load(table)[0]

    def _load(self, table: TableName) -> tuple[LoadedTable, TableFacts]:
        self.forget_table(table)
        cache = self._facts
        self._namespaces.read_settings(table)
        loaded = self._tables.load(table)
        facts = facts_of(loaded, self._policies.rules_of(table))
        with self._lock:
            cache[_table_place(table)] = facts  # lost if `clear` was called meanwhile
        return loaded, facts

    def forget_table(self, table: TableName) -> None:
        """Load the table again next time: it changed, or its credentials expired."""
        with self._lock:
            self._facts.pop(_table_place(table), None)

    def clear(self) -> None:
        """Drop all facts: commits were missed, so any table may have changed."""
        self._facts = LRUCache(_MAX_TABLES)
