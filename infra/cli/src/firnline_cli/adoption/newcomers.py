"""Estimates how much a table that no planner counts yet deserves to be counted, from what is read
cheaply.

The weight is the policy's own measure: CPU seconds that readers pay in an hour for debt, for each
CPU second that the rewrite costs (`cost_benefit.Offer.gain`), of the partition where that is most.
A snapshot's summary knows the table as a whole only; where that says too little the weight is an
estimate, to be made exact from the manifests before it counts."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from firnline_domain.base.numbers import parse_number
from firnline_domain.base.values import Value
from firnline_domain.identity import TableName
from firnline_domain.policy.cost.cost_benefit import list_offers
from firnline_domain.records.events import PartitionChange
from firnline_domain.records.parts.tallies import FRAGMENTS_IN_TARGET, FileTally, Tally, size_class
from firnline_domain.records.results import ExpiryPreview
from firnline_domain.settings.thresholds import Thresholds


class Newcomer(Value):
    """A table to adopt: about half a kilobyte, because a catalog may have 100,000 of them. `exact`
    False: the summary contained too little, and the manifests may give another weight."""

    table: TableName
    data_files: int
    bytes: int
    delete_files: int
    equality_deletes: int  # records
    weight: float
    exact: bool = True
    head_snapshot_id: int | None = None  # of main


class FirstExpiry(Value):
    """The first snapshots and files that an expiry would delete from a table as it is now.
    `reason`: why it deletes nothing."""

    snapshots: int  # in all
    going: ExpiryPreview = ExpiryPreview()
    grace_ms: int = 0  # until it begins; 0 = at once
    reason: str = ""


class SnapshotTotals(Value):
    """A snapshot's summary: the totals of the table, and what the snapshot added."""

    data_files: int
    bytes: int  # of delete files, too
    records: int
    delete_files: int
    equality_deletes: int  # records, as the next
    position_deletes: int
    added_files: int
    added_bytes: int
    partitions: int  # that it changed; the table has as many at least

    @property
    def added_size(self) -> float | None:
        """Return the mean size in bytes of a file that the snapshot added; None if it added
        none."""
        return self.added_bytes / self.added_files if self.added_files else None


def summary_of(texts: Mapping[str, str]) -> SnapshotTotals | None:
    """Return the summary; None if the totals of data files are missing, because not every writer
    keeps them."""
    files, size = _parse_number(texts, "total-data-files"), _parse_number(texts, "total-files-size")
    if files is None or size is None:
        return None
    return SnapshotTotals(
        data_files=files,
        bytes=size,
        records=_parse_number(texts, "total-records") or 0,
        delete_files=_parse_number(texts, "total-delete-files") or 0,
        equality_deletes=_parse_number(texts, "total-equality-deletes") or 0,
        position_deletes=_parse_number(texts, "total-position-deletes") or 0,
        added_files=_parse_number(texts, "added-data-files") or 0,
        added_bytes=_parse_number(texts, "added-files-size") or 0,
        partitions=max(_parse_number(texts, "changed-partition-count") or 1, 1),
    )


def _parse_number(texts: Mapping[str, str], name: str) -> int | None:
    text = texts.get(name, "")
    found = parse_number(text)
    return None if found is None else int(found)


def by_summary(
    table: TableName,
    summary: SnapshotTotals | None,
    limits: Thresholds,
    partitioned: bool,
    format_version: int,
) -> Newcomer:
    """Weigh a table as if files and deletes were spread evenly over the partitions that are known
    of."""
    if summary is None:  # whatever it is: looked at before it has its turn
        return Newcomer(table, 0, 0, 0, 0, float("inf") if limits.enabled else 0.0, exact=False)
    parts = summary.partitions if partitioned else 1
    holds = _partition_tally(summary, parts, limits.target_bytes, format_version)
    unsaid = _has_mixed_sizes(summary, limits.target_bytes) or (
        partitioned and summary.equality_deletes > 0  # each reaches its own partition alone
    )
    return Newcomer(
        table,
        summary.data_files,
        summary.bytes,
        summary.delete_files,
        summary.equality_deletes,
        _max_weight([(holds, 0)], limits),
        exact=not unsaid,
    )


