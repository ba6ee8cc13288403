"""Turns one request for a table, as its catalog has it now, into tasks or reasons for none."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from firnline_domain.base.values import Value, replace
from firnline_domain.counters.state.counters import PartitionCounters
from firnline_domain.counters.state.work import Partition
from firnline_domain.identity import Scope
from firnline_domain.policy.operator_requests import (
    POLICY,
    Order,
    RequestedAction,
    requested_rewrites,
)
from firnline_domain.policy.partition.decide import order_for, with_numbers
from firnline_domain.policy.policy_input import PolicyInput
from firnline_domain.policy.reasons import Decision, Reason
from firnline_domain.policy.table_action.registry import TABLE_ACTIONS
from firnline_domain.policy.triggers.table import TriggerReason
from firnline_domain.policy.triggers.v2_deletes import UPGRADE, VECTORS, replace_v2_files
from firnline_domain.records.orders import RewriteFiles

from firnline_cli.forecast.forecast import Forecast


class Chosen(Value):
    """The choice for a request. `passed_over`: partitions that are not rewritten, with the
    reason."""

    orders: tuple[Order, ...]
    passed_over: tuple[tuple[Partition, Decision], ...] = ()


def choose_tasks(forecast: Forecast, requested: RequestedAction) -> Chosen:
    """Choose the tasks of a table that has a snapshot. For a table without any there is nothing to
    do."""
    if forecast.table.counters.head_snapshot_id is None:
        return Chosen(())
    if (action := TABLE_ACTIONS.get(requested.action)) is not None:
        follow = _conversions(forecast) if action.name == UPGRADE else ()
        return Chosen((action.order_requested(forecast.given)[1], *follow))
    decided = list(requested_rewrites(_inputs(forecast), requested))
    orders: list[Order] = [
        order_for(given, with_numbers(given, decision))[0]
        for given, decision in decided
        if decision.order
    ]
    if requested.action == POLICY and not requested.names_partitions:
        orders += _due_table_orders(forecast)
    passed_over = tuple(
        (given.partition, decision) for given, decision in decided if not decision.order
    )
    return Chosen(tuple(orders), passed_over)


def _inputs(forecast: Forecast) -> Iterator[PolicyInput]:
    given = forecast.given
    for partition, _ in forecast.decisions:
        yield PolicyInput(given.table, given.settings, given.costs, given.now_ms, partition)


def _conversions(forecast: Forecast) -> Iterator[Order]:
    """Yield the rewrites of a v3 table that replace delete files of v2, one for each partition."""
    if forecast.table.counters.format_version < VECTORS:
        return
    settings = replace(forecast.given.settings, format_version=VECTORS)
    for before in _inputs(forecast):
        if not before.holds.position_deletes.files and not before.holds.equality_deletes.files:
            continue
        given = replace(before, settings=settings)
        decision = replace_v2_files(TriggerReason.V2_DELETES, settings)
        yield order_for(given, with_numbers(given, decision))[0]


def pass_over(made: Chosen, at_rest: Collection[Scope]) -> Chosen:
    """Pass over the rewrites of these partitions: `fixed_point`."""
    kept, passed_over = list[Order](), list(made.passed_over)
    for order in made.orders:
        if isinstance(order, RewriteFiles) and order.scope in at_rest:
            partition = Partition(PartitionCounters(order.scope))
            passed_over.append((partition, Decision(Reason.FIXED_POINT)))
        else:
            kept.append(order)
    return Chosen(tuple(kept), tuple(passed_over))


def _due_table_orders(forecast: Forecast) -> Iterator[Order]:
    """Yield the orders of actions on the whole table that are due; none that begins later, after an
    announcement."""
    for action in TABLE_ACTIONS.values():
        _, order = action.plan_order(forecast.given)
        if order is not None and getattr(order, "begins_at_ms", None) is None:
            yield order  # nobody is there who would keep an announcement
