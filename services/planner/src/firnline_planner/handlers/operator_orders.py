"""Operator commands: pauses of a table, of the fleet and of single partitions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from firnline_domain.base.values import replace
from firnline_domain.counters.state.work import Partition, Table
from firnline_domain.errors import PoisonousRecord
from firnline_domain.policy.operator_requests import ACTIONS, RequestedAction, requested_rewrites
from firnline_domain.policy.partition.outcomes import after_unpark, taken_back
from firnline_domain.policy.table_action.registry import TABLE_ACTIONS
from firnline_domain.policy.triggers.full_rewrites import FREEZE
from firnline_domain.policy.triggers.table import TriggerReason
from firnline_domain.records.orders import (
    HoldPartitions,
    PauseMaintenance,
    ResumeMaintenance,
    RunAction,
    UnparkTable,
)
from firnline_domain.records.pauses import Pause

from firnline_planner.reconcile.table import reconcile
from firnline_planner.state.effects import TABLE_TASKS, task_output
from firnline_planner.state.encoding import UnreadableValue, table_key_in
from firnline_planner.state.table_context import TableContext


def on_partition_order(order: UnparkTable | HoldPartitions, context: TableContext) -> None:
    """Change the pauses of the partitions that are meant, and decide about these anew. An order
    for a table that is not known here, or that changes nothing, does nothing."""
    table = context.state.table(order.table.key, order.ref)
    if table is None:
        return
    context = context.for_table(table)
    changed = list(_changed_partitions(context, table, order))
    for partition in changed:
        context.put_partition(table, partition)
    if changed:
        reconcile(context, table, [partition.counters.scope for partition in changed])


def _changed_partitions(
    context: TableContext, table: Table, order: UnparkTable | HoldPartitions
) -> Iterator[Partition]:
    """Yield the partitions as the order changes them: held ones of HoldPartitions, or the ones that
    UnparkTable lets go on."""
    if isinstance(order, HoldPartitions):
        for scope in order.scopes:
            partition = context.partition(table, scope)
            yield replace(
                partition, work=taken_back(partition.work, order.until_ms, context.now_ms)
            )
        return
    for partition in context.partitions(table):
        work = after_unpark(partition.work)
        meant = order.partition in (None, partition.counters.scope.partition)
        if meant and work != partition.work:
            yield replace(partition, work=work)


def on_run_action(order: RunAction, context: TableContext) -> None:
    """Mark the partitions that are meant, and decide about them; or order the action on the table.
    An order for a table that is not known here, is paused, or has that action under way, does
    nothing. Raises PoisonousRecord: no such action."""
    if order.action not in ACTIONS:
        raise PoisonousRecord("unknown_action", order.action)
    table = context.state.table(order.table.key, order.ref)
    if table is None or table.pause is not None or not table.counters.known:
        return
    context = context.for_table(table)
    action = TABLE_ACTIONS.get(order.action)
    if action is None:
        _request_rewrites(order, context, table)
    elif context.settings.enabled and not action.is_under_way(table, context.now_ms):
        table, sent = action.order_requested(context.table_input(table))
        context.effects.add_outputs([task_output(TABLE_TASKS, sent, table)])
        context.charge_budget(sent.numbers.get("price_gb_hours", 0.0))
        reconcile(context, table, ())


def _request_rewrites(order: RunAction, context: TableContext, table: Table) -> None:
    asked = RequestedAction(order.action, order.partition, order.every_partition)
    inputs = (context.input_of(table, partition) for partition in context.partitions(table))
    decided = list(requested_rewrites(inputs, asked))
    marked = [(given.partition, decision) for given, decision in decided if decision.order]
    for partition, decision in marked:
        action = FREEZE if decision.reason == TriggerReason.CLOSED else str(decision.action)
        work = replace(partition.work, requested=action)
        context.put_partition(table, replace(partition, work=work))
    if marked:
        reconcile(context, table, [partition.counters.scope for partition, _ in marked])


def on_pause(order: PauseMaintenance | ResumeMaintenance, context: TableContext) -> None:
    """Keep the pause, also for tables that are not known yet, and publish it with those that are.

    What is wanted meanwhile is not remembered: a resume decides about every partition.
    """
    context.state.put_pause(order.table.key if order.table else None, _to_pause(order))
    for key in context.state.table_keys():
        if order.table is None or table_key_in(key) == order.table.key:
            # A table that cannot be read must not keep the pause from the others.
            with suppress(UnreadableValue):
                _reconcile_paused(order, context, key)


def _reconcile_paused(
    order: PauseMaintenance | ResumeMaintenance, context: TableContext, key: bytes
) -> None:
    table = context.state.table_at(key)
    if table is None:
        return
    if isinstance(order, ResumeMaintenance):
        table = replace(table, work=table.work.reconciled_by(context.now_ms))
    reconcile(context.for_table(table), table, ())


def _to_pause(order: PauseMaintenance | ResumeMaintenance) -> Pause | None:
    if isinstance(order, ResumeMaintenance):
        return None
    return Pause(order.requested_at_ms, order.requested_by, order.reason)
