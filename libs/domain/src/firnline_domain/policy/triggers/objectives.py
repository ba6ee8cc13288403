"""Define "healthy" for a table, as its owner sets it: reads cost no more than so many times those
of a tidy table, and no debt is older than so long.

While an objective is held, readers' payment alone decides: that is the cheapest. Where it is in
danger the rewrite is due although readers have not paid. Only what has come since the last rewrite
counts; else the same would be rewritten again and again."""

from __future__ import annotations

from firnline_domain.base.times import earliest_of
from firnline_domain.counters.state.debt import Debt
from firnline_domain.counters.state.work import Partition
from firnline_domain.policy.cost.read_cost import burden_of
from firnline_domain.settings.thresholds import Thresholds

DANGER = (
    0.8  # of what an objective allows: the rest is for the queue, the work and the next commits
)


def endangered_ms(partition: Partition, debt: Debt, grown: Debt, limits: Thresholds) -> int | None:
    """Return since when, or from when on, an objective is in danger; None if none is."""
    since_ms = partition.work.debt_since_ms
    if since_ms is None or not any(grown.compactable):
        return None
    too_dear_ms = 0 if _is_grown_too_dear(partition, debt, grown, limits) else None
    if not limits.max_oldest_debt_ms:
        return too_dear_ms
    return earliest_of(too_dear_ms, since_ms + int(limits.max_oldest_debt_ms * DANGER))


def _is_grown_too_dear(partition: Partition, debt: Debt, grown: Debt, limits: Thresholds) -> bool:
    """Return True if the debt since the last rewrite makes reads about as expensive as the
    objective allows."""
    if limits.max_read_amplification <= 1:
        return False
    burden = burden_of(partition.counters.holds, limits.target_bytes, debt.global_deletes)
    return is_too_expensive(burden.grow_to(debt, grown).amplification, limits)


def is_too_expensive(amplification: float, limits: Thresholds) -> bool:
    """Return True if reads are about to cost more than the objective allows."""
    most = limits.max_read_amplification
    return most > 1 and amplification - 1 >= (most - 1) * DANGER


def is_missed(partition: Partition, amplification: float, limits: Thresholds, now_ms: int) -> bool:
    """Return True if an objective does not hold for the partition now."""
    most, since_ms = limits.max_read_amplification, partition.work.debt_since_ms
    too_old = limits.max_oldest_debt_ms and since_ms is not None
    if too_old and since_ms is not None and now_ms > since_ms + limits.max_oldest_debt_ms:
        return True
    return most > 1 and amplification > most
