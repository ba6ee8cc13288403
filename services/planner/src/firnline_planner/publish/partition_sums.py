"""Sums over the partitions of a table whose state is published."""

from __future__ import annotations

from collections import Counter

from firnline_domain.base.times import earliest_of
from firnline_domain.counters.activity.partition_age import age_of
from firnline_domain.counters.state.size_spread import PartitionSpread
from firnline_domain.counters.state.work import Partition, Promised, Table
from firnline_domain.policy.cost.cost_benefit import burden_of
from firnline_domain.policy.partition.decide import (
    debt_files,
    decide_rewrite,
    reducible_debt,
    status_of,
)
from firnline_domain.policy.policy_input import PolicyInput
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.triggers.objectives import is_missed
from firnline_domain.policy.triggers.v2_deletes import VECTORS, v2_files

from firnline_planner.state.recount import Recount
from firnline_planner.state.table_context import TableContext

WOULD_ORDER = "would_order"  # a partition's status in shadow


class PartitionSums:
    """Sums over the partitions of a table. `statuses`: number of partitions by status.
    `off_objective`: number that miss an objective. `v2_partitions`: number with delete files of v2;
    None = not counted."""

    def __init__(self, context: TableContext, table: Table) -> None:
        self._context, self._table, settings = context, table, context.settings
        self.recount = Recount(table.counters)
        self.spread = PartitionSpread(settings.target_bytes)
        self.statuses: Counter[str] = Counter()
        self.off_objective = 0
        lowest = min(table.counters.format_version, settings.format_version)
        self.v2_partitions: int | None = 0 if lowest >= VECTORS else None
        self._has_objective = settings.max_read_amplification > 0 or settings.max_oldest_debt_ms > 0
        self._oldest_delete_ms: int | None = None
        self._ages: tuple[int, int] | None = None  # of the newest and the oldest partition
        self._own_debt = self._global_debt = 0

    def add(self, partition: Partition) -> int:
        """Add a partition. Return its files with debt."""
        context = self._context
        given = PolicyInput(self._table, context.settings, context.costs, context.now_ms, partition)
        self.recount.add(partition)
        self.spread.add(partition)
        self._add_age(partition)
        if not partition.counters.is_empty:
            since_ms = partition.work.equality_since_ms
            self._oldest_delete_ms = earliest_of(self._oldest_delete_ms, since_ms)
            self.statuses[_status_name(given)] += 1
        self.off_objective += self._has_objective and _misses_objective(given)
        if self.v2_partitions is not None and v2_files(given):
            self.v2_partitions += 1
        return self._add_debt(given)

    def _add_age(self, partition: Partition) -> None:
        reads = self._table.work.reads
        clock = reads.clock if reads else None
        age = age_of(partition.counters.scope, clock, self._context.now_ms)
        if age is not None:
            newest, oldest = self._ages or (age, age)
            self._ages = min(newest, age), max(oldest, age)

    def _add_debt(self, given: PolicyInput) -> int:
        files, shared = debt_files(given), reducible_debt(given).global_deletes
        self._own_debt += files - shared
        self._global_debt = max(self._global_debt, shared)  # every partition has the same ones
        return files

    @property
    def debt_files(self) -> int:
        return self._own_debt + self._global_debt

    @property
    def span(self) -> int:
        """Return the number of units from the oldest partition to the newest, both included; 0 if
        no partition contains a time."""
        return 0 if self._ages is None else self._ages[1] - self._ages[0] + 1

    @property
    def promise(self) -> Promised | None:
        """Return the age of the oldest equality delete, where none shall be too old."""
        max_age_ms = self._context.settings.max_equality_delete_age_ms
        if not max_age_ms or self._oldest_delete_ms is None:
            return None
        return Promised(max_age_ms, self._oldest_delete_ms)


def _status_name(given: PolicyInput) -> str:
    if given.settings.shadow and decide_rewrite(given).reason is Reason.SHADOW:
        return WOULD_ORDER
    return status_of(given)


def _misses_objective(given: PolicyInput) -> bool:
    burden = burden_of(given.holds, given.settings.target_bytes)
    return is_missed(given, burden.amplification)
