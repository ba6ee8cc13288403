"""Do a table's partitions add up to its totals? Checked whenever all of them are read anyway.

Totals and partitions are kept apart, and a driver that loses or revives single writes would tear
them; nothing but a recount would show it.
"""

from __future__ import annotations

from firnline_domain.base.values import replace
from firnline_domain.counters.fold.missing_snapshots import ResyncReason, wait_for_resync
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters, Totals
from firnline_domain.counters.state.work import Partition


class Recount:
    """Adds up the partitions of a table."""

    def __init__(self, table: TableCounters) -> None:
        self._table = table
        self._totals = Totals()
        self._ahead = False

    def add(self, partition: Partition) -> None:
        """Count a partition again."""
        table, counters = self._table, partition.counters
        self._ahead |= (counters.epoch, counters.ordinal) > (table.epoch, table.ordinal)
        self._totals = self._totals.with_partition(PartitionCounters(counters.scope), counters)

    def check_counters(self, now_ms: int) -> TableCounters:
        """Return the counters with the right numbers of partitions. If the files do not add up,
        request absolute counters."""
        if self._ahead or self._table.open or not self._table.known:
            return self._table  # some changes are in the partitions only
        right = replace(self._table, totals=self._totals)
        if self._totals.holds == self._table.totals.holds:
            return right
        return wait_for_resync(right, ResyncReason.MISCOUNTED, now_ms)
