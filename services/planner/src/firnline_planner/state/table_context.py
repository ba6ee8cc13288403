"""Context of every handler: the state, the time, the limits in force, and the effects."""

from __future__ import annotations

from collections.abc import Iterator

from firnline_domain.base.values import Value, replace
from firnline_domain.counters.activity.partition_age import age_of
from firnline_domain.counters.activity.reads import AgePosition, Rates, read_by
from firnline_domain.counters.state.counters import PartitionCounters
from firnline_domain.counters.state.debt import Debt, debt_of
from firnline_domain.counters.state.work import Partition, PartitionWork, RunningTask, Table
from firnline_domain.identity import Scope
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.records.parts.tallies import FileTally
from firnline_domain.settings.policies import NO_POLICIES, TablePolicies
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds

from firnline_planner.state.bucket_state import BucketState
from firnline_planner.state.effects import Effects
from firnline_planner.state.failing_tables import FailingTables
from firnline_planner.state.fleet_share import MEASURED, TokenBuckets
from firnline_planner.state.recount import is_gone


def spread_name(table: Table, scope: Scope) -> str:
    """Return the name of a partition whose hash keeps partitions from falling due in the same
    minute."""
    return f"{table.counters.table.key} {scope.spec_id} {scope.partition}"


class TableContext(Value):
    """One per record; `for_table` makes it that of the record's table."""

    state: BucketState
    fleet: Thresholds  # what holds where the table and its namespace say nothing
    limits: Thresholds  # what holds for the table; the fleet's before there is one
    now_ms: int
    effects: Effects
    failing: FailingTables  # of the bucket
    policies: TablePolicies = NO_POLICIES
    rates: Rates | None = None  # how often the table's partitions are read, if that is known

    def for_table(self, table: Table) -> TableContext:
        """Return the context for a table: its own settings, and the prices that were learned
        here."""
        limits = resolve_thresholds(table.counters.settings, self.fleet)
        share, keys = self.state.share, table.work.key_share
        prices = share.prices_of(limits.served_by)
        if share.actions or (prices, keys) != (MEASURED, limits.key_share):
            limits = replace(
                limits,
                cost_factor=prices.rewrites,
                conversion_factor=prices.conversions,
                sort_factor=prices.sorts,
                action_factors=tuple(share.actions.items()),
                key_share=keys,
            )
        reads = table.work.reads
        rates = reads.rates_at(self.now_ms) if reads else None
        return replace(self, limits=limits, rates=rates)

    def limits_of(self, table: Table, partition: Partition) -> Thresholds:
        """Return the limits in force for one partition of the context's table: some are read more
        often."""
        reads, rates = table.work.reads, self.rates
        if reads is None or rates is None:
            return self.limits
        age = age_of(partition.counters.scope, reads.clock, self.now_ms)
        place = AgePosition(age, table.counters.totals.partitions)
        return read_by(self.limits, rates.rate_at(place))

    def limits_of_all(self, table: Table) -> Thresholds:
        """Return the limits in force for the whole table: its read rate is that of its most read
        partitions."""
        reads, rates = table.work.reads, self.rates
        if reads is None or rates is None:
            return self.limits
        return read_by(
            self.limits, rates.rate_at(reads.most_read(table.counters.totals.partitions))
        )

    def charge_budget(self, gb_hours: float) -> None:
        """Charge the budget for work that needs no grant: the other candidates wait longer."""
        name, budget = self.limits.paying_budget
        if not budget.is_limited:
            return
        share = self.state.share
        tokens = share.tokens.get(name, TokenBuckets()).with_payment(gb_hours, from_old=False)
        self.state.put_share(replace(share, tokens={**share.tokens, name: tokens}))
        self.effects.spent_gb_hours += gb_hours

    def partition(self, table: Table, scope: Scope) -> Partition:
        """Return the partition as it is known, or a new one."""
        known = self.state.partition(table.counters.table.key, table.counters.ref, scope)
        return known or Partition(PartitionCounters(scope))

    def put_partition(self, table: Table, partition: Partition) -> None:
        """Keep a partition of the table."""
        self.state.put_partition(table.counters.table.key, table.counters.ref, partition)

    def debt(self, table: Table, holds: FileTally) -> Debt:
        """Return the debt of a partition of the table with these files."""
        target, deletes = self.limits.target_bytes, table.counters.global_equality_deletes
        return debt_of(holds, target, deletes)

    def commit_ages_ms(self, task: RunningTask, work: PartitionWork) -> list[int]:
        """Return the age of the oldest commit whose files the task takes; nothing if it is not for
        the debt."""
        if work.oldest_commit_ms is None or task.action == Action.SORT:
            return []
        return [max(self.now_ms - work.oldest_commit_ms, 0)]

    def partitions(self, table: Table) -> Iterator[Partition]:
        """Yield every partition of the table that its counters contain."""
        for partition in self.state.partitions(table.counters.table.key, table.counters.ref):
            if not is_gone(table.counters, partition.counters):
                yield partition


def context_of(
    state: BucketState,
    fleet: Thresholds,
    now_ms: int,
    failing: FailingTables,
    policies: TablePolicies = NO_POLICIES,
) -> TableContext:
    """Return the context for a record that has come now."""
    return TableContext(state, fleet, fleet, now_ms, Effects(), failing, policies)
