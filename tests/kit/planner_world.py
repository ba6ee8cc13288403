"""One bucket of the planner in memory: records in, orders and states out; the test is the clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from firnline_domain.identity import Scope
from firnline_domain.records.events import (
    ChangeKind,
    FilesChanged,
    PartitionChange,
    RewriteCommitted,
    RewriteConflicted,
    TickPassed,
)
from firnline_domain.records.orders import (
    RewriteFiles,
    TableOrder,
)
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.results import TaskFailed
from firnline_domain.records.states import PartitionState, TableState
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.bucket.bucket import PlannerBucket
from firnline_planner.state.effects import Effects, Output

from tests.kit.memory_store import MemoryStore
from tests.kit.names import TABLE

A, B, C = Scope(0, '["a"]'), Scope(0, '["b"]'), Scope(0, '["c"]')

AGREED = {"firnline.expire.enabled": "true"}
EXPIRING = {"firnline.retain.hours": "1", **AGREED}
LIMITS = Thresholds(quiet_ms=0, cool_down_ms=5_000, deadline_ms=600_000)


def fragments(count: int) -> FileTally:
    return FileTally(fragments=Tally(count, count, count))


def part(scope: Scope, added: int, removed: int = 0) -> PartitionChange:
    return PartitionChange(scope, fragments(added), fragments(removed))


@dataclass
class PlannerWorld:
    """A bucket, a clock and a table whose snapshots are numbered. `more`: of every change."""

    store: MemoryStore = field(default_factory=MemoryStore)
    now_ms: int = 1_000_000
    head: int = 0
    limits: Thresholds = LIMITS
    more: dict[str, Any] = field(default_factory=dict)
    sent: list[Output] = field(default_factory=list)
    effects: Effects = field(default_factory=Effects)  # of the last record
    number: int = 0  # the bucket's

    def __post_init__(self) -> None:
        self.restart()

    def restart(self, limits: Thresholds | None = None) -> None:
        """Whatever lives in memory alone is gone; other `limits` are a fleet's new defaults."""
        self.limits = limits or self.limits
        self.bucket = PlannerBucket(self.store, self.limits)

    def take(self, record: object, keep: bool = True) -> list[Any]:
        """The records that come of it. `keep`: False = its effects could not be sent."""
        self.effects = self.bucket.handle(record, self.now_ms)
        if keep:
            self.bucket.commit()
        else:
            self.bucket.discard()
        self.sent += self.effects.outputs
        return [output.record for output in self.effects.outputs]

    def commit(self, *parts: PartitionChange, **more: Any) -> list[Any]:
        self.head += 1
        return self.take(self.change(self.head, self.head - 1 or None, *parts, **more))

    def change(
        self, snapshot: int, parent: int | None, *parts: PartitionChange, **more: Any
    ) -> Any:
        self.now_ms += 10
        values: dict[str, Any] = {
            "event_id": f"e{snapshot}",
            "table": TABLE,
            "ref": "main",
            "kind": ChangeKind.DELTA,
            "snapshot_id": snapshot,
            "parent_snapshot_id": parent,
            "sequence_number": snapshot,
            "timestamp_ms": self.now_ms,
            "operation": "append",
            "partitions": parts,
            "format_version": 2,
            "observed_at_ms": self.now_ms,
            **self.more,
            **more,
        }
        return FilesChanged(**values)

    def tick(self, ms: int = 1_000) -> list[Any]:
        self.now_ms += ms
        return self.take(TickPassed(self.number, self.now_ms))

    @property
    def topics(self) -> list[str]:
        """Of all that was sent."""
        return [output.topic for output in self.sent]

    def published(self) -> list[TableState]:
        """Every state so far."""
        return [one.record for one in self.sent if isinstance(one.record, TableState)]

    def state(self) -> TableState:
        """The newest state, shown at the latest a second from now."""
        self.tick(2_000)
        return self.published()[-1]


def only(records: list[Any]) -> RewriteFiles:
    [order] = [one for one in records if isinstance(one, RewriteFiles)]
    return order


def partition_of(state: TableState, scope: Scope) -> PartitionState:
    return next(one for one in state.partitions if one.scope == scope)


def committed(order: RewriteFiles, *snapshots: int, at_ms: int = 10**12) -> RewriteCommitted:
    return RewriteCommitted(
        task_id=order.task_id,
        table=TABLE,
        ref="main",
        scope=order.scope,
        snapshot_ids=snapshots,
        start_snapshot_id=1,
        files_removed=0,
        files_added=0,
        equality_deletes_removed=0,
        position_deletes_removed=0,
        bytes_before=0,
        bytes_after=0,
        rows_in=0,
        rows_masked=0,
        rows_out=0,
        mode="native",
        redelivered=False,
        committed_at_ms=at_ms,
    )


def failed(order: RewriteFiles, retryable: bool) -> TaskFailed:
    return TaskFailed(
        order.task_id, TABLE, "main", order.scope, "rewrite", order.attempt, "w", "out_of_memory",
        "", retryable, 0,
    )  # fmt: skip


def conflicted(order: RewriteFiles, reason: ConflictReason) -> RewriteConflicted:
    return RewriteConflicted(order.task_id, TABLE, "main", order.scope, reason, "", 1, None, 0)


def orders(records: list[Any]) -> list[RewriteFiles]:
    """Rewrites of partitions: their tests do not fail because tables get another action."""
    return [one for one in records if isinstance(one, RewriteFiles)]


def table_orders(records: list[Any]) -> list[TableOrder]:
    """Of the table as a whole."""
    return [one for one in records if isinstance(one, TableOrder)]
