"""What the planner shows of a table: its newest state, for console and `explain`."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from firnline_domain.decisions import Decision, Reason
from firnline_domain.holds import rewrite_hold_of
from firnline_domain.policy import decide, depth, explained, status_of
from firnline_domain.progress import Partition, Table
from firnline_domain.retention import ExpiryReason, begins_ms
from firnline_domain.settings import SettingInForce, effective
from firnline_domain.states import ExpiryPlan, PartitionState, TableReads, TableState
from firnline_domain.thresholds import Origin, Thresholds
from firnline_domain.values import replace

SHOWN_PARTITIONS = 100
WOULD_ORDER = "would_order"  # a partition's status in shadow
INTERVAL_MS = 1_000  # between two states of a table at the least
INTERVAL_MAX_MS = 60_000


def interval_ms(table: Table) -> int:
    """How often a table is shown; a scan of 1,000 partitions is to cost 2 % of the time."""
    return min(max(table.counters.totals.partitions, INTERVAL_MS), INTERVAL_MAX_MS)


def deepest_in_debt(
    table: Table, partitions: Iterable[Partition], limits: Thresholds
) -> list[Partition]:
    """The partitions to show."""
    return heapq.nlargest(
        SHOWN_PARTITIONS, partitions, key=lambda partition: depth(table, partition, limits)
    )


def table_state(
    table: Table,
    deepest: Iterable[Partition],
    limits: Thresholds,
    fleet: Thresholds,
    now_ms: int,
    statuses: Mapping[str, int],
) -> TableState:
    """The state to publish; `fleet` is what holds where table and namespace say nothing.
    `statuses`: of all partitions, not of the deepest alone."""
    counters = table.counters
    return TableState(
        table=counters.table,
        ref=counters.ref,
        head_snapshot_id=counters.head_snapshot_id,
        sequence_number=counters.sequence_number,
        epoch=counters.epoch,
        ordinal=counters.ordinal,
        format_version=counters.format_version,
        holds=counters.totals.holds,
        partition_count=counters.totals.partitions,
        partitions=tuple(partition_state(table, one, limits, now_ms) for one in deepest),
        snapshot_count=counters.snapshot_count,
        oldest_snapshot_ms=counters.oldest_snapshot_ms,
        waiting_for_resync=counters.waiting is not None,
        settings=counters.settings,
        expiry_reason=table.work.expiry_reason,
        removed=counters.removed,
        updated_at_ms=now_ms,
        hold=rewrite_hold_of(table, limits, now_ms),
        in_force=in_force(table, fleet),
        advised=tuple(table.work.advice),
        reads=reads_state(table, limits, now_ms),
        statuses=dict(statuses),
        expiry_plan=expiry_plan(table, limits, now_ms),
    )


def expiry_plan(table: Table, limits: Thresholds, now_ms: int) -> ExpiryPlan | None:
    """What was announced and has not begun yet."""
    going = table.work.expiry.going
    begins = begins_ms(table, limits, now_ms)
    if table.work.expiry_reason != ExpiryReason.GRACE_PERIOD or begins <= now_ms:
        return None
    return ExpiryPlan(begins, going.snapshots, going.files, going.bytes)


class Statuses:
    """Counts the partitions that pass `through` by their status."""

    def __init__(self, table: Table, limits: Thresholds, now_ms: int) -> None:
        self._table, self._limits, self._now_ms = table, limits, now_ms
        self.counts: Counter[str] = Counter()

    def through(self, partitions: Iterable[Partition]) -> Iterator[Partition]:
        """The same partitions."""
        for partition in partitions:
            if not partition.counters.is_empty:
                self.counts[self._status(partition)] += 1
            yield partition

    def _status(self, partition: Partition) -> str:
        table, limits, now_ms = self._table, self._limits, self._now_ms
        if limits.shadow and decide(table, partition, limits, now_ms).reason is Reason.SHADOW:
            return WOULD_ORDER
        return status_of(table, partition, limits, now_ms)


def reads_state(table: Table, limits: Thresholds, now_ms: int) -> TableReads | None:
    """What readers report, and what is made of it."""
    if (reads := table.work.reads) is None:
        return None
    return TableReads(round(reads.per_hour(now_ms), 3), reads.since_ms, limits.reads_per_hour)


def in_force(table: Table, fleet: Thresholds) -> tuple[SettingInForce, ...]:
    """Settings that are not the default, or about which there is something to say."""
    found = effective(table.counters.settings, fleet).values()
    return tuple(one for one in found if one.origin != Origin.DEFAULT or one.problem)


def unshadowed(table: Table, partition: Partition, limits: Thresholds, now_ms: int) -> Decision:
    """What would be decided if orders went out."""
    return explained(table, partition, replace(limits, shadow=False), now_ms)


def partition_state(
    table: Table, partition: Partition, limits: Thresholds, now_ms: int
) -> PartitionState:
    """One partition, with the decision that holds for it now and its numbers."""
    decision = explained(table, partition, limits, now_ms)
    status, until_ms = decision.status, decision.until_ms
    if decision.reason is Reason.SHADOW:
        decision = unshadowed(table, partition, limits, now_ms)
        status, until_ms = WOULD_ORDER, None
    task = table.work.task_of(partition.counters.scope)
    failing = decision.reason in (Reason.BACKING_OFF, Reason.PARKED)
    why = partition.work.failure if failing else decision.reason
    return PartitionState(
        scope=partition.counters.scope,
        holds=partition.counters.holds,
        status=status,
        reason=task.reason if task else why,
        numbers=task.numbers if task else decision.numbers,
        task_id=task.task_id if task else None,
        until_ms=until_ms,
        failures=partition.work.failures,
    )
