"""Rewrites that wait until a budget or a group's quota pays for them, and who is next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from firnline_domain.identity import Scope
from firnline_domain.policy.rewrite import decide
from firnline_domain.settings.groups import Budget
from firnline_domain.values import replace

from firnline_planner.effects import BudgetRequest, Effects, Output, PartitionKey
from firnline_planner.reconcile.context import TableContext
from firnline_planner.reconcile.publishing import with_publication
from firnline_planner.reconcile.ranking import Candidate, Paid, affordable
from firnline_planner.reconcile.table import order, together
from firnline_planner.state.fleet_share import TokenBuckets

GRANT_INTERVAL_MS = 1_000  # not oftener: it goes over all who wait


@dataclass(frozen=True)
class Grant:
    """Partitions that a budget pays for, in the order in which they are to be, and what is left."""

    budget: str
    winners: list[Paid[PartitionKey]]
    left: TokenBuckets


class BudgetQueue:
    """In memory alone: after a start every table that waits asks again at its next reconcile."""

    def __init__(self) -> None:
        self._requests: dict[bytes, dict[Scope, BudgetRequest]] = {}  # by the table's key
        self._granted_ms: int | None = None
        self.oldest_ms: dict[str, int] = {}  # by budget: since when the oldest debt has waited

    def __len__(self) -> int:
        return sum(map(len, self._requests.values()))

    def update(self, effects: Effects) -> None:
        """What partitions ask for now."""
        for key in effects.fully_reconciled:
            self.drop(key)
        for (key, scope), request in effects.budget_requests.items():
            of_table = self._requests.setdefault(key, {})
            if request is None:
                of_table.pop(scope, None)
            else:
                of_table[scope] = request
            if not of_table:
                del self._requests[key]

    def drop(self, key: bytes) -> None:
        """The table wants nothing any more."""
        self._requests.pop(key, None)

    def grants(
        self, tokens: Mapping[str, TokenBuckets], budgets: Mapping[str, Budget], now_ms: int
    ) -> list[Grant]:
        """One for each budget that pays for something."""
        if not self._requests:
            self.oldest_ms = {}
            return []
        if not self._is_time(now_ms):
            return []
        waiting = self._waiting()
        self.oldest_ms = {name: min(one.since_ms for one in waiting[name]) for name in waiting}
        self._granted_ms, found = now_ms, []
        for name, candidates in waiting.items():
            budget = budgets.get(name, Budget())
            winners, left = affordable(candidates, tokens.get(name, TokenBuckets()), budget, now_ms)
            found.append(Grant(name, winners, left))
        return [grant for grant in found if grant.winners]

    def _is_time(self, now_ms: int) -> bool:
        return self._granted_ms is None or not 0 <= now_ms - self._granted_ms < GRANT_INTERVAL_MS

    def _waiting(self) -> Mapping[str, Collection[Candidate[PartitionKey]]]:
        found: dict[str, list[Candidate[PartitionKey]]] = defaultdict(list)
        for of_table in self._requests.values():
            for budget, candidate in of_table.values():
                found[budget].append(candidate)
        return found


def order_granted(grant: Grant, context: TableContext) -> None:
    """Order what still deserves it, and take the money for that alone."""
    effects, left = context.effects, grant.left
    paid_for = replace(context, fleet=replace(context.fleet, paid=True))
    sent: dict[bytes, list[Output]] = defaultdict(list)  # by the table's key
    for winner in grant.winners:
        effects.budget_requests[winner.key] = None
        if orders := _ordered(winner.key, paid_for):
            sent[winner.key[0]] += orders
            effects.spent_gb_hours += winner.gb_hours
        else:
            left = left.without(-winner.gb_hours, winner.from_old)
    for orders in sent.values():
        effects.send(together(orders))
    share = context.state.share
    context.state.put_share(replace(share, tokens={**share.tokens, grant.budget: left}))


def _ordered(place: PartitionKey, context: TableContext) -> list[Output]:
    key, scope = place
    table = context.state.table_at(key)
    if table is None:
        return []
    context = context.for_table(table)
    partition = context.partition(table, scope)
    limits = context.limits_of(table, partition)
    decision = decide(table, partition, limits, context.now_ms)
    after, orders = order(context, table, partition, decision)
    if orders:
        context.state.put_table(with_publication(context, after))
    return orders
