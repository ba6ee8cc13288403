"""Which rewrites a fleet can afford now: most spared per GB-hour first, and a share for the oldest.

Two purses are filled at an even pace. From the first, whoever spares readers most for its price is
served. From the second, whoever has waited longest, and nobody before it: the purse is saved up
until it is enough. So nothing starves: a rewrite waits no longer than the second purse takes to
pay for it and for all that have waited longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from firnline_domain.budgets import Budget
from firnline_domain.costs import FIRNLINE
from firnline_domain.progress import Partition
from firnline_domain.thresholds import HOUR_MS, Thresholds
from firnline_domain.values import Value, replace
from firnline_domain.worth import Weighed

K = TypeVar("K")


class Candidate(Value, Generic[K]):
    """A rewrite that a policy would order. `spared_s`: CPU seconds that readers spare an hour."""

    key: K
    gb_hours: float
    spared_s: float
    since_ms: int

    @property
    def gain(self) -> float:
        """Spared per GB-hour."""
        return self.spared_s / self.gb_hours if self.gb_hours > 0 else float("inf")


def candidate_of(
    key: K, partition: Partition, weighed: Weighed, limits: Thresholds, now_ms: int
) -> Candidate[K]:
    """A partition that deserves a rewrite."""
    since_ms = partition.work.debt_since_ms
    return Candidate(
        key,
        gb_hours=FIRNLINE.gb_hours(weighed.work) * limits.cost_factor,
        spared_s=weighed.spared_s * limits.reads_per_hour,
        since_ms=now_ms if since_ms is None else since_ms,
    )


class Purses(Value):
    """What is left at `as_of_ms`. An hour's worth is kept at most, but the second one saves for
    the oldest as long as it takes."""

    best: float = 0.0
    old: float = 0.0
    as_of_ms: int | None = None  # None: an hour's worth is in them

    def filled(self, budget: Budget, oldest: float, now_ms: int) -> Purses:
        """With what has come since. `oldest`: price of the one that has waited longest."""
        hours = 1.0 if self.as_of_ms is None else max(now_ms - self.as_of_ms, 0) / HOUR_MS
        old = budget.gb_hours * budget.old_share
        best = budget.gb_hours - old
        return Purses(
            min(self.best + best * hours, best),
            min(self.old + old * hours, max(old, oldest)),
            now_ms if self.as_of_ms is None else max(now_ms, self.as_of_ms),
        )

    def returned(self, gb_hours: float) -> Purses:
        """With the price of what was not ordered after all."""
        return replace(self, best=self.best + gb_hours)


def affordable(
    candidates: Iterable[Candidate[K]], purses: Purses, budget: Budget, now_ms: int
) -> tuple[list[K], Purses]:
    """Keys in the order in which they are to be ordered, and what is left of the purses."""
    ranked = sorted(candidates, key=lambda one: (-one.gain, one.since_ms))
    if not budget.binds:
        return [one.key for one in ranked], purses
    oldest = sorted(ranked, key=lambda one: one.since_ms)
    purses = purses.filled(budget, oldest[0].gb_hours if oldest else 0.0, now_ms)
    taken = []
    for one in ranked:
        if one.gb_hours <= purses.best:
            taken.append(one)
            purses = replace(purses, best=purses.best - one.gb_hours)
    paid = {id(one) for one in taken}  # thousands may be: no comparison of each with each
    for one in (one for one in oldest if id(one) not in paid):
        if one.gb_hours > purses.old:
            break  # saved for, whatever is cheaper behind it
        taken.append(one)
        purses = replace(purses, old=purses.old - one.gb_hours)
    return [one.key for one in taken], purses
