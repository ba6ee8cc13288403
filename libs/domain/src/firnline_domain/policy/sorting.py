"""When a partition is looked through for files whose keys overlap, in a table that wants its rows
sorted (`firnline.sort`): once in an interval, where it has changed.

How deep its files lie over each other no counter knows: bounds are in manifests, which the worker
reads; mostly it finds that nothing is to be done (`firnline_worker.clustering`).
"""

from __future__ import annotations

from firnline_domain.counters.debts import NO_DEBT
from firnline_domain.counters.work import Partition, PartitionWork
from firnline_domain.settings.thresholds import Thresholds
from firnline_domain.values import replace


def sort_at_ms(partition: Partition, limits: Thresholds) -> int | None:
    """When it is due; None: never, or not before something changes."""
    counters, work = partition.counters, partition.work
    if not limits.sort or counters.holds.data_files <= limits.sort_depth:
        return None
    if work.sorted_ms is None:
        return 0
    if counters.changed_ms == work.sorted_seen_ms:
        return None
    return work.sorted_ms + limits.sort_interval_ms


def after_sort(
    rested: PartitionWork, before: PartitionWork, is_sort: bool, changed_ms: int, now_ms: int
) -> PartitionWork:
    """After any rewrite. `changed_ms`: of the last change in the counters, which is the rewrite's
    own unless a writer was faster: then it is looked at once more."""
    if not is_sort:
        return replace(rested, sorted_ms=before.sorted_ms, sorted_seen_ms=before.sorted_seen_ms)
    seen_ms = changed_ms if before.arrived == NO_DEBT else 0
    return replace(rested, sorted_ms=now_ms, sorted_seen_ms=seen_ms)
