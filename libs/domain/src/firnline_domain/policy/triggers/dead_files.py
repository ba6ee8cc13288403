"""Choose the larger files that a rewrite takes: those of whose rows so many are dead that it pays.

A reader pays for dead rows by their number, a rewrite costs by the bytes of the files. So each bin
of the histogram is weighed by itself, the one with the most dead rows first, and an order takes all
files from a ratio on (docs/decisions/0004). What has come since the histogram was made is taken to
be spread evenly."""

from __future__ import annotations

import math

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.values import Value, replace
from firnline_domain.counters.state.work import Partition
from firnline_domain.policy.cost.cost_benefit import (
    FAR_MS,
    READ_COST,
    CostBenefit,
    burden_of,
    weigh_debt,
    weigh_work,
)
from firnline_domain.policy.cost_model import Work
from firnline_domain.policy.policy_input import PolicyInput, once_per_input
from firnline_domain.policy.reasons import EVERY_FILE, Decision, TriggerState
from firnline_domain.policy.triggers.hot_partitions import wait_for_writers
from firnline_domain.records.parts.dead_rows import EDGES, DeadRows
from firnline_domain.records.parts.tallies import FileTally, Tally

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


def possible_ratios(least: float) -> list[float]:
    """Return those that an order may go down to, the highest first."""
    return [*(edge for edge in reversed(EDGES) if edge > least), least]


@once_per_input
def ratio_steps(given: PolicyInput) -> list[RatioStep]:
    """Return the steps from the files with the most dead rows down."""
    found, above = list[RatioStep](), math.inf
    files = file_bins(given.partition)
    for ratio in possible_ratios(given.settings.min_dead_ratio) if files else ():
        taken = [one for one in files if ratio <= one.ratio < above]
        above = ratio
        if taken:
            found.append(RatioStep(ratio, _estimate_bins(given, ratio, taken)))
    return found


def _estimate_bins(given: PolicyInput, ratio: float, taken: list[Bin]) -> CostBenefit:
    holds, settings, cost = given.holds, given.settings, READ_COST
    work = rewrite_work(taken)
    dead = sum(one.dead_rows for one in taken)
    dead_bytes = work.bytes_read - work.bytes_written
    opened = min(sum(one.files for one in taken), holds.positional_files)
    spared_s = dead * cost.position_s + dead_bytes * cost.scan_s + opened * cost.open_s
    since_ms, head_start = dead_rows_since(given.partition), given.partition.work.head_start
    amplification = burden_of(holds, settings.target_bytes).amplification
    factor = given.costs.factors.rewrites
    weighed = weigh_work(given, since_ms, work, spared_s, amplification, opened, factor, head_start)
    many = ratio >= max(SURE_RATIO, settings.min_dead_ratio)
    sure = many or work.bytes_read <= settings.cheap_bytes
    return weighed if sure else replace(weighed, from_ms=weighed.paid_ms)


def dead_rows_since(partition: Partition) -> int | None:
    """Return when the dead rows began to gather in the files that no order has chosen since, in ms
    since 1970; None if there are none."""
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


def look_ms(given: PolicyInput) -> int | None:
    """Return when to look how the dead rows lie: so many came that a file may have its share of
    them, if they are all in one. None: they are too few."""
    partition, settings = given.partition, given.settings
    large, since_ms = larger_files(given.holds), dead_rows_since(partition)
    if since_ms is None or large.files <= 0:
        return None
    if fresh_rows(partition) < settings.min_dead_ratio * large.records / large.files:
        return None
    return since_ms + int(settings.max_wait_ms * (1 - partition.work.head_start))


def recycling_due(given: PolicyInput, reason: ReasonCode) -> TriggerState | None:
    """Rewrite all files with dead rows after the retention, where the owner asks for it: masked
    rows would stay on the storage."""
    settings, since_ms = given.settings, given.partition.work.positions_since_ms
    if (
        not settings.recycle
        or not settings.gc_enabled
        or since_ms is None
        or are_chosen_otherwise(given)
    ):
        return None
    at_ms = since_ms + settings.retention_ms
    return TriggerState(at_ms) if at_ms > given.now_ms else _order_dead(given, reason, EVERY_FILE)


def dead_rows_due(given: PolicyInput, reason: ReasonCode) -> TriggerState | None:
    """Rewrite the files of which readers have paid the price, and after `max-wait-ms` those of
    `SURE_RATIO`."""
    if are_chosen_otherwise(given):
        return None
    found = ratio_steps(given)
    moments = [(step.cost_benefit.from_ms, step.min_dead_ratio) for step in found]
    if (at_ms := look_ms(given)) is not None:
        moments.append((at_ms, max(SURE_RATIO, given.settings.min_dead_ratio)))
    if ratios := [ratio for from_ms, ratio in moments if from_ms <= given.now_ms]:
        return _order_dead(given, reason, min(ratios))
    return TriggerState(min((from_ms for from_ms, _ in moments if from_ms < FAR_MS), default=None))


def _order_dead(given: PolicyInput, reason: ReasonCode, min_dead_ratio: float) -> TriggerState:
    if waits := wait_for_writers(given, dead_rows_since(given.partition)):
        return TriggerState(decision=waits)
    now_ms = given.now_ms
    rank = max((one.cost_benefit.payback_ratio(now_ms) for one in due_steps(given)), default=0.0)
    return TriggerState(decision=Decision(reason, rank=rank, min_dead_ratio=min_dead_ratio))


def due_steps(given: PolicyInput) -> list[RatioStep]:
    found = ratio_steps(given)
    return [step for step in found if step.cost_benefit.from_ms <= given.now_ms]


def are_chosen_otherwise(given: PolicyInput) -> bool:
    """Return True if no file is chosen by its dead rows: it has none, or every file that a delete
    reaches is rewritten."""
    work, holds = given.partition.work, given.holds
    if holds.positional_files <= 0 and work.positions_since_ms is None:
        return True  # mostly
    return given.takes_all and bool(holds.equality_deletes.files or given.debt.global_deletes)


def weigh_with_dead_files(given: PolicyInput, min_dead_ratio: float) -> CostBenefit:
    """Return the costs and the benefit of an order on the small files and on the files with at
    least `min_dead_ratio` dead rows."""
    minor = weigh_debt(given)
    found = [one for one in ratio_steps(given) if one.min_dead_ratio >= min_dead_ratio]
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
