"""How far a table is on its way to v3: a scan of its partitions counts along."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from firnline_domain.counters.state.work import Partition, Table
from firnline_domain.policy.partition.v2_deletes import VECTORS, v2_files
from firnline_domain.settings.thresholds import Thresholds


class V2Partitions:
    """Counts the partitions that pass `through` and hold delete files of v2."""

    def __init__(self, table: Table, limits: Thresholds) -> None:
        self._table, self._limits = table, limits
        lowest = min(table.counters.format_version, limits.format_version)
        self.count: int | None = 0 if lowest >= VECTORS else None

    def through(self, partitions: Iterable[Partition]) -> Iterator[Partition]:
        """The same partitions."""
        for partition in partitions:
            if self.count is not None and v2_files(self._table, partition, self._limits):
                self.count += 1
            yield partition
