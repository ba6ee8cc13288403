"""Tables that cannot be read now. Nothing of theirs waits here but the planner's last question.

The planner keeps, in its state, that a table needs a resync, and asks until it has the answer. So a
restart of the enricher at any moment loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import islice

from firnline_adapters.observability import metrics
from firnline_domain.errors import CatalogRefused, CatalogUnreachable, RetryLater
from firnline_domain.identity import TableName
from firnline_domain.records.orders import ResyncTable

PROBE_S = 15.0  # from a failure to the next try; doubles
MAX_PROBE_S = 60.0
SHARE = 20  # but a try that takes 30 s, as of a catalog that hangs, is made every 10 minutes
CATALOG_S = 3.0  # the same of a whole catalog: others of it, which may be well, wait for that long
LOOK_AT = 100  # questions at a time
TABLES_OF_AN_OUTAGE = 3  # that failed one after the other, with none between that was read


@dataclass
class _UnreadTable:
    not_before: float
    pause: float = PROBE_S


@dataclass
class _FailingCatalog:
    tables: set[str] = field(default_factory=set)  # keys
    not_before: float = 0.0


class UnreadTables:
    """Tables that could not be read, by key, and catalogs of which no table could be read
    lately."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._tables: dict[str, _UnreadTable] = {}
        self._questions: dict[str, ResyncTable] = {}  # in the order in which they are looked at
        self._catalogs: dict[str, _FailingCatalog] = {}

    def __contains__(self, table: TableName) -> bool:
        return table.key in self._tables

    def is_resting(self, table: TableName) -> bool:
        """Return whether the next try of the table, or of its catalog, is not due yet."""
        one, catalog = self._tables.get(table.key), self._catalogs.get(table.catalog_path)
        return (one is not None and self._now() < one.not_before) or (
            catalog is not None and self._now() < catalog.not_before
        )

    def note_failure(self, table: TableName, took_s: float = 0.0) -> None:
        """Note that the table could not be read, and nothing waits for it any more. `took_s`:
        seconds for which it held a thread."""
        one = self._tables.setdefault(table.key, _UnreadTable(0.0, PROBE_S / 2))
        one.pause = max(min(2 * one.pause, MAX_PROBE_S), SHARE * took_s)
        one.not_before = self._now() + one.pause
        metrics.gauge("tables_unread", len(self._tables))

    def note_outage(self, table: TableName, error: RetryLater) -> None:
        """Note that a try of the table has failed. After TABLES_OF_AN_OUTAGE tables of one catalog,
        none of that catalog is tried for CATALOG_S: then the catalog is unreachable, not one table
        broken."""
        if not isinstance(error, CatalogUnreachable | CatalogRefused):
            return
        catalog = self._catalogs.setdefault(table.catalog_path, _FailingCatalog())
        catalog.tables.add(table.key)
        if self.is_away(table):
            catalog.not_before = self._now() + CATALOG_S

    def is_away(self, table: TableName) -> bool:
        """Return whether the last tries of several tables of the catalog have failed."""
        catalog = self._catalogs.get(table.catalog_path)
        return catalog is not None and len(catalog.tables) >= TABLES_OF_AN_OUTAGE

    def note_success(self, table: TableName) -> None:
        """Note that the table was read."""
        self._catalogs.pop(table.catalog_path, None)
        self._questions.pop(table.key, None)
        if self._tables.pop(table.key, None):
            metrics.gauge("tables_unread", len(self._tables))

    def keep_question(self, question: ResyncTable) -> None:
        """Keep a question until the table can be read; one answer serves all questions. The first
        one that names a head stays: planners request everything if they got no answer twice."""
        kept = self._questions.get(question.table.key)
        if kept is None or kept.known_snapshot_id is None or kept.reason != question.reason:
            self._questions[question.table.key] = question

    def next_question(self, busy: Collection[str]) -> ResyncTable | None:
        """Remove and return a question that may be tried now; None without one. `busy`: keys of
        tables that are being read."""
        for key in list(islice(self._questions, LOOK_AT)):
            question = self._questions.pop(key)
            if key not in busy and not self.is_resting(question.table):
                return question
            self._questions[key] = question  # behind the others
        return None
