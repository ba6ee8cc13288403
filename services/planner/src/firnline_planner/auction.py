"""Rewrites that wait until the bucket's part of the budget pays for them, and who is next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from firnline_domain.budgets import Budget
from firnline_domain.ranking import Purses, affordable
from firnline_domain.thresholds import Thresholds
from firnline_domain.values import replace

from firnline_planner.state import State
from firnline_planner.step import Bid, Place, Step
from firnline_planner.visits import order, to_be_shown, visit_of


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

    def winners(self, purses: Purses, budget: Budget, now_ms: int) -> tuple[list[Bid], Purses]:
        """Those that can be paid for, in the order in which they are to be, and what is left."""
        if not self._bids:
            return [], purses
        places, left = affordable(self._bids.values(), purses, budget, now_ms)
        return [self._bids[place] for place in places], left


def order_winners(
    winners: Iterable[Bid],
    left: Purses,
    state: State,
    defaults: Thresholds,
    now_ms: int,
    step: Step,
) -> None:
    """Order what still deserves it, and take the money for that alone."""
    for bid in winners:
        step.bids[bid.key] = None
        if _ordered(bid.key, state, replace(defaults, budget=Budget()), now_ms, step):
            step.spent_gb_hours += bid.gb_hours
        else:
            left = left.returned(bid.gb_hours)
        state.put_share(replace(state.share, purses=left))


def _ordered(place: Place, state: State, unbound: Thresholds, now_ms: int, step: Step) -> bool:
    key, scope = place
    table = state.table_at(key)
    if table is None:
        return False
    visit = visit_of(state, table, unbound, now_ms, step)
    after = order(visit, table, visit.partition(table, scope))
    if after is table:
        return False
    state.put_table(to_be_shown(visit, after))
    return True
