"""Assign tables to buckets. Pure (decision 0022).

A table's home is its hash modulo the number of homes, which is fixed when the topics are made. The
planner that owns the home is the only one that assigns the table elsewhere, and each assignment has
a higher epoch than the one before. Buckets may be added (decision 0022): they are no table's
home."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from firnline_domain.base.values import Value
from firnline_domain.identity import bucket_of
from firnline_domain.records.events import BucketLoaded, TableAssigned

TOPIC = "bucket-assignments"  # compacted: assignments by table key, loads by bucket
# A topic has fewer partitions. Of 2**60 no planner would ever come to an end (chaos, seed 229728).
MAX_BUCKETS = 10_000
HANDOVERS = "table-handovers"  # what one bucket's planner gives another's
# Written to a table's own bucket by whoever knows it. A record that comes to another bucket goes
# round by the home and is late by that, so what depends on its order does not go here: orders
# of people go home, always.
ROUTED = frozenset({"table-commits", "file-changes"})
# A partition for each bucket, also for added ones; all others have one for each home.
BY_BUCKET = ROUTED | {HANDOVERS, "rewrite-tasks", "rewrite-tasks-heavy", "table-tasks"}


def is_by_bucket(topic: str) -> bool:
    """Return True if records go by bucket, also of a group's form of a topic
    (`rewrite-tasks.etl`)."""
    return topic in BY_BUCKET or topic.partition(".")[0] in BY_BUCKET


class BucketRoute(Value):
    """Route of a table that was assigned once, as one bucket keeps it; without one, a table is at
    home.

    `bucket`: at its home, where to send its records, None = it is back. `is_assigned_here`: in the
    bucket that it was assigned to. `recalled_for`: at its home, asked back to go to that bucket for
    that `reason`; the records that come meanwhile wait, `waiting` of them."""

    epoch: int
    bucket: int | None = None
    is_assigned_here: bool = False
    recalled_for: int | None = None
    waiting: int = 0
    reason: str = ""

    @property
    def is_away(self) -> bool:
        """Return True if the hash does not determine the bucket that counts the table."""
        return self.is_assigned_here or self.bucket is not None


def next_epoch(last: int, now_ms: int) -> int:
    """Return an epoch higher than all before, also than those of a table that was removed since."""
    return max(last + 1, now_ms)


class Board:
    """The newest word of the topic on every table and every bucket."""

    def __init__(self, homes: int) -> None:
        self.homes = homes
        self.buckets = homes  # and those added since, as soon as a planner has one
        self._assigned: dict[str, TableAssigned] = {}
        self._loads: dict[int, BucketLoaded] = {}
        self._coming: dict[int, dict[str, int]] = {}

    def fold_record(self, record: object) -> None:
        """Take one record of the topic in; none of a bucket that cannot be."""
        match record:
            case TableAssigned(bucket=bucket) | BucketLoaded(bucket=bucket) if (
                not 0 <= bucket < MAX_BUCKETS
            ):
                return
            case TableAssigned():
                known = self._assigned.get(record.table_key)
                if known is not None and known.epoch > record.epoch:
                    return
                self._assigned[record.table_key] = record
                self.expect_table(record.table_key, record.bucket, record.at_ms)
            case BucketLoaded():
                self._loads[record.bucket] = record
                self.buckets = max(self.buckets, record.bucket + 1)
                coming = self._coming.get(record.bucket, {})
                for key in [one for one, at_ms in coming.items() if at_ms <= record.at_ms]:
                    del coming[key]

    def forget_table(self, table_key: str) -> None:
        """Forget a table that is no more."""
        self._assigned.pop(table_key, None)

    def expect_table(self, table_key: str, bucket: int, at_ms: int) -> None:
        """Note that a table is on its way: many may come between two reports of a bucket's load."""
        for coming in self._coming.values():
            coming.pop(table_key, None)
        load = self._loads.get(bucket)
        if load is None or load.at_ms < at_ms:
            self._coming.setdefault(bucket, {})[table_key] = at_ms

    def assignment_of(self, table_key: str) -> TableAssigned | None:
        """Return the newest assignment of a table; None = it is in its default bucket."""
        return self._assigned.get(table_key)

    @property
    def all_assignments(self) -> Collection[TableAssigned]:
        """Return the newest assignment of each table that was ever assigned."""
        return self._assigned.values()

    def assigned_from(self, home: int) -> Iterator[TableAssigned]:
        """Yield all assigned tables of one default bucket."""
        for one in self._assigned.values():
            if bucket_of(one.table_key, self.homes) == home:
                yield one

    @property
    def is_by_hash(self) -> bool:
        """True if every table is in its default bucket, and no bucket was added."""
        every = self._assigned.values()
        at_home = all(one.bucket == bucket_of(one.table_key, self.homes) for one in every)
        return at_home and self.buckets == self.homes

    def bucket_of_table(self, table_key: str) -> int:
        """Return the bucket for a table's records."""
        assigned = self._assigned.get(table_key)
        return bucket_of(table_key, self.homes) if assigned is None else assigned.bucket

    def reported_load(self, bucket: int) -> int:
        """Return the load that a bucket has reported; 0 if it has reported none."""
        known = self._loads.get(bucket)
        return known.load if known else 0

    def expected_loads(self) -> Mapping[int, float]:
        """Return the load of every bucket, with what is on its way to it, as if each of these were
        a table like any other. Empty until every bucket has reported its own."""
        if len(self._loads) < self.buckets:
            return {}
        tables = sum(one.tables for one in self._loads.values())
        usual = sum(one.load for one in self._loads.values()) / max(tables, 1)
        return {
            bucket: one.load + usual * len(self._coming.get(bucket, ()))
            for bucket, one in self._loads.items()
        }
