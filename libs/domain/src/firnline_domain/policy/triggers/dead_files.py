"""Choose the larger files that a rewrite takes: those of whose rows so many are dead that it pays.

A reader pays for dead rows by their number, a rewrite costs by the bytes of the files. So each bin
of the histogram is weighed by itself, the one with the most dead rows first, and an order takes all
files from a ratio on (docs/decisions/0004). What has come since the histogram was made is taken to
be spread evenly."""

from __future__ import annotations

import math

from firnline_domain.base.values import Value, replace
from firnline_domain.counters.state.work import Partition
from firnline_domain.policy.cost.cost_benefit import CostBenefit, weigh_work
from firnline_domain.policy.cost.cost_model import Work
from firnline_domain.policy.cost.read_cost import READ_COST, burden_of
from firnline_domain.records.parts.dead_rows import EDGES, DeadRows
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds

WORK = ("bytes_read", "bytes_written", "delete_records", "delete_loads", "files", "converted")
SURE_RATIO = 0.3  # from here on they go even if nobody reads, as with Iceberg's own rewrite


class Bin(Value):
    """Files with about the same share of dead rows, as it is now."""

    ratio: float
    files: float
    bytes: float
    records: float

    @property
    def dead_rows(self) -> float:
        return self.ratio * self.records


class RatioStep(Value):
    """Work that is added if an order goes down to this ratio, and what that is worth."""

    min_dead_ratio: float
    cost_benefit: CostBenefit


def file_bins(partition: Partition) -> list[Bin]:
    """Return the partition's larger files. Where none were read, or Iceberg's own action has left
    no word, all have the same share of what came since."""
    holds, work = partition.counters.holds, partition.work
    if holds.positional_files <= 0:
        return []
    large, data = larger_files(holds), holds.all_data
    if large.files <= 0 or large.records <= 0:
        return []
    known = [one for one in work.dead_rows if one.records > 0]
    known = known or [DeadRows(large.files, large.bytes, large.records)]
    shrunk = min(large.records / sum(one.records for one in known), 1.0)
    fresh = fresh_rows(partition) / data.records
    hits = holds.equality_deletes.records / data.records
    return [
        Bin(
            round(1 - max(1 - one.dead / one.records - fresh, 0.0) * math.exp(-hits), 9),
            one.files * shrunk,
            one.bytes * shrunk,
            one.records * shrunk,
        )
        for one in known
    ]


def larger_files(holds: FileTally) -> Tally:
    """Return the data files that are no fragments."""
    return holds.all_data - holds.fragments


def positional_records(holds: FileTally) -> int:
    """Return how many rows position deletes and vectors name."""
    return holds.position_deletes.records + holds.deletion_vectors.records


def fresh_rows(partition: Partition) -> int:
    """Return, of these, those that came since the histogram was made."""
    return max(positional_records(partition.counters.holds) - partition.work.positions_seen, 0)


def possible_ratios(limits: Thresholds) -> list[float]:
    """Return those that an order may go down to, the highest first."""
    least = limits.min_dead_ratio
    return [*(edge for edge in reversed(EDGES) if edge > least), least]


def ratio_steps(partition: Partition, limits: Thresholds) -> list[RatioStep]:
    """Return the steps from the files with the most dead rows down."""
    found, above = list[RatioStep](), math.inf
    files = file_bins(partition)
    for ratio in possible_ratios(limits):
        taken = [one for one in files if ratio <= one.ratio < above]
        above = ratio
        if taken:
            found.append(RatioStep(ratio, _estimate_bins(partition, limits, ratio, taken)))
    return found


def _estimate_bins(
    partition: Partition, limits: Thresholds, ratio: float, taken: list[Bin]
) -> CostBenefit:
    holds, cost = partition.counters.holds, READ_COST
    work = rewrite_work(taken)
    dead = sum(one.dead_rows for one in taken)
    dead_bytes = work.bytes_read - work.bytes_written
    opened = min(sum(one.files for one in taken), holds.positional_files)
    spared_s = dead * cost.position_s + dead_bytes * cost.scan_s + opened * cost.open_s
    since_ms = dead_rows_since(partition)
    head_start = partition.work.head_start
    amplification = burden_of(holds, limits.target_bytes).amplification
    weighed = weigh_work(since_ms, head_start, limits, work, spared_s, amplification, opened)
    sure = ratio >= max(SURE_RATIO, limits.min_dead_ratio) or work.bytes_read <= limits.cheap_bytes
    return weighed if sure else replace(weighed, from_ms=weighed.paid_ms)


def dead_rows_since(partition: Partition) -> int | None:
    """Return when the dead rows began to gather in the files that no order has chosen since."""
    work = partition.work
    if work.positions_since_ms is None:
        return None
    return max(work.positions_since_ms, work.chosen_ms)


def rewrite_work(taken: list[Bin]) -> Work:
    """Return the work on these files."""
    dead = sum(one.dead_rows for one in taken)
    left = sum(one.bytes * (1 - one.ratio) for one in taken)
    files = sum(one.files for one in taken)
    return Work(sum(one.bytes for one in taken), left, dead, files=files)


def look_ms(partition: Partition, limits: Thresholds) -> int | None:
    """Return when to look how the dead rows lie: so many came that a file may have its share of
    them, if they are all in one. None: they are too few."""
    large, since_ms = larger_files(partition.counters.holds), dead_rows_since(partition)
    if since_ms is None or large.files <= 0:
        return None
    if fresh_rows(partition) < limits.min_dead_ratio * large.records / large.files:
        return None
    return since_ms + int(limits.max_wait_ms * (1 - partition.work.head_start))


def with_dead_files(
    partition: Partition, limits: Thresholds, minor: CostBenefit, min_dead_ratio: float
) -> CostBenefit:
    """Return what an order costs and spares that takes the files from a ratio on beside the small
    ones."""
    found = [one for one in ratio_steps(partition, limits) if one.min_dead_ratio >= min_dead_ratio]
    works = [minor.work, *(one.cost_benefit.work for one in found)]
    paid = [minor, *(one.cost_benefit for one in found)]
    first = min(paid, key=lambda one: one.paid_ms)
    return replace(
        first,
        work=Work(*(sum(getattr(work, name) for work in works) for name in WORK)),
        price_s=sum(one.price_s for one in paid),
        spared_s=sum(one.spared_s for one in paid),
        spared_opens=sum(one.spared_opens for one in paid),
    )
