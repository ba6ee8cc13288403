"""Which bucket a table is in, where a fleet does not leave that to the hash. Pure (0022).

A table's home is the bucket of its hash. The planner that owns the home is the only one that
assigns the table elsewhere, and each assignment has a higher epoch than the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from firnline_domain.identity import bucket_of
from firnline_domain.records.events import BucketLoaded, TableAssigned
from firnline_domain.values import Value

TOPIC = "bucket-assignments"  # compacted: assignments by table uuid, loads by bucket
HANDOVERS = "table-handovers"  # what one bucket's planner gives another's
# Written to a table's own bucket by whoever knows it. A record that comes to another bucket goes
# round by the home and is late by that, so this is no place for what is told by its order: orders
# of people go home, always.
ROUTED = frozenset({"table-commits", "file-changes"})


class Assign(StrEnum):
    """Where new tables go."""

    HASH = "hash"  # home
    TABLES = "tables"  # to the bucket with the fewest tables
    FILES = "files"  # to the bucket whose tables have the fewest files


class Route(Value):
    """What one bucket keeps of a table that was assigned once; without one, a table is at home.

    `bucket`: at its home, where to send its records, None = it is back. `is_assigned_here`: in the
    bucket that it was assigned to. `recalled_for`: at its home, asked back to go to that bucket;
    the records that come meanwhile wait, `waiting` of them.
    """

    epoch: int
    bucket: int | None = None
    is_assigned_here: bool = False
    recalled_for: int | None = None
    waiting: int = 0

    @property
    def is_away(self) -> bool:
        """True where the hash does not say who counts the table."""
        return self.is_assigned_here or self.bucket is not None


def next_epoch(last: int, now_ms: int) -> int:
    """Higher than all before, also than those of a table that was forgotten since."""
    return max(last + 1, now_ms)


class Board:
    """The newest word of the topic on every table and every bucket."""

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets
        self._assigned: dict[str, TableAssigned] = {}
        self._loads: dict[int, BucketLoaded] = {}
        self._coming: dict[int, dict[str, int]] = {bucket: {} for bucket in range(buckets)}

    def fold(self, record: object) -> None:
        """Take one record of the topic in."""
        match record:
            case TableAssigned():
                known = self._assigned.get(record.table_uuid)
                if known is not None and known.epoch > record.epoch:
                    return
                self._assigned[record.table_uuid] = record
                self.expect(record.table_uuid, record.bucket, record.at_ms)
            case BucketLoaded():
                self._loads[record.bucket] = record
                coming = self._coming.get(record.bucket, {})
                for uuid in [one for one, at_ms in coming.items() if at_ms <= record.at_ms]:
                    del coming[uuid]

    def forget(self, table_uuid: str) -> None:
        """The table is no more."""
        self._assigned.pop(table_uuid, None)

    def expect(self, table_uuid: str, bucket: int, at_ms: int) -> None:
        """A table is on its way: many may come between two words of a bucket on its load."""
        for coming in self._coming.values():
            coming.pop(table_uuid, None)
        load = self._loads.get(bucket)
        if bucket in self._coming and (load is None or load.at_ms < at_ms):
            self._coming[bucket][table_uuid] = at_ms

    def assigned(self, table_uuid: str) -> TableAssigned | None:
        """The newest word on a table; None = it is at home."""
        return self._assigned.get(table_uuid)

    def assigned_from(self, home: int) -> Iterator[TableAssigned]:
        """All tables of one home."""
        for one in self._assigned.values():
            if bucket_of(one.table_uuid, self._buckets) == home:
                yield one

    def bucket(self, table_uuid: str) -> int:
        """Where to write a table's records."""
        assigned = self._assigned.get(table_uuid)
        if assigned is None or not 0 <= assigned.bucket < self._buckets:
            return bucket_of(table_uuid, self._buckets)
        return assigned.bucket

    def lightest(self, home: int, by: Assign) -> int:
        """Where a new table of that home goes: there, where no bucket is lighter, or where some
        have not told of their load yet."""
        every = range(self._buckets)
        if by is Assign.HASH or any(period not in self._loads for period in every):
            return home
        return min(every, key=lambda one: (self._weight(one, by), one != home, one))

    def _weight(self, bucket: int, by: Assign) -> float:
        load, coming = self._loads[bucket], len(self._coming[bucket])
        if by is Assign.TABLES:
            return load.tables + coming
        tables = sum(load.tables for load in self._loads.values())
        files = sum(load.files for load in self._loads.values())
        return load.files + coming * max(files / max(tables, 1), 1.0)
