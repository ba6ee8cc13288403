"""Reconciles a table: asks for what is missing, gives up what is lost, orders what is deserved."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import partial

from firnline_domain.base.values import replace
from firnline_domain.counters.fold.missing_snapshots import resync_request
from firnline_domain.counters.state.work import Table
from firnline_domain.errors import PoisonousRecord
from firnline_domain.identity import Scope
from firnline_domain.policy.cost.dollars import of_rewrite
from firnline_domain.policy.fleet.lanes import lane_of, lane_topic
from firnline_domain.policy.partition.decide import (
    admit_rewrite,
    cost_benefit_of,
    decide_rewrite,
    order_for,
    with_numbers,
)
from firnline_domain.policy.partition.outcomes import (
    after_order,
    after_settings_change,
    with_debt_ages,
)
from firnline_domain.policy.policy_input import PolicyInput, TableInput
from firnline_domain.policy.reasons import Decision, Reason
from firnline_domain.policy.table_action.base import SHADOW_RECHECK_MS, TableAction
from firnline_domain.policy.table_action.registry import TABLE_ACTIONS
from firnline_domain.policy.table_action.snapshot_retention import retry_allowed
from firnline_domain.policy.triggers.full_rewrites import with_full_interval
from firnline_domain.policy.triggers.hot_partitions import note_waiting
from firnline_domain.policy.triggers.slices import share_of_price

from firnline_planner.publish.table_state import with_publication
from firnline_planner.reconcile.tasks import end_failed, end_waiting
from firnline_planner.state.budget_ranking import candidate_of
from firnline_planner.state.effects import RESYNC_REQUESTS, TABLE_TASKS, Output, Place, task_output
from firnline_planner.state.encoding import UnusableState, ref_key
from firnline_planner.state.failing_tables import RECONCILE
from firnline_planner.state.table_context import TableContext, spread_name
from firnline_planner.state.table_isolation import run_isolated


def reconcile(context: TableContext, table: Table, touched: Iterable[Scope]) -> None:
    """Decide about the touched partitions, or about all if that is due; keep the table. If that
    raises, keep the table all the same: a record's facts about it are not lost, and the next tick
    decides about every partition."""
    key = ref_key(table.counters.table.key, table.counters.ref)
    try:
        run_isolated(context, partial(decide_table, table=table, touched=touched))
    except (UnusableState, PoisonousRecord):
        raise
    except Exception:  # the tick tells of it, with a pause between two tries
        due = table.work.reconciled_by(context.now_ms)
        context.state.put_table(replace(table, work=due))
        return
    context.failing.clear_failure(key, RECONCILE)


def reconcile_at(context: TableContext, key: bytes) -> None:
    """Decide about the table of a key, whose time has come. Raises what the decision raises."""
    if (table := context.state.table_at(key)) is not None:
        table = with_current_policies(context, table)
        decide_table(context.for_table(table), table, ())


def decide_table(context: TableContext, table: Table, touched: Iterable[Scope]) -> None:
    """Decide as `reconcile` does. Raises what the decision raises."""
    table, lost = _without_lost_tasks(context, table)
    table = _ask_for_missing(context, table)
    table = _decide_all(context, table, {*touched, *lost})
    table = _order_on_table(context, table)
    context.state.put_table(with_publication(context, table))


def _without_lost_tasks(context: TableContext, table: Table) -> tuple[Table, list[Scope]]:
    lost = [task for task in table.work.running if task.deadline_ms <= context.now_ms]
    for task in lost:
        if task.begun_ms is None:
            context.effects.outcomes.append("waited_in_vain")
            table = end_waiting(context, table, task)
        else:
            context.effects.outcomes.append("lost")
            table = end_failed(context, table, task, "deadline", True)
    return table, [task.scope for task in lost]


def _ask_for_missing(context: TableContext, table: Table) -> Table:
    counters, request = resync_request(table.counters, context.now_ms)
    if request:
        context.effects.add_outputs([Output(RESYNC_REQUESTS, request.table.key, request)])
    return table if counters is table.counters else replace(table, counters=counters)


def _decide_all(context: TableContext, table: Table, touched: set[Scope]) -> Table:
    due_ms = table.work.reconcile_ms
    if due_ms is not None and due_ms <= context.now_ms:
        table = replace(table, work=replace(table.work, reconcile_ms=None))
        partitions = context.partitions(table)
        inputs = (_update_debt_ages(context, context.input_of(table, one)) for one in partitions)
        context.effects.fully_reconciled.add(ref_key(table.counters.table.key, table.counters.ref))
    else:
        inputs = (context.input_of(table, context.partition(table, one)) for one in touched)
    wanting = []
    for given in inputs:
        decision = decide_rewrite(given)
        _request_budget(context, given, decision)
        # An order's deadline is in the schedule by itself.
        if not decision.order and decision.reason is not Reason.IN_FLIGHT:
            table = replace(table, work=table.work.reconciled_by(decision.until_ms))
        if decision.order:
            wanting.append((given, decision))
        elif decision.reason is Reason.SHADOW:
            table = replace(
                table, work=table.work.reconciled_by(context.now_ms + SHADOW_RECHECK_MS)
            )
        elif decision.reason is Reason.HOT and given.partition.work.hot_since_ms is None:
            work = note_waiting(given.partition.work, context.now_ms)
            context.put_partition(table, replace(given.partition, work=work))
    return _order_all(context, table, sorted(wanting, key=_by_rank))


def _by_rank(wanting: tuple[PolicyInput, Decision]) -> tuple[float, int, Scope]:
    """Return a sort key: the highest rank first, then the deepest debt."""
    given, decision = wanting
    return -decision.rank, -sum(given.new_debt.counts), given.partition.counters.scope


def _order_all(
    context: TableContext, table: Table, wanting: Iterable[tuple[PolicyInput, Decision]]
) -> Table:
    """Create the tasks in the given order while there are free places. Together they are one
    commit."""
    sent: list[Output] = []
    for before, decision in wanting:
        given = replace(before, table=table)
        decision = admit_rewrite(given, decision)
        table, outputs = order_rewrite(context, given, decision)
        sent += outputs
        if outputs:  # under a budget it was promised, else it would wait
            weighed = cost_benefit_of(given, decision)
            share = share_of_price(weighed.price_s, given.settings)
            context.charge_budget(weighed.gb_hours * share)
    context.effects.add_outputs(with_batch_size(sent))
    return table


def _update_debt_ages(context: TableContext, given: PolicyInput) -> PolicyInput:
    """Return the input with the times since which the partition has debt, because another target
    size changes the debt; and with the time from which full rewrites count."""
    partition = given.partition
    work = with_debt_ages(partition.work, given.debt, context.now_ms)
    name = spread_name(given.table, partition.counters.scope)
    work = with_full_interval(work, given.settings, name, context.now_ms)
    if work == partition.work:
        return given
    partition = replace(partition, work=work)
    context.put_partition(given.table, partition)
    return replace(given, partition=partition)


def _request_budget(context: TableContext, given: PolicyInput, decision: Decision) -> None:
    if not context.fleet.is_bounded:
        return
    counters = given.table.counters
    key = ref_key(counters.table.key, counters.ref)
    place: Place = (key, given.partition.counters.scope)
    context.effects.budget_requests[place] = None
    if decision.reason is Reason.WAITING_FOR_BUDGET:
        settings, weighed = given.settings, cost_benefit_of(given, decision)
        share = share_of_price(weighed.price_s, settings)
        since_ms = weighed.since_ms or context.now_ms
        estimate = of_rewrite(weighed, settings.target_bytes)
        candidate = candidate_of(place, estimate, given, since_ms, share)
        context.effects.budget_requests[place] = (settings.paying_budget[0], candidate)


def order_rewrite(
    context: TableContext, given: PolicyInput, decision: Decision
) -> tuple[Table, list[Output]]:
    """Return the table with the new task, and the task to send. If no task was decided, return the
    same table and an empty list."""
    table, partition = given.table, given.partition
    if not decision.order:
        return table, []  # those deeper in debt have taken all places
    rewrite, task = order_for(given, with_numbers(given, decision))
    settings = given.settings
    topic = lane_topic(lane_of(partition, settings), settings.served_by)
    if rewrite.after is None:  # else this was told of an earlier slice
        context.effects.ages_at_order_ms += context.commit_ages_ms(task, partition.work)
    context.put_partition(table, replace(partition, work=after_order(partition.work)))
    after = replace(table, work=table.work.add_task(task))
    return after, [task_output(topic, rewrite, table)]


def with_batch_size(orders: list[Output]) -> list[Output]:
    """Return tasks of one table and time, each with their number."""
    if len(orders) < 2:
        return orders
    several = len(orders)
    return [
        dataclasses.replace(one, record=replace(one.record, batch_size=several)) for one in orders
    ]


def _order_on_table(context: TableContext, table: Table) -> Table:
    given, is_bounded = context.table_input(table), context.fleet.is_bounded
    for action in TABLE_ACTIONS.values():
        after, order = action.plan_order(given)
        if after is not given.table:
            given = replace(given, table=after)
        if order is not None:
            context.effects.add_outputs([task_output(TABLE_TASKS, order, after)])
            context.charge_budget(order.numbers.get("price_gb_hours", 0.0))
        if is_bounded:
            _request_budget_of_action(context, given, action)
    return given.table


def _request_budget_of_action(
    context: TableContext, given: TableInput, action: TableAction
) -> None:
    work, counters = given.table.work.actions.get(action.name), given.table.counters
    if work is None:
        return  # mostly
    place: Place = (ref_key(counters.table.key, counters.ref), action.name)
    context.effects.budget_requests[place] = None
    if work.reason == Reason.WAITING_FOR_BUDGET:
        since_ms = work.wanted_ms or context.now_ms
        candidate = candidate_of(place, action.weighed_here(given), given, since_ms)
        context.effects.budget_requests[place] = (given.settings.paying_budget[0], candidate)


def with_current_policies(context: TableContext, table: Table) -> Table:
    """Return the table under the policies of now; if they set something else than before, every
    partition is due for a decision."""
    counters = table.counters
    settings = context.policies.with_policies(counters.table, counters.settings)
    if counters.removed or settings == counters.settings:
        return table
    table = replace(table, counters=replace(counters, settings=dict(settings)))
    refresh_debts(context.for_table(table), table, settings_changed=True)
    table = with_retries(table)
    return replace(table, work=table.work.reconciled_by(context.now_ms))


def with_retries(table: Table) -> Table:
    """Return the table with a refused expiry due again."""
    return replace(table, work=replace(table.work, expiry=retry_allowed(table.work.expiry)))


def refresh_debts(context: TableContext, table: Table, settings_changed: bool) -> None:
    """Update the debt of every partition; after a change of settings failed rewrites may start
    again."""
    for partition in context.partitions(table):
        work = after_settings_change(partition.work) if settings_changed else partition.work
        holds = context.debt(table, partition.counters.holds)
        work = with_debt_ages(replace(work, floor=work.floor.at_most(holds)), holds, context.now_ms)
        context.put_partition(table, replace(partition, work=work))