def by_manifests(
    table: TableName, partitions: Iterable[PartitionChange], limits: Thresholds
) -> Newcomer:
    """Weigh a table by every live file. `partitions` are all that the table contains, as added."""
    every = [(one.scope, one.added) for one in partitions]
    sums = sum((holds for _, holds in every), start=FileTally())
    reaching_all = sum(
        holds.equality_deletes.files for scope, holds in every if scope.is_unpartitioned
    )
    # Equality deletes of an unpartitioned spec reach the partitions of every other one.
    weighed = [(holds, 0 if scope.is_unpartitioned else reaching_all) for scope, holds in every]
    return Newcomer(
        table,
        sums.all_data.files,
        sums.all_data.bytes,
        sums.delete_files,
        sums.equality_deletes.records,
        _max_weight(weighed, limits),
    )


def _max_weight(partitions: Iterable[tuple[FileTally, int]], limits: Thresholds) -> float:
    """Return the highest gain per hour of a partition, in its readers' seconds per second of work;
    0 if the table is not to be maintained."""
    if not limits.enabled:
        return 0.0
    found = (list_offers(holds, limits.target_bytes, reaching) for holds, reaching in partitions)
    return max((one[0].gain * limits.reads_per_hour for one in found if one), default=0.0)


def _has_mixed_sizes(summary: SnapshotTotals, target_bytes: int) -> bool:
    """Return whether files are large on average, and yet the newest ones are fragments: their
    number is not known."""
    if summary.added_size is None or not summary.data_files:
        return False
    small = target_bytes / FRAGMENTS_IN_TARGET
    return summary.added_size < small <= summary.bytes / summary.data_files


def _partition_tally(
    summary: SnapshotTotals, parts: int, target_bytes: int, format_version: int
) -> FileTally:
    """Return the files of one of `parts` equal partitions."""
    files, rows = summary.data_files, summary.records
    small = _estimate_fragments(summary, target_bytes)
    row = rows / files if files else 0.0
    left = summary.bytes - small.bytes
    other = Tally((files - small.files) // parts, int(row * (files - small.files)) // parts)
    large = Tally(other.files, other.records, left // parts)
    kind = size_class(left // max(files - small.files, 1), target_bytes)
    positions = "deletion_vectors" if format_version > 2 else "position_deletes"
    equality = _equality_files(summary)
    tallies = {
        "fragments": Tally(
            small.files // parts, int(row * small.files) // parts, small.bytes // parts
        ),
        "equality_deletes": Tally(-(-equality // parts), summary.equality_deletes // parts),
        positions: Tally(
            -(-(summary.delete_files - equality) // parts), summary.position_deletes // parts
        ),
    }
    if large.files:
        tallies[kind.value] = tallies.get(kind.value, Tally()) + large
    return FileTally(**tallies)


def _estimate_fragments(summary: SnapshotTotals, target_bytes: int) -> Tally:
    """Estimate the fragments: all files if the mean size is a fragment's; else as many, next to
    files of the target size, as the newest files suggest."""
    files, added = summary.data_files, summary.added_size
    if summary.bytes * FRAGMENTS_IN_TARGET < files * target_bytes:
        return Tally(files, summary.records, summary.bytes)
    if added is None or not _has_mixed_sizes(summary, target_bytes):
        return Tally()
    count = int((files * target_bytes - summary.bytes) / (target_bytes - added))
    count = min(max(count, summary.added_files), files)
    return Tally(count, 0, min(int(count * added), summary.bytes))


def _equality_files(summary: SnapshotTotals) -> int:
    """Return the number of equality-delete files: summaries count delete files of both kinds
    together, so they are split by their records."""
    both = summary.equality_deletes + summary.position_deletes
    return -(-summary.delete_files * summary.equality_deletes // both) if both else 0


class Ranking:
    """Tables, the worst first; of equal ones the one that was added first. A table may be added
    again with another weight after it was removed."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Newcomer]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, newcomer: Newcomer) -> None:
        """Add a table."""
        self._count += 1
        heapq.heappush(self._heap, (-newcomer.weight, self._count, newcomer))

    def pop_worst(self) -> Newcomer:
        """Remove the worst table, and return it. Raises IndexError if there is none."""
        return heapq.heappop(self._heap)[2]
