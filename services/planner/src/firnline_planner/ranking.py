"""Which rewrites a fleet can afford now: most spared per GB-hour first, and a share for the oldest.

Two purses are filled at an even pace. From the first, whoever spares readers most for its price is
served. From the second, whoever has waited longest, and nobody before it: the purse is saved up
until it is enough. So nothing starves: a rewrite waits no longer than the second purse takes to
pay for it and for all that have waited longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from firnline_domain.policy.worth import Weighed
from firnline_domain.settings.groups import Budget
from firnline_domain.settings.thresholds import Thresholds
from firnline_domain.times import HOUR_MS
from firnline_domain.values import Value, replace

K = TypeVar("K")
AIM_MS = 30 * 60_000  # twice as long as a table that waits may take until it budget_requests again


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


def candidate_of(key: K, weighed: Weighed, limits: Thresholds, now_ms: int) -> Candidate[K]:
    """A partition that deserves a rewrite."""
    return Candidate(
        key,
        gb_hours=weighed.gb_hours,
        spared_s=weighed.spared_s * limits.reads_per_hour,
        since_ms=weighed.since_ms or now_ms,
    )


class Purses(Value):
    """What is left at `as_of_ms`. An hour's worth is kept at most, but the second one is saved up
    for the dearest of those that were the oldest lately: `aim`, seen last at `aim_ms`."""

    best: float = 0.0
    old: float = 0.0
    as_of_ms: int | None = None  # None: an hour's worth is in them
    aim: float = 0.0
    aim_ms: int = 0

    def filled(self, budget: Budget, oldest: float, now_ms: int) -> Purses:
        """With what has come since. `oldest`: price of the one that has waited longest."""
        hours = 1.0 if self.as_of_ms is None else max(now_ms - self.as_of_ms, 0) / HOUR_MS
        old = budget.gb_hours * budget.old_share
        best = budget.gb_hours - old
        # A clock that was ahead is not waited for; and whoever is saved for may be away for a
        # time: a table that changes asks again when it rests, one of a started planner later.
        lasts = self.aim > oldest and 0 <= now_ms - self.aim_ms < AIM_MS
        aim, aim_ms = (self.aim, self.aim_ms) if lasts else (oldest, now_ms)
        return Purses(
            min(self.best + best * hours, best),
            min(self.old + old * hours, max(old, aim)),
            now_ms,
            aim,
            aim_ms,
        )

    def without(self, gb_hours: float, from_old: bool) -> Purses:
        """With a price paid; a negative one is paid back."""
        if from_old:
            return replace(self, old=self.old - gb_hours)
        return replace(self, best=self.best - gb_hours)


class Paid(Value, Generic[K]):
    """A rewrite whose turn has come, and which purse has paid."""

    key: K
    gb_hours: float
    from_old: bool = False


def affordable(
    candidates: Iterable[Candidate[K]], purses: Purses, budget: Budget, now_ms: int
) -> tuple[list[Paid[K]], Purses]:
    """Those that are to be ordered, in that order, and what is left of the purses."""
    found = list(candidates)
    if not budget.binds or not found:
        return [Paid(one.key, one.gb_hours) for one in sorted(found, key=_rank)], purses
    oldest = min(found, key=_age)
    purses = purses.filled(budget, oldest.gb_hours, now_ms)
    if purses.best < min(one.gb_hours for one in found) and purses.old < oldest.gb_hours:
        return [], purses  # mostly: a hundred thousand need not be ranked to know it
    return _paid(found, purses)


def _paid(found: list[Candidate[K]], purses: Purses) -> tuple[list[Paid[K]], Purses]:
    taken, left = list[Paid[K]](), list[Candidate[K]]()
    for one in sorted(found, key=_rank):
        if one.gb_hours <= purses.best:
            taken.append(Paid(one.key, one.gb_hours))
            purses = purses.without(one.gb_hours, from_old=False)
        else:
            left.append(one)
    for one in sorted(left, key=_age):
        if one.gb_hours > purses.old:
            break  # saved for, whatever is cheaper behind it
        taken.append(Paid(one.key, one.gb_hours, from_old=True))
        purses = purses.without(one.gb_hours, from_old=True)
    return taken, purses


def _rank(one: Candidate[Any]) -> tuple[float, int]:
    return -one.gain, one.since_ms


def _age(one: Candidate[Any]) -> int:
    return one.since_ms
