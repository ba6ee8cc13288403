"""Message -> messages: every commit and every question becomes `FilesChanged` records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firnline_domain.errors import PoisonousRecord, RetryLater, TaskRefused
from firnline_domain.identity import MAIN
from firnline_domain.ports import Delivery
from firnline_domain.records.events import FilesChanged, TableCommitted
from firnline_domain.records.orders import ResyncTable
from firnline_domain.records.results import FORMAT_VERSION_4, METADATA_UNREADABLE
from firnline_domain.settings.policies import TablePolicies
from firnline_iceberg.catalogs import UnknownCatalog
from firnline_iceberg.connection.prefix import OtherPrefix

from firnline_enricher.commits import CommitReader, branch_moves
from firnline_enricher.facts import FactsCache, TableSource
from firnline_enricher.file_changes import ChangeContext, tell_newer_version
from firnline_enricher.resyncs import Resyncs

TOPICS = ("table-commits", "resync-requests")


class EnricherHandlers:
    """Handlers that return the records to send for a delivery. Their state is not needed after a
    restart."""

    def __init__(
        self,
        tables: TableSource,
        now_ms: Callable[[], int],
        read_policies: Callable[[], TablePolicies] = TablePolicies,
    ) -> None:
        self._now_ms = now_ms
        self._facts = FactsCache(tables, now_ms, read_policies)
        self._commits = CommitReader(self._facts, now_ms)
        self._resyncs = Resyncs(self._facts, now_ms)
        self._read: dict[tuple[str, int], int] = {}  # (topic, partition) -> last offset
        self._closed: set[str] = set()  # catalogs' paths that nobody here can open

    def handle(self, delivery: Delivery) -> list[FilesChanged]:
        """Return records for `file-changes`, in order. Raises RetryLater: nothing was sent, try
        again; and PoisonousRecord."""
        record = delivery.record
        try:
            return self._read_changes(record)
        except RetryLater:
            self._facts.forget_table(record.table)  # what it loads with may have run out
            raise
        except (UnknownCatalog, OtherPrefix) as closed:
            self._closed.add(record.table.catalog_path)
            raise PoisonousRecord(closed.reason, str(closed)) from closed
        except TaskRefused as refused:
            if refused.reason == FORMAT_VERSION_4:
                return self._tell_newer_version(record)
            if refused.reason == METADATA_UNREADABLE:
                raise PoisonousRecord(refused.reason, str(refused)) from refused
            raise

    def _tell_newer_version(self, record: TableCommitted | ResyncTable) -> list[FilesChanged]:
        """Return the branch heads and the format version of a table that this enricher cannot
        read."""
        at_ms = self._now_ms()
        if isinstance(record, ResyncTable):
            subject = ChangeContext(
                record.table, record.ref, f"resync-{record.requested_at_ms}", at_ms
            )
            return [tell_newer_version(subject, record.wanted_snapshot_id)]
        heads = {move.ref: move.snapshot_id for move in branch_moves(record)} or {MAIN: None}
        return [
            tell_newer_version(ChangeContext(record.table, ref, record.event_id, at_ms), head)
            for ref, head in heads.items()
            if head is not None or ref == MAIN
        ]

    def unread_changes(self, record: Any) -> list[FilesChanged]:
        """Return what is known of a record that cannot be handled: enough to request a resync.
        Return nothing for a table of a catalog that cannot be opened here: the planner would
        request resyncs without end."""
        if record.table.catalog_path in self._closed:
            return []
        return self._commits.unread_changes(record) if isinstance(record, TableCommitted) else []

    def _read_changes(self, record: Any) -> list[FilesChanged]:
        if isinstance(record, TableCommitted):
            return self._commits.read_changes(record)
        if isinstance(record, ResyncTable):
            return self._resyncs.read_changes(record)
        raise PoisonousRecord("unexpected_record", type(record).__name__)

    def follow_offsets(self, delivery: Delivery) -> None:
        """Follow the offsets of deliveries in the partition's order, as each arrives: offsets are
        missing if another enricher had the partition for a while."""
        place = (delivery.topic, delivery.partition)
        last = self._read.get(place, -1)
        if delivery.offset - last not in (0, 1) and isinstance(delivery.record, TableCommitted):
            self._facts.clear()
        self._read[place] = delivery.offset
