"""Events of the changes that a catalog has accepted, and calls whose tables must be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cachetools import FIFOCache
from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.record_sizes import Unencodable
from firnline_domain.base.values import replace
from firnline_domain.records.events import TableChange, TableCommitted

from firnline_gateway.outbox.journal import OutboxJournal
from firnline_gateway.outbox.outbox import encode_event
from firnline_gateway.proxy.metadata_sizes import MetadataSizes
from firnline_gateway.rest.call import Call
from firnline_gateway.rest.commit_body import PlannedChange, event_of

MAX_DOUBTS = 1_000  # each with a body of its own, up to `SMALL_BYTES`
NAMES = 10_000  # tables whose uuid is remembered for the moment of their drop


class EventRecorder:
    """Turns changes of one catalog's tables into events in the journal. `sizes`: of its tables'
    metadata. `doubts`: calls with unknown outcome, as the reconciler has last seen them."""

    def __init__(self, journal: OutboxJournal, log: Log, now_ms: Callable[[], int]) -> None:
        self._journal = journal
        self._log = log
        self._now_ms = now_ms
        self._uuids = FIFOCache[str, str](NAMES)  # by the table's path
        self.sizes = MetadataSizes()
        self.doubts = 0

    @property
    def is_crowded(self) -> bool:
        """Return whether too many outcomes are unknown, because the catalog fails repeatedly:
        doubts are then kept by table."""
        return self.doubts > MAX_DOUBTS

    def uuid_of(self, path: str) -> str | None:
        """Return the uuid of the table that was last recorded at this path."""
        return self._uuids.get(path)

    def record_changes(
        self, call: Call, changes: Sequence[PlannedChange], at_ms: int, source: str
    ) -> None:
        """Settle a call with the events of its changes. A table dropped before its uuid could be
        read has no event: it has no key."""
        events = []
        for change in changes:
            if change.uuid is None:
                self._log.error("event_without_uuid", path=change.path, change=change.change)
                continue
            self._cache_uuid(change, change.uuid)
            event = event_of(change, call, change.uuid, at_ms, source)
            events.append(replace(event, metadata_bytes=self._metadata_bytes(event)))
        last = source == "reconciled" and call.body is None  # what the tables say: all there is
        try:
            records = [encode_event(event, at_ms, last, call.trace) for event in events]
        except Unencodable as error:  # numbers too large, texts of other types: whatever was sent
            self.doubt_unreadable(call, error)
            return
        self._journal.settle_call(call, records)
        for event in events:
            self._log_commit(event)

    def record_seen(self, call: Call, change: PlannedChange) -> None:
        """Record the change that a table shows by itself; the call stays remembered."""
        aside = replace(call, call_id=f"{call.call_id}-seen", body=None)
        self.record_changes(aside, [change], self._now_ms(), "reconciled")

    def _metadata_bytes(self, event: TableCommitted) -> int | None:
        """Return the bytes of the table's metadata in the newest answer, which may precede this
        commit's; None if none was seen."""
        names = (event.table.prefix, *event.table.namespace, event.table.name)
        if event.change is not TableChange.COMMITTED:
            self.sizes.forget_table(names)
        return self.sizes.size_in_bytes(names)

    def _log_commit(self, event: TableCommitted) -> None:
        metrics.count("gateway_commits")
        self._log.info(
            "committed",
            table=event.table,
            change=event.change,
            snapshots=[new.snapshot_id for new in event.snapshots],
            source=event.source,
        )

    def doubt_unreadable(self, call: Call, error: Exception) -> None:
        """Doubt a call that the gateway cannot read but the catalog has read: its tables show what
        it did."""
        self._log.warning("call_unreadable", path=call.path, why=error)
        metrics.count("gateway_unread")
        self._journal.doubt_call(replace(call, body=None, accepted=True))

    def _cache_uuid(self, change: PlannedChange, uuid: str) -> None:
        for path in (change.path, change.old_path or ""):
            self._uuids.pop(path, None)
        if change.change is not TableChange.DROPPED:
            self._uuids[change.path] = uuid
