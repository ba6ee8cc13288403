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
from firnline_domain.policy.reasons.partition import Decision, Reason
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


def choose_tasks(forecast: Forecast, requested: RequestedAction, now_ms: int) -> Chosen:
    """Choose the tasks of a table that has a snapshot. For a table without any there is nothing to
    do."""
    table, limits = forecast.table, forecast.limits
    if table.counters.head_snapshot_id is None:
        return Chosen(())
    if (action := TABLE_ACTIONS.get(requested.action)) is not None:
        follow = _conversions(forecast, now_ms) if action.name == UPGRADE else ()
        return Chosen((action.order_requested(table, limits, now_ms)[1], *follow))
    partitions = [partition for partition, _ in forecast.decisions]
    decided = list(requested_rewrites(table, partitions, requested, limits, now_ms))
    orders: list[Order] = []
    for partition, decision in decided:
        if decision.order:
            explained = with_numbers(table, partition, decision, limits, now_ms)
            orders.append(order_for(table, partition, explained, limits, now_ms)[0])
    if requested.action == POLICY and not requested.names_partitions:
        orders += _due_table_orders(forecast, now_ms)
    passed_over = tuple(one for one in decided if not one[1].order)
    return Chosen(tuple(orders), passed_over)


def _conversions(forecast: Forecast, now_ms: int) -> Iterator[Order]:
    """Yield the rewrites of a v3 table that replace delete files of v2, one for each partition."""
    limits = replace(forecast.limits, format_version=VECTORS)
    for partition, _ in (
        forecast.decisions if forecast.table.counters.format_version >= VECTORS else ()
    ):
        holds = partition.counters.holds
        if not holds.position_deletes.files and not holds.equality_deletes.files:
            continue
        decision = replace_v2_files(TriggerReason.V2_DELETES, limits)
        explained = with_numbers(forecast.table, partition, decision, limits, now_ms)
        yield order_for(forecast.table, partition, explained, limits, now_ms)[0]


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


def _due_table_orders(forecast: Forecast, now_ms: int) -> Iterator[Order]:
    """Yield the orders of actions on the whole table that are due; none that begins later, after an
    announcement."""
    for action in TABLE_ACTIONS.values():
        _, order = action.plan_order(forecast.table, forecast.limits, now_ms)
        if order is not None and getattr(order, "begins_at_ms", None) is None:
            yield order  # nobody is there who would keep an announcement
