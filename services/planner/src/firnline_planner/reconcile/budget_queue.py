"""Rewrites that wait until a budget or a group's quota pays for them, and who is next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from firnline_domain.identity import Scope
from firnline_domain.settings.groups import Budget
from firnline_domain.settings.thresholds import Thresholds
from firnline_domain.values import replace

from firnline_planner.effects import Bid, Output, Place, Step
from firnline_planner.ranking import Candidate, Paid, Purses, affordable
from firnline_planner.reconcile.context import visit_of
from firnline_planner.reconcile.publishing import to_be_shown
from firnline_planner.reconcile.table import order, together
from firnline_planner.state.bucket_state import State

ROUND_MS = 1_000  # not oftener: it goes over all who wait


@dataclass(frozen=True)
class Round:
    """Those that a purse pays for, in the order in which they are to be, and what is left."""

    purse: str
    winners: list[Paid[Place]]
    left: Purses


class Auction:
    """In memory alone: after a start every table that waits bids again at its next look."""

    def __init__(self) -> None:
        self._bids: dict[bytes, dict[Scope, Bid]] = {}  # by the table's key
        self._round_ms: int | None = None

    def __len__(self) -> int:
        return sum(map(len, self._bids.values()))

    def follow(self, step: Step) -> None:
        """What partitions want now."""
        for key in step.looked_at_all:
            self.drop(key)
        for (key, scope), bid in step.bids.items():
            of_table = self._bids.setdefault(key, {})
            if bid is None:
                of_table.pop(scope, None)
            else:
                of_table[scope] = bid
            if not of_table:
                del self._bids[key]

    def drop(self, key: bytes) -> None:
        """The table wants nothing any more."""
        self._bids.pop(key, None)

    def rounds(
        self, purses: Mapping[str, Purses], budgets: Mapping[str, Budget], now_ms: int
    ) -> list[Round]:
        """One for each purse that pays for something."""
        if not self._bids or not self._is_time(now_ms):
            return []
        self._round_ms, found = now_ms, []
        for purse, candidates in self._waiting().items():
            budget = budgets.get(purse, Budget())
            winners, left = affordable(candidates, purses.get(purse, Purses()), budget, now_ms)
            found.append(Round(purse, winners, left))
        return [one for one in found if one.winners]

    def _is_time(self, now_ms: int) -> bool:
        return self._round_ms is None or not 0 <= now_ms - self._round_ms < ROUND_MS

    def _waiting(self) -> Mapping[str, Collection[Candidate[Place]]]:
        found: dict[str, list[Candidate[Place]]] = defaultdict(list)
        for of_table in self._bids.values():
            for purse, candidate in of_table.values():
                found[purse].append(candidate)
        return found


def order_winners(one: Round, state: State, defaults: Thresholds, now_ms: int, step: Step) -> None:
    """Order what still deserves it, and take the money for that alone."""
    left, unbound = one.left, replace(defaults, paid=True)
    sent: dict[bytes, list[Output]] = defaultdict(list)  # by the table's key
    for paid in one.winners:
        step.bids[paid.key] = None
        if orders := _ordered(paid.key, state, unbound, now_ms, step):
            sent[paid.key[0]] += orders
            step.spent_gb_hours += paid.gb_hours
        else:
            left = left.without(-paid.gb_hours, paid.from_old)
    for orders in sent.values():
        step.send(together(orders))
    share = state.share
    state.put_share(replace(share, purses={**share.purses, one.purse: left}))


def _ordered(
    place: Place, state: State, unbound: Thresholds, now_ms: int, step: Step
) -> list[Output]:
    key, scope = place
    table = state.table_at(key)
    if table is None:
        return []
    visit = visit_of(state, table, unbound, now_ms, step)
    after, orders = order(visit, table, visit.partition(table, scope))
    if orders:
        state.put_table(to_be_shown(visit, after))
    return orders
