"""Collect what a decision about a partition is made from, and what follows from it."""

from __future__ import annotations

from firnline_domain.base.values import Value, replace
from firnline_domain.counters.state.debt import NO_DEBT, Debt, debt_of
from firnline_domain.counters.state.work import Partition, Table
from firnline_domain.policy.cost.cost_benefit import (
    CostBenefit,
    rewrites_everything,
    surplus_positions,
    weigh_compaction,
    weigh_minor,
)
from firnline_domain.records.parts.tallies import FileTally
from firnline_domain.settings.thresholds import Thresholds


class PolicyInput(Value):
    """Input of one decision, and what several triggers need of it.

    `grown`: the debt that came since the last rewrite, which could do nothing about the rest.
    `takes_all`: an order rewrites every file that a delete reaches. `counted`: the new debt that
    thresholds count. An order that leaves larger files as they are only joins files of positions,
    and only many of them. `weighed`: an order for the debt. `would_convert`: a conversion is the
    way, but streaming readers would stop at its snapshot."""

    table: Table
    partition: Partition
    settings: Thresholds
    now_ms: int
    debt: Debt
    grown: Debt
    takes_all: bool
    counted: Debt
    weighed: CostBenefit
    would_convert: bool = False

    @property
    def holds(self) -> FileTally:
        return self.partition.counters.holds

    @property
    def is_worth_it(self) -> bool:
        """Return False for a lone fragment, which has nothing to be merged with. Any delete file
        can be applied."""
        counted = self.counted
        deletes = counted.equality_deletes + counted.position_deletes + counted.global_deletes
        return deletes > 0 or (counted.fragments > 0 and self.debt.fragments > 1)


def collect_input(
    table: Table, partition: Partition, settings: Thresholds, now_ms: int
) -> PolicyInput:
    """Collect the input of one decision."""
    debt, grown = all_and_new_debt(table, partition, settings.target_bytes)
    holds, counted = partition.counters.holds, grown
    takes_all, is_read = rewrites_everything(holds, settings, debt), settings.streaming_readers
    unread = replace(settings, streaming_readers=False) if is_read else settings
    would_convert = is_read and takes_all and not rewrites_everything(holds, unread, debt)
    if not takes_all and grown.position_deletes:
        joined = min(grown.position_deletes, surplus_positions(holds))
        many = joined >= max(settings.min_position_deletes, 1)
        counted = replace(grown, position_deletes=joined if many and settings.may_convert else 0)
        would_convert = is_read and many and unread.may_convert
    weigh = weigh_compaction if takes_all else weigh_minor
    weighed = weigh(partition, settings, debt, grown)
    return PolicyInput(
        table, partition, settings, now_ms, debt, grown, takes_all, counted, weighed, would_convert
    )


def all_and_new_debt(table: Table, partition: Partition, target_bytes: int) -> tuple[Debt, Debt]:
    """Return (all debt of the partition, the part of it that has come since the last rewrite). No
    debt without data files."""
    if partition.counters.holds.data_files <= 0:
        return NO_DEBT, NO_DEBT  # delete files alone: there is nothing to rewrite
    deletes = table.counters.global_equality_deletes
    debt = debt_of(partition.counters.holds, target_bytes, deletes)
    return debt, debt.above(partition.work.floor)
