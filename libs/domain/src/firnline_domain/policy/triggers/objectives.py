"""Define "healthy" for a table, as its owner sets it: reads cost no more than so many times those
of a tidy table, and no debt is older than so long.

While an objective is held, readers' payment alone decides: that is the cheapest. Where it is in
danger the rewrite is due although readers have not paid. Only what has come since the last rewrite
counts; else the same would be rewritten again and again."""

from __future__ import annotations

from firnline_domain.base.times import earliest_of
from firnline_domain.policy.cost.read_cost import burden_of
from firnline_domain.policy.policy_input import PolicyInput

DANGER = (
    0.8  # of what an objective allows: the rest is for the queue, the work and the next commits
)


def endangered_ms(given: PolicyInput) -> int | None:
    """Return since when, or from when on, an objective is in danger; None if none is."""
    since_ms, oldest_ms = given.partition.work.debt_since_ms, given.settings.max_oldest_debt_ms
    if since_ms is None or not any(given.counted_debt.compactable):
        return None
    too_dear_ms = 0 if _is_grown_too_dear(given) else None
    too_old_ms = since_ms + int(oldest_ms * DANGER) if oldest_ms else None
    return earliest_of(too_dear_ms, too_old_ms)


def _is_grown_too_dear(given: PolicyInput) -> bool:
    """Return True if the debt since the last rewrite makes reads about as expensive as the
    objective allows."""
    most, debt = given.settings.max_read_amplification, given.debt
    if most <= 1:
        return False
    burden = burden_of(given.holds, given.settings.target_bytes, debt.global_deletes)
    return burden.grow_to(debt, given.counted_debt).amplification - 1 >= (most - 1) * DANGER


def is_missed(given: PolicyInput, amplification: float) -> bool:
    """Return True if an objective does not hold for the partition now."""
    settings, since_ms = given.settings, given.partition.work.debt_since_ms
    most, oldest_ms = settings.max_read_amplification, settings.max_oldest_debt_ms
    if oldest_ms and since_ms is not None and given.now_ms > since_ms + oldest_ms:
        return True
    return most > 1 and amplification > most
