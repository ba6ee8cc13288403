"""One look at a table: ask for what is missing, give up what is lost, order what is deserved."""

from __future__ import annotations

from collections.abc import Iterable

from firnline_domain.counters.gaps import ask
from firnline_domain.counters.work import (
    PLACES,
    ExpiryWork,
    Partition,
    PartitionWork,
    RunningTask,
    Table,
    TableWork,
)
from firnline_domain.identity import Scope
from firnline_domain.policy.decisions import Decision, Reason
from firnline_domain.policy.expiry import ExpiryReason, decide_expiry, expiry_order
from firnline_domain.policy.heat import waiting
from firnline_domain.policy.holds import rewrite_hold_of
from firnline_domain.policy.lanes import lane_of, topic_of
from firnline_domain.policy.outcomes import aged, failed, ordered
from firnline_domain.policy.rewrite import debts, decide, depth, explained, order_for, weighed_for
from firnline_domain.values import replace

from firnline_planner.effects import (
    EXPIRY_TASKS,
    RESYNC_REQUESTS,
    Output,
)
from firnline_planner.ranking import candidate_of
from firnline_planner.reconcile.context import Visit
from firnline_planner.reconcile.publishing import to_be_shown
from firnline_planner.state.encoding import table_key

# Nothing tells a table that its fleet has left shadow mode; those that would be served look again.
SHADOW_LOOK_MS = 10 * 60_000


def look_at(visit: Visit, table: Table, touched: Iterable[Scope]) -> Table:
    """Decide about the touched partitions, or about all where a look is due; keep the table."""
    table, lost = _without_lost(visit, table)
    table = _asking(visit, table)
    table = _ordering(visit, table, {*touched, *lost})
    table = _expiring(visit, table)
    table = to_be_shown(visit, table)
    visit.state.put_table(table)
    return table


def end_task(visit: Visit, table: Table, task: RunningTask, work: PartitionWork) -> Table:
    """An order is out no more; its partition goes on with `work`."""
    visit.keep(table, replace(visit.partition(table, task.scope), work=work))
    # Partitions that found the table busy, or held, are found again only by a look at all.
    was_full = not table.work.has_room(PLACES, visit.limits)
    ended = replace(table, work=table.work.ended(task))
    hold = rewrite_hold_of(ended, visit.limits, visit.now_ms)
    if hold is None and (was_full or rewrite_hold_of(table, visit.limits, visit.now_ms)):
        return replace(ended, work=ended.work.looking(visit.now_ms))
    return ended if hold is None else replace(ended, work=ended.work.looking(hold.until_ms))


def end_failed(
    visit: Visit, table: Table, task: RunningTask, reason: str, retryable: bool
) -> Table:
    """An order came to nothing; its partition backs off, or is parked."""
    work = failed(visit.partition(table, task.scope).work, reason, retryable, visit.now_ms)
    if work.pause == Reason.PARKED:
        visit.step.outcomes.append("parked")
    return end_task(visit, table, task, work)


def _without_lost(visit: Visit, table: Table) -> tuple[Table, list[Scope]]:
    lost = [task for task in table.work.running if task.deadline_ms <= visit.now_ms]
    for task in lost:
        visit.step.outcomes.append("lost")
        table = end_failed(visit, table, task, "deadline", True)
    return table, [task.scope for task in lost]


def _asking(visit: Visit, table: Table) -> Table:
    counters, request = ask(table.counters, visit.now_ms)
    if request:
        visit.step.send([Output(RESYNC_REQUESTS, request.table.uuid, request)])
    return table if counters is table.counters else replace(table, counters=counters)


