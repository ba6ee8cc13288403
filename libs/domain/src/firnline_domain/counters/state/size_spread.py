"""Sum how a table's data is spread over its partitions, whenever all of them are read anyway."""

from __future__ import annotations

from firnline_domain.counters.state.work import Partition
from firnline_domain.records.parts.tallies import FRAGMENTS_IN_TARGET


class PartitionSpread:
    """Adds up partitions; those without data files do not count."""

    def __init__(self, target_bytes: int) -> None:
        self.target_bytes = target_bytes
        self.partitions = 0
        self.tiny = 0  # all of it is less than what one file counts as a fragment
        self.bytes = 0
        self.largest_bytes = 0
        self.unpartitioned = False

    def add(self, partition: Partition) -> None:
        """Add a partition."""
        data = partition.counters.holds.all_data
        if data.files > 0:
            self.partitions += 1
            self.tiny += data.bytes * FRAGMENTS_IN_TARGET < self.target_bytes
            self.bytes += data.bytes
            self.largest_bytes = max(self.largest_bytes, data.bytes)
            self.unpartitioned |= partition.counters.scope.is_unpartitioned

    @property
    def mean_bytes(self) -> float:
        return self.bytes / self.partitions if self.partitions else 0.0
