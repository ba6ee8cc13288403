"""Rewrites that wait until a budget or a group's quota pays for them, and who is next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from firnline_domain.budgets import Budget
from firnline_domain.ranking import Candidate, Purses, affordable
from firnline_domain.thresholds import Thresholds
from firnline_domain.values import replace

from firnline_planner.state import State
from firnline_planner.step import Bid, Place, Step
from firnline_planner.visits import order, to_be_shown, visit_of


@dataclass(frozen=True)
class Round:
    """Those that a purse can pay for, in the order in which they are to be, and what is left."""

    purse: str
    winners: list[Candidate[Place]]
    left: Purses


class Auction:
    """In memory alone: after a start every table that waits bids again at its next look."""

    def __init__(self) -> None:
        self._bids: dict[Place, Bid] = {}

    def __len__(self) -> int:
        return len(self._bids)

    def follow(self, bids: Mapping[Place, Bid | None]) -> None:
        """What partitions want now; None = nothing."""
        for place, bid in bids.items():
            if bid is None:
                self._bids.pop(place, None)
            else:
                self._bids[place] = bid

    def rounds(
        self, purses: Mapping[str, Purses], budgets: Mapping[str, Budget], now_ms: int
    ) -> list[Round]:
        """One for each purse that pays for something."""
        waiting: dict[str, list[Candidate[Place]]] = defaultdict(list)
        for purse, candidate in self._bids.values():
            waiting[purse].append(candidate)
        found = []
        for purse, candidates in waiting.items():
            budget = budgets.get(purse, Budget())
            places, left = affordable(candidates, purses.get(purse, Purses()), budget, now_ms)
            found.append(Round(purse, [self._bids[place][1] for place in places], left))
        return [one for one in found if one.winners]


def order_winners(one: Round, state: State, defaults: Thresholds, now_ms: int, step: Step) -> None:
    """Order what still deserves it, and take the money for that alone."""
    left, paid = one.left, replace(defaults, paid=True)
    for candidate in one.winners:
        step.bids[candidate.key] = None
        if _ordered(candidate.key, state, paid, now_ms, step):
            step.spent_gb_hours += candidate.gb_hours
        else:
            left = left.returned(candidate.gb_hours)
    share = state.share
    state.put_share(replace(share, purses={**share.purses, one.purse: left}))


def _ordered(place: Place, state: State, paid: Thresholds, now_ms: int, step: Step) -> bool:
    key, scope = place
    table = state.table_at(key)
    if table is None:
        return False
    visit = visit_of(state, table, paid, now_ms, step)
    after = order(visit, table, visit.partition(table, scope))
    if after is table:
        return False
    state.put_table(to_be_shown(visit, after))
    return True
