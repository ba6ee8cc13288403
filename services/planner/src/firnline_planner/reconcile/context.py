"""A visit to a table: everything that whoever looks at it needs."""

from __future__ import annotations

from collections.abc import Iterator

from firnline_domain.counters.counters import PartitionCounters
from firnline_domain.counters.reads import read_by
from firnline_domain.counters.work import Partition, Table
from firnline_domain.identity import Scope
from firnline_domain.settings.thresholds import Thresholds, thresholds
from firnline_domain.values import Value, replace

from firnline_planner.effects import Step
from firnline_planner.recounting import is_gone
from firnline_planner.state.bucket_state import State


class Visit(Value):
    """Where and when a visit takes place."""

    state: State
    limits: Thresholds
    now_ms: int
    step: Step
    fleet: Thresholds  # what holds where the table and its namespace say nothing

    def partition(self, table: Table, scope: Scope) -> Partition:
        """The partition as it is known, or a fresh one."""
        found = self.state.partition(table.counters.table.uuid, table.counters.ref, scope)
        return found or Partition(PartitionCounters(scope))

    def keep(self, table: Table, partition: Partition) -> None:
        """Keep a partition of the table."""
        self.state.put_partition(table.counters.table.uuid, table.counters.ref, partition)

    def all_partitions(self, table: Table) -> Iterator[Partition]:
        """Every partition of the table that its counters speak of."""
        for partition in self.state.partitions(table.counters.table.uuid, table.counters.ref):
            if not is_gone(table.counters, partition.counters):
                yield partition


def visit_of(state: State, table: Table, defaults: Thresholds, now_ms: int, step: Step) -> Visit:
    """A visit under the table's own settings, with prices and readers as they were learned here."""
    limits = thresholds(table.counters.settings, defaults)
    if state.share.cost_factor != limits.cost_factor:
        limits = replace(limits, cost_factor=state.share.cost_factor)
    if table.work.reads is not None:
        limits = read_by(limits, table.work.reads, now_ms)
    return Visit(state, limits, now_ms, step, defaults)
