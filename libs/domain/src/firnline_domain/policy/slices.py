"""How much one order takes of a partition: what fits into a set time, by the learned price.

A partition of a terabyte takes hours on one worker. In one order it would outlive its deadline,
hold a place of the worker all that time, and be lost whole with any conflict. So an order takes a
slice, and the next one goes out when it is committed, until the pass is over (decision 0048).
"""

from __future__ import annotations

from firnline_domain.counters.work import Partition
from firnline_domain.policy.cost_benefit import Action
from firnline_domain.policy.costs import FIRNLINE, Work
from firnline_domain.records.slices import Slice
from firnline_domain.settings.thresholds import Conversions, Thresholds

DEADLINE_SHARE = 2  # a slice is planned for half of its deadline at the most; one may queue


def max_bytes(limits: Thresholds, action: str) -> int:
    """Of data files, that one order reads; 0 = all. Each byte is written again, but for those of
    the keys that a conversion reads."""
    if limits.slice_ms <= 0:
        return 0
    wall_ms = min(limits.slice_ms, limits.deadline_ms / DEADLINE_SHARE)
    if action == Action.CONVERT:
        byte_s = FIRNLINE.read_s * limits.conversion_factor
    else:
        byte_s = (FIRNLINE.read_s + FIRNLINE.write_s) * limits.cost_factor
    return max(int(wall_ms / 1000 * FIRNLINE.cores / byte_s), 1)


def unfinished_of(partition: Partition, limits: Thresholds) -> Slice | None:
    """The slice after which its pass goes on; None where there is none, or it is not wanted."""
    after = partition.work.unfinished
    if after is None or partition.counters.holds.data_files <= 0:
        return None
    unwanted = after.action == Action.CONVERT and limits.convert is Conversions.NEVER
    return None if unwanted else after


def share_of(partition: Partition, work: Work, limits: Thresholds, action: str) -> float:
    """Of a rewrite's price, what its next slice costs."""
    most, after = max_bytes(limits, action), unfinished_of(partition, limits)
    size = work.bytes_read if after is None else min(after.left_bytes, work.bytes_read)
    size = min(size, most) if most else size
    return size / work.bytes_read if work.bytes_read > 0 else 1.0
