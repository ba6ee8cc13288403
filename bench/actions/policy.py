"""Planner, worker and committer in one process: what the policy orders of a table is carried out at
once. Their clock is the bench's, so a day takes seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from firnline_committer.commit.committer import Committer
from firnline_committer.commit.events import skipped_event
from firnline_domain.identity import MAIN, TableName
from firnline_domain.ports import Delivery
from firnline_domain.records.events import (
    RefMoved,
    RewriteCommitted,
    RewriteSkipped,
    SnapshotAdded,
    TableChange,
    TableCommitted,
    TickPassed,
)
from firnline_domain.records.orders import ResyncTable, RewriteFiles
from firnline_domain.records.results import RewriteFinished
from firnline_domain.settings.thresholds import Thresholds
from firnline_enricher.handlers import EnricherHandlers
from firnline_iceberg.table.catalog_client import Tables
from firnline_planner.bucket.bucket import PlannerBucket
from firnline_worker.rewrite.rewriter import Rewriter

from tests.kit.memory_store import MemoryStore

BUCKET = 0


@dataclass
class Policy:
    """`ordered`: orders by action, and of these `done`, that had something to do."""

    tables: Tables
    rewriter: Rewriter
    committer: Committer
    now_ms: Callable[[], int]
    ordered: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    _waiting: list[RewriteFiles] = field(default_factory=list)
    _known: set[int] = field(default_factory=set)
    _offset: int = 0

    def __post_init__(self) -> None:
        self._enricher = EnricherHandlers(self.tables, self.now_ms)
        self._bucket = PlannerBucket(MemoryStore(), Thresholds())

    def committed(self, name: TableName) -> None:
        """Events of what is new in the table."""
        table = self.tables.load(name)
        new = [one for one in table.snapshots if one.snapshot_id not in self._known]
        self._known |= {one.snapshot_id for one in new}
        added = tuple(
            SnapshotAdded(
                one.snapshot_id,
                one.parent_snapshot_id,
                one.sequence_number or 0,
                self.now_ms(),
                one.summary.operation.value if one.summary else "",
                one.manifest_list,
                dict(one.summary.additional_properties) if one.summary else {},
            )
            for one in new
        )
        head = RefMoved(MAIN, "branch", table.head_id(MAIN))
        event = TableCommitted(
            f"{len(self._known)}", name, TableChange.COMMITTED, added, (head,), (), False,
            self.now_ms(), "gateway",
        )  # fmt: skip
        self._enriched("table-commits", event)

    def tick(self) -> None:
        """Time has passed; what is due is done."""
        self._take(TickPassed(BUCKET, self.now_ms()))
        while self._waiting:
            self._carry_out(self._waiting.pop(0))

    def _carry_out(self, order: RewriteFiles) -> None:
        self.ordered[order.action] += 1
        result = self.rewriter.rewrite(order, lambda _: None)
        done = bool(result.groups)
        for event in self.committer.commit_all([result]) if done else [self._skipped(result)]:
            if isinstance(event, RewriteCommitted):
                self.done[order.action] += 1
                self.committed(order.table)
            self._take(event)

    def _skipped(self, result: RewriteFinished) -> RewriteSkipped:
        """Nothing was to be done. None is Iceberg's: the policy orders no more than it serves."""
        assert result.committed_snapshot_id is None, result
        return skipped_event(result, self.now_ms())

    def _enriched(self, topic: str, record: Any) -> None:
        self._offset += 1
        delivery = Delivery(topic, BUCKET, self._offset, None, record)
        for change in self._enricher.handle(delivery):
            self._take(change)

    def _take(self, record: Any) -> None:
        outputs = self._bucket.handle(record, self.now_ms()).outputs
        self._bucket.commit()
        for output in outputs:
            if isinstance(output.record, ResyncTable):
                self._enriched("resync-requests", output.record)
            elif isinstance(output.record, RewriteFiles):
                self._waiting.append(output.record)
