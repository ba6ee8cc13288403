"""Message -> messages: every commit and every question becomes `FilesChanged` records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firnline_domain.errors import PoisonousRecord, RetryLater
from firnline_domain.ports import Delivery
from firnline_domain.records.events import FilesChanged, TableCommitted
from firnline_domain.records.orders import ResyncTable
from firnline_iceberg.catalog_prefixes import OtherPrefix
from firnline_iceberg.catalogs import UnknownCatalog

from firnline_enricher.commits import Commits
from firnline_enricher.facts import FactsCache, Tables
from firnline_enricher.resyncs import Resyncs

TOPICS = ("table-commits", "resync-requests")


class Handlers:
    """What to send for a delivery. Holds nothing that a restart would miss."""

    def __init__(self, tables: Tables, now_ms: Callable[[], int]) -> None:
        self._facts = FactsCache(tables, now_ms)
        self._commits = Commits(self._facts, now_ms)
        self._resyncs = Resyncs(self._facts, now_ms)
        self._read: dict[tuple[str, int], int] = {}  # (topic, partition) -> last offset
        self._closed: set[str] = set()  # catalogs' paths that nobody here can open

    def handle(self, delivery: Delivery) -> list[FilesChanged]:
        """Records for `file-changes`, in order. Raises RetryLater: nothing was sent, try again;
        and PoisonousRecord."""
        record = delivery.record
        try:
            return self._changes(record)
        except RetryLater:
            self._facts.forget(record.table)  # what it loads with may have run out
            raise
        except (UnknownCatalog, OtherPrefix) as closed:
            self._closed.add(record.table.catalog_path)
            raise PoisonousRecord(closed.reason, str(closed)) from closed

    def unread(self, record: Any) -> list[FilesChanged]:
        """What can be said of a record that cannot be handled: enough to ask for a resync. Nothing
        of a table that nobody here can open: a planner would ask for ever."""
        if record.table.catalog_path in self._closed:
            return []
        return self._commits.unread(record) if isinstance(record, TableCommitted) else []

    def _changes(self, record: Any) -> list[FilesChanged]:
        if isinstance(record, TableCommitted):
            return self._commits.changes(record)
        if isinstance(record, ResyncTable):
            return self._resyncs.changes(record)
        raise PoisonousRecord("unexpected_record", type(record).__name__)

    def follow(self, delivery: Delivery) -> None:
        """Called for each as it arrives, in the partition's order: offsets are missing where
        another enricher had the partition for a while."""
        place = (delivery.topic, delivery.partition)
        last = self._read.get(place, -1)
        if delivery.offset - last not in (0, 1) and isinstance(delivery.record, TableCommitted):
            self._facts.clear()
        self._read[place] = delivery.offset
