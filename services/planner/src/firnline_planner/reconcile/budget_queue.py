"""Rewrites, and actions on tables, that wait until a budget or a group's quota pays for them, and
who is next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

from firnline_domain.base.values import replace
from firnline_domain.counters.state.work import Table
from firnline_domain.identity import Scope
from firnline_domain.policy.partition.decide import decide_rewrite
from firnline_domain.policy.table_action.registry import TABLE_ACTIONS
from firnline_domain.settings.groups import Budget

from firnline_planner.publish.table_state import with_publication
from firnline_planner.reconcile.table import order_rewrite, with_batch_size
from firnline_planner.state.budget_ranking import Paid, RankedAction, choose_affordable
from firnline_planner.state.effects import (
    TABLE_TASKS,
    BudgetRequest,
    Effects,
    Output,
    Place,
    task_output,
)
from firnline_planner.state.failing_tables import ORDER
from firnline_planner.state.fleet_share import TokenBuckets
from firnline_planner.state.table_context import TableContext
from firnline_planner.state.table_isolation import TickSteps

GRANT_INTERVAL_MS = 1_000  # not oftener: it goes over all who wait


@dataclass(frozen=True)
class Grant:
    """Partitions and actions that a budget pays for, in the order in which they are to be, and what
    is left."""

    budget: str
    winners: list[Paid[Place]]
    left: TokenBuckets


class BudgetQueue:
    """Budget requests, only in memory: after a start each waiting table requests again at its next
    reconcile."""

    def __init__(self) -> None:
        self._requests: dict[bytes, dict[Scope | str, BudgetRequest]] = {}  # by the table's key
        self._granted_ms: int | None = None
        self.oldest_ms: dict[str, int] = {}  # by budget: since when the oldest debt has waited

    def __len__(self) -> int:
        return sum(map(len, self._requests.values()))

    def update_requests(self, effects: Effects) -> None:
        """Update the requests of the partitions and actions that were reconciled."""
        before = {key: self._requests.pop(key, {}) for key in effects.fully_reconciled}
        for (key, scope), request in effects.budget_requests.items():
            of_table = self._requests.setdefault(key, {})
            known = of_table.pop(scope, None) or before.get(key, {}).get(scope)
            if request is not None:
                of_table[scope] = _waiting_since(request, known)
            if not of_table:
                del self._requests[key]

    def drop_table(self, key: bytes) -> None:
        """Drop the requests of a table."""
        self._requests.pop(key, None)

    def grant_budgets(
        self, tokens: Mapping[str, TokenBuckets], budgets: Mapping[str, Budget], now_ms: int
    ) -> list[Grant]:
        """Return one grant for each budget that pays for something or is requested for the first
        time. Otherwise its clock would not begin, and nothing would be saved up for work that costs
        more than an hour's worth."""
        if not self._requests:
            self.oldest_ms = {}
            return []
        if not self._is_grant_due(now_ms):
            return []
        waiting = self._candidates_by_budget()
        self.oldest_ms = {name: min(one.since_ms for one in waiting[name]) for name in waiting}
        self._granted_ms, found = now_ms, []
        for name, candidates in waiting.items():
            budget, known = budgets.get(name, Budget()), tokens.get(name, TokenBuckets())
            winners, left = choose_affordable(candidates, known, budget, now_ms)
            if winners or (known.as_of_ms is None and left.as_of_ms is not None):
                found.append(Grant(name, winners, left))
        return found

    def _is_grant_due(self, now_ms: int) -> bool:
        """Return True if the last grant was GRANT_INTERVAL_MS ago, or the clock was set back
        since."""
        return self._granted_ms is None or not 0 <= now_ms - self._granted_ms < GRANT_INTERVAL_MS

    def _candidates_by_budget(self) -> Mapping[str, Collection[RankedAction[Place]]]:
        found: dict[str, list[RankedAction[Place]]] = defaultdict(list)
        for of_table in self._requests.values():
            for budget, candidate in of_table.values():
                found[budget].append(candidate)
        return found


def _waiting_since(request: BudgetRequest, known: BudgetRequest | None) -> BudgetRequest:
    """Return the request with the time since which it has waited, by the earlier request for the
    same work: some work has no other time, and would never be the oldest."""
    budget, candidate = request
    if known is None or known[0] != budget or known[1].since_ms >= candidate.since_ms:
        return request
    return budget, replace(candidate, since_ms=known[1].since_ms)


def order_granted(grant: Grant, context: TableContext, steps: TickSteps) -> None:
    """Order what still deserves it, and take the money for that alone. `steps`: of the tick that
    `context` is of."""
    effects, left = context.effects, grant.left
    sent: dict[bytes, list[Output]] = defaultdict(list)  # by the table's key
    for winner in grant.winners:
        effects.budget_requests[winner.key] = None
        if orders := steps.run_step(winner.key[0], ORDER, partial(_order_granted, winner.key)):
            sent[winner.key[0]] += orders
            effects.spent_gb_hours += winner.gb_hours
        else:
            left = left.with_payment(-winner.gb_hours, winner.from_old)
    for orders in sent.values():
        effects.add_outputs(with_batch_size(orders))
    share = context.state.share
    context.state.put_share(replace(share, tokens={**share.tokens, grant.budget: left}))


def _order_granted(place: Place, context: TableContext) -> list[Output]:
    key, scope = place
    table = context.state.table_at(key)
    if table is None:
        return []
    context = context.for_table(table)
    if isinstance(scope, str):
        return _order_table_action(table, scope, context)
    given = context.input_of(table, context.partition(table, scope))
    after, orders = order_rewrite(context, given, decide_rewrite(given, is_granted=True))
    if orders:
        context.state.put_table(with_publication(context, after))
    return orders


def _order_table_action(table: Table, action: str, context: TableContext) -> list[Output]:
    """Order an action on the table if it is still due, and keep the table. Return the order, or
    nothing."""
    given = context.table_input(table)
    after, order = TABLE_ACTIONS[action].plan_order(given, is_granted=True)
    if order is None:
        return []
    context.state.put_table(with_publication(context, after))
    return [task_output(TABLE_TASKS, order, table)]
