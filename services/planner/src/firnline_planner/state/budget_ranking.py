"""Rank the tasks that a fleet can afford now: most spared for its price first, and a share for the
oldest. Two token buckets are filled at a constant rate. The first pays for the task that spares
readers most for its price. The second pays only for the task that has waited longest, and is saved
up until it suffices. So no task starves: a rewrite waits no longer than the second bucket takes to
pay for it and for all that have waited longer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from firnline_domain.base.values import Value
from firnline_domain.policy.cost.dollars import Estimate
from firnline_domain.policy.policy_input import TableInput
from firnline_domain.settings.groups import Budget

from firnline_planner.state.fleet_share import TokenBuckets

K = TypeVar("K")


class RankedAction(Value, Generic[K]):
    """A rewrite, or an action on a table, that a policy would order. Both by the price list:
    `spared` dollars an hour for `dollars` once; a budget counts its `gb_hours`."""

    key: K
    gb_hours: float
    dollars: float
    spared: float
    since_ms: int

    @property
    def gain(self) -> float:
        """Return the dollars spared an hour for each dollar spent."""
        return self.spared / self.dollars if self.dollars > 0 else float("inf")


def candidate_of(
    key: K, weighed: Estimate, given: TableInput, since_ms: int, share: float = 1.0
) -> RankedAction[K]:
    """Return the candidate of a table or partition; its next task is this share of the work."""
    costs, reads_per_hour = given.costs, given.settings.reads_per_hour
    return RankedAction(
        key,
        gb_hours=weighed.gb_hours() * share,
        dollars=weighed.price.in_dollars(costs) * share,
        spared=weighed.gain.dollars_an_hour(costs, reads_per_hour) * share,
        since_ms=since_ms,
    )


class Paid(Value, Generic[K]):
    """A rewrite that is paid, and from which bucket."""

    key: K
    gb_hours: float
    from_old: bool = False


def choose_affordable(
    candidates: Iterable[RankedAction[K]], tokens: TokenBuckets, budget: Budget, now_ms: int
) -> tuple[list[Paid[K]], TokenBuckets]:
    """Return the tasks to create, in that order, and the tokens that remain."""
    found = list(candidates)
    if not budget.is_limited or not found:
        return [Paid(one.key, one.gb_hours) for one in sorted(found, key=_rank_key)], tokens
    oldest = min(found, key=_due_since_ms)
    tokens = tokens.with_refill(budget, oldest.gb_hours, now_ms)
    if tokens.best < min(one.gb_hours for one in found) and tokens.old < oldest.gb_hours:
        return [], tokens  # mostly: a hundred thousand need not be ranked to know it
    return _pay_candidates(found, tokens)


def _pay_candidates(
    candidates: list[RankedAction[K]], tokens: TokenBuckets
) -> tuple[list[Paid[K]], TokenBuckets]:
    """Pay for candidates by rank as far as the tokens last; then for the longest waiting ones from
    the tokens for those, up to the first that is too expensive. Return the paid ones, and the
    tokens that are left."""
    taken, left = list[Paid[K]](), list[RankedAction[K]]()
    for one in sorted(candidates, key=_rank_key):
        if one.gb_hours <= tokens.best:
            taken.append(Paid(one.key, one.gb_hours))
            tokens = tokens.with_payment(one.gb_hours, from_old=False)
        else:
            left.append(one)
    for one in sorted(left, key=_due_since_ms):
        if one.gb_hours > tokens.old:
            break  # saved for, whatever is cheaper behind it
        taken.append(Paid(one.key, one.gb_hours, from_old=True))
        tokens = tokens.with_payment(one.gb_hours, from_old=True)
    return taken, tokens


def _rank_key(candidate: RankedAction[Any]) -> tuple[float, int]:
    return -candidate.gain, candidate.since_ms


def _due_since_ms(candidate: RankedAction[Any]) -> int:
    return candidate.since_ms
