"""Context of every handler: the state, the time, the settings in force, and the effects."""

from __future__ import annotations

from collections.abc import Iterator

from firnline_domain.base.values import Value, replace
from firnline_domain.counters.activity.partition_age import age_of
from firnline_domain.counters.activity.reads import AgePosition, Rates, read_by
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters
from firnline_domain.counters.state.debt import Debt, debt_of
from firnline_domain.counters.state.work import Partition, PartitionWork, RunningTask, Table
from firnline_domain.identity import Scope
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.cost_model import CostModel, cost_model
from firnline_domain.policy.policy_input import PolicyInput, TableInput
from firnline_domain.records.parts.tallies import FileTally
from firnline_domain.settings.policies import NO_POLICIES, TablePolicies
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds

from firnline_planner.state.bucket_state import BucketState
from firnline_planner.state.effects import Effects
from firnline_planner.state.failing_tables import FailingTables
from firnline_planner.state.fleet_share import TokenBuckets


def spread_name(table: Table, scope: Scope) -> str:
    """Return the name of a partition whose hash keeps partitions from falling due in the same
    minute."""
    return f"{table.counters.table.key} {scope.spec_id} {scope.partition}"


def is_gone(table: TableCounters, partition: PartitionCounters) -> bool:
    """Return True for an entry without content: of an older epoch, or empty.

    An empty one ahead of its table stays: it shows that a fold is in which a crash has undone in
    the table's own entry."""
    emptied = partition.is_empty and partition.ordinal <= table.ordinal
    return partition.epoch < table.epoch or (partition.epoch == table.epoch and emptied)


class TableContext(Value):
    """One per record; `for_table` makes it that of the record's table."""

    state: BucketState
    fleet: Thresholds  # what holds where the table and its namespace say nothing
    settings: Thresholds  # what holds for the table; the fleet's before there is one
    costs: CostModel  # of its maintenance, as it was learned here
    now_ms: int
    effects: Effects
    failing: FailingTables  # of the bucket
    policies: TablePolicies = NO_POLICIES
    rates: Rates | None = None  # how often the table's partitions are read, if that is known

    def for_table(self, table: Table) -> TableContext:
        """Return the context for a table: its own settings, and the prices that were learned
        here."""
        settings = resolve_thresholds(table.counters.settings, self.fleet)
        share, reads = self.state.share, table.work.reads
        factors = share.prices_of(settings.served_by)
        costs = cost_model(settings, factors, share.actions, table.work.key_share)
        rates = reads.rates_at(self.now_ms) if reads else None
        return replace(self, settings=settings, costs=costs, rates=rates)

    def input_of(self, table: Table, partition: Partition) -> PolicyInput:
        """Return the input of a decision about one partition of the context's table: some are read
        more often."""
        settings, reads, rates = self.settings, table.work.reads, self.rates
        if reads is not None and rates is not None:
            age = age_of(partition.counters.scope, reads.clock, self.now_ms)
            place = AgePosition(age, table.counters.totals.partitions)
            settings = read_by(settings, rates.rate_at(place))
        return PolicyInput(table, settings, self.costs, self.now_ms, partition)

    def table_input(self, table: Table) -> TableInput:
        """Return the input of a decision about the whole table: its read rate is that of its most
        read partitions."""
        settings, reads, rates = self.settings, table.work.reads, self.rates
        if reads is not None and rates is not None:
            place = reads.most_read(table.counters.totals.partitions)
            settings = read_by(settings, rates.rate_at(place))
        return TableInput(table, settings, self.costs, self.now_ms)

    def charge_budget(self, gb_hours: float) -> None:
        """Charge the budget for work that needs no grant: the other candidates wait longer."""
        name, budget = self.settings.paying_budget
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
        target, deletes = self.settings.target_bytes, table.counters.global_equality_deletes
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
    costs = cost_model(fleet)
    return TableContext(state, fleet, fleet, costs, now_ms, Effects(), failing, policies)