def _ordering(visit: Visit, table: Table, touched: set[Scope]) -> Table:
    look_ms = table.work.look_ms
    if look_ms is not None and look_ms <= visit.now_ms:
        table = replace(table, work=replace(table.work, look_ms=None))
        partitions = (_aged(visit, table, one) for one in visit.all_partitions(table))
        visit.step.looked_at_all.add(table_key(table.counters.table.uuid, table.counters.ref))
    else:
        partitions = (visit.partition(table, scope) for scope in touched)
    wanting = []
    for partition in partitions:
        decision = decide(table, partition, visit.limits, visit.now_ms)
        _bid(visit, table, partition, decision)
        table = replace(table, work=table.work.looking(decision.until_ms))
        if decision.order:
            wanting.append((-decision.rank, partition))
        elif decision.reason is Reason.SHADOW:
            table = replace(table, work=table.work.looking(visit.now_ms + SHADOW_LOOK_MS))
        elif decision.reason is Reason.HOT and partition.work.hot_since_ms is None:
            visit.keep(table, replace(partition, work=waiting(partition.work, visit.now_ms)))
    wanting.sort(
        key=lambda one: (one[0], -depth(table, one[1], visit.limits), one[1].counters.scope)
    )
    return _all_ordered(visit, table, [partition for _, partition in wanting])


def _all_ordered(visit: Visit, table: Table, partitions: Iterable[Partition]) -> Table:
    """In that order, as long as there are places. Together they are one commit."""
    sent: list[Output] = []
    for partition in partitions:
        table, outputs = order(visit, table, partition)
        sent += outputs
    visit.step.send(together(sent))
    return table


def _aged(visit: Visit, table: Table, partition: Partition) -> Partition:
    """With the times since which it has debt: another target size makes other debt."""
    debt, _ = debts(table, partition, visit.limits.target_bytes)
    work = aged(partition.work, debt, visit.now_ms)
    if work == partition.work:
        return partition
    partition = replace(partition, work=work)
    visit.keep(table, partition)
    return partition


def _bid(visit: Visit, table: Table, partition: Partition, decision: Decision) -> None:
    if not visit.fleet.is_bounded:
        return
    place = (table_key(table.counters.table.uuid, table.counters.ref), partition.counters.scope)
    visit.step.bids[place] = None
    if decision.reason is Reason.WAITING_FOR_BUDGET:
        weighed = weighed_for(table, partition, decision.action, visit.limits)
        candidate = candidate_of(place, weighed, visit.limits, visit.now_ms)
        visit.step.bids[place] = (visit.limits.spending[0], candidate)


def order(visit: Visit, table: Table, partition: Partition) -> tuple[Table, list[Output]]:
    """With an order out, if the partition deserves one now; and the order, to be sent."""
    decision = explained(table, partition, visit.limits, visit.now_ms)
    if not decision.order:
        return table, []  # those deeper in debt have taken all places
    order, task = order_for(table, partition, decision, visit.limits, visit.now_ms)
    topic = topic_of(lane_of(partition, visit.limits), visit.limits.served_by)
    visit.keep(table, replace(partition, work=ordered(partition.work)))
    after = replace(table, work=table.work.started(task).looking(task.deadline_ms))
    return after, [Output(topic, order.table.uuid, order)]


def together(orders: list[Output]) -> list[Output]:
    """Orders of one table and moment, each told how many they are."""
    if len(orders) < 2:
        return orders
    several = len(orders)
    return [Output(one.topic, one.key, replace(one.record, together=several)) for one in orders]


def _expiring(visit: Visit, table: Table) -> Table:
    decision = decide_expiry(table, visit.limits, visit.now_ms)
    expiry = table.work.expiry
    if decision.older_than_ms is not None:
        order, expiry = expiry_order(table, decision, visit.limits, visit.now_ms)
        visit.step.send([Output(EXPIRY_TASKS, order.table.uuid, order)])
    reason = expiry.refused if expiry.refused and not expiry.task_id else decision.reason
    until_ms = decision.until_ms
    if decision.reason is ExpiryReason.SHADOW:
        until_ms = visit.now_ms + SHADOW_LOOK_MS
    if (expiry, reason, until_ms) == _expiry_of(table.work):
        return table
    work = replace(table.work, expiry=expiry, expiry_reason=reason, expiry_ms=until_ms)
    return replace(table, work=work)


def _expiry_of(work: TableWork) -> tuple[ExpiryWork, str, int | None]:
    return work.expiry, work.expiry_reason, work.expiry_ms
