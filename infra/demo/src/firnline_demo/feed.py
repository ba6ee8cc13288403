"""Prints tasks and their outcomes while the demo runs, straight from the topics."""

from __future__ import annotations

import threading
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.kafka.connection import Kafka
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.signing import RecordSigner
from firnline_domain.records.events import (
    OutputsSwept,
    RewriteCommitted,
    RewriteConflicted,
    RewriteSkipped,
)
from firnline_domain.records.orders import RewriteFiles, TableOrder
from firnline_domain.records.results import RowsCompared, SnapshotsExpired, TaskFailed
from firnline_domain.records.states import TableState

from firnline_demo.measure import Upkeep

TOPICS = (
    "rewrite-tasks",
    "rewrite-tasks-heavy",
    "table-tasks",
    "maintenance-events",
    "table-states",
)


class Feed:
    """Reads the topics in the background and hands each record about a namespace's tables to `show`
    as one line."""

    def __init__(
        self,
        kafka: Kafka,
        buckets: int,
        namespace: str,
        show: Callable[[str], None],
        signer: RecordSigner,
    ) -> None:
        publisher = KafkaPublisher(kafka, buckets, "demo", signer=signer)
        self._inbox = KafkaInbox(kafka, f"demo-{uuid.uuid4()}", TOPICS, publisher, Log("demo"))
        self._namespace = namespace
        self._show = show
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="feed", daemon=True)
        self.outcomes: Counter[str] = Counter()
        self.upkeep: defaultdict[str, Upkeep] = defaultdict(Upkeep)  # by table
        self.open: set[str] = set()  # ids of tasks that were ordered and have no outcome yet
        self.planned_heads: dict[str, int | None] = {}  # of enabled tables that the planner counted

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._inbox.close()

    def _follow(self) -> None:
        while not self._stop.is_set():
            for delivery in self._inbox.poll(0.5):
                if delivery.record.table.dotted_name.startswith(f"{self._namespace}."):
                    self._count_record(delivery.record)
                self._inbox.mark_done(delivery)

    def _count_record(self, record: Any) -> None:
        if isinstance(record, TableState):
            enabled = record.settings.get("firnline.enabled") == "true"
            if enabled and not record.waiting_for_resync:
                self.planned_heads[record.table.dotted_name] = record.head_snapshot_id
            return
        self.outcomes[type(record).__name__] += 1
        if isinstance(record, RewriteFiles | TableOrder):
            self.open.add(record.task_id)
        elif not isinstance(record, OutputsSwept | RowsCompared):
            self.open.discard(record.task_id)
        if isinstance(record, RewriteCommitted) and not record.redelivered:
            done = self.upkeep[record.table.dotted_name]
            done.rewrites += 1
            done.files_removed += record.files_removed
            done.deletes_removed += record.equality_deletes_removed
            done.deletes_removed += record.position_deletes_removed
        if line := line_of(record):
            self._show(line)


def line_of(record: Any) -> str:
    """Return a record as one line of text; '' if it contains nothing new."""
    where = record.table.dotted_name
    match record:
        case RewriteFiles():
            return f"{where}: ordered a rewrite of {record.scope.label} ({record.reason})"
        case RewriteCommitted(redelivered=False):
            waited = ""
            if record.ordered_at_ms is not None:
                seconds = (record.committed_at_ms - record.ordered_at_ms) / 1000
                waited = f", {seconds:.1f} s after its order"
            removed = record.equality_deletes_removed + record.position_deletes_removed
            return (
                f"{where}: committed {record.files_removed} -> {record.files_added} files, "
                f"{removed} delete files and {record.rows_masked:,} dead rows gone{waited}"
            )
        case RewriteConflicted():
            return f"{where}: conflict, {record.reason}; the partition is planned again"
        case RewriteSkipped():
            return f"{where}: nothing to do ({record.reason})"
        case TaskFailed():
            return f"{where}: task failed, {record.reason}: {record.message[:80]}"
        case SnapshotsExpired():
            return f"{where}: expired {record.expired} snapshots"
        case RowsCompared(outcome="differ"):
            return f"{where}: READ BACK AND FOUND DIFFERENT: {record.detail}"
        case _:
            return ""
