"""Properties of namespaces, as defaults for their tables; asked for rarely, for no event tells."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from cachetools import LRUCache
from firnline_domain.errors import RetryLater
from firnline_domain.identity import TableName

from firnline_enricher.kept_settings import select_namespace_settings

FRESH_MS = 5 * 60_000  # a change is seen so much later, at the table's next commit
AGAIN_MS = 30_000  # after a catalog that did not answer
PATIENCE_MS = 60_000  # for one that never did: its tables' commits matter more than defaults
_MAX_NAMESPACES = 2_000  # namespaces
Place = tuple[str, tuple[str, ...]]  # a catalog's path, and levels


class NamespaceCatalog(Protocol):
    """Port that reads namespaces: `firnline_iceberg.catalogs.CatalogTables`, or an in-memory
    twin."""

    def namespace_properties(self, table: TableName) -> dict[str, str]:
        """Return the properties of the table's direct namespace; {} if the catalog has or returns
        none. Raises RetryLater."""


@dataclass(frozen=True)
class _Kept:
    properties: Mapping[str, str]
    until_ms: int


class Namespaces:
    """Cache of the properties of the tables' direct namespaces; the least recently used are
    evicted. Thread-safe; a slow catalog delays no other."""

    def __init__(self, catalog: NamespaceCatalog, now_ms: Callable[[], int]) -> None:
        self._catalog = catalog
        self._now_ms = now_ms
        self._kept = LRUCache[Place, _Kept](_MAX_NAMESPACES)
        self._silent_since_ms: dict[Place, int] = {}
        self._lock = threading.Lock()

    def read_settings(self, table: TableName) -> Mapping[str, str]:
        """Return the namespace properties that matter to the planner. Raises RetryLater for a
        minute if they were never read; otherwise the last ones that were read hold until the
        catalog answers again."""
        namespace = (table.catalog_path, table.namespace)
        with self._lock:
            kept, now_ms = self._kept.get(namespace), self._now_ms()
        if kept is None or not kept.until_ms - FRESH_MS <= now_ms < kept.until_ms:
            kept = self._read_properties(table, namespace, kept, now_ms)
            with self._lock:
                self._kept[namespace] = kept
        return kept.properties

    def _read_properties(
        self, table: TableName, namespace: Place, kept: _Kept | None, now_ms: int
    ) -> _Kept:
        try:
            found = self._catalog.namespace_properties(table)
        except RetryLater:
            if kept is None and self._is_young(namespace, now_ms):
                raise
            return _Kept(kept.properties if kept else {}, now_ms + AGAIN_MS)
        self._silent_since_ms.pop(namespace, None)
        return _Kept(select_namespace_settings(found), now_ms + FRESH_MS)

    def _is_young(self, namespace: Place, now_ms: int) -> bool:
        """Return whether the catalog has failed for this namespace for less than `PATIENCE_MS`."""
        since_ms = self._silent_since_ms.get(namespace)
        if since_ms is None or since_ms > now_ms:  # the clock was set back
            since_ms = self._silent_since_ms[namespace] = now_ms
        return now_ms - since_ms < PATIENCE_MS
