"""One look at a table: ask for what is missing, order what is deserved, show what has changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from firnline_domain.advising import Known
from firnline_domain.counters import PartitionCounters
from firnline_domain.gaps import ask
from firnline_domain.heat import waiting
from firnline_domain.holds import rewrite_hold_of, turns_ms
from firnline_domain.identity import Scope
from firnline_domain.lanes import lane_of, topic_of
from firnline_domain.policy import (
    Decision,
    Reason,
    debts,
    decide,
    depth,
    explained,
    order_for,
    weighed_for,
)
from firnline_domain.progress import (
    Partition,
    PartitionWork,
    RunningTask,
    Table,
    aged,
    failed,
    ordered,
)
from firnline_domain.ranking import candidate_of
from firnline_domain.recounting import Recount, is_gone
from firnline_domain.retention import ExpiryReason, decide_expiry, expiry_order
from firnline_domain.schedule import earliest
from firnline_domain.spread import Spread
from firnline_domain.thresholds import DAY_MS, Thresholds, thresholds
from firnline_domain.values import replace

from firnline_planner.advising import advised, stale_ms
from firnline_planner.state import State
from firnline_planner.step import (
    EXPIRY_TASKS,
    RESYNC_REQUESTS,
    TABLE_STATES,
    Output,
    Step,
)
from firnline_planner.values import table_key
from firnline_planner.views import deepest_in_debt, interval_ms, table_state

# Nothing tells a table that its fleet has left shadow mode; those that would be served look again.
SHADOW_LOOK_MS = 10 * 60_000
REMEMBER_REMOVED_MS = DAY_MS  # a late duplicate of a dropped table's event is younger than that


@dataclass(frozen=True)
class Visit:
    """Where and when a visit takes place."""

    state: State
    limits: Thresholds
    now_ms: int
    step: Step
    fleet: Thresholds  # what holds where the table and its namespace say nothing

    def partition(self, table: Table, scope: Scope) -> Partition:
        """The partition as it is known, or a fresh one."""
        found = self.state.partition(table.counters.table.uuid, table.counters.ref, scope)
        return found or Partition(PartitionCounters(scope))

    def keep(self, table: Table, partition: Partition) -> None:
        """Keep a partition of the table."""
        self.state.put_partition(table.counters.table.uuid, table.counters.ref, partition)

    def all_partitions(self, table: Table) -> Iterator[Partition]:
        """Every partition of the table that its counters speak of."""
        for partition in self.state.partitions(table.counters.table.uuid, table.counters.ref):
            if not is_gone(table.counters, partition.counters):
                yield partition


def visit_of(state: State, table: Table, defaults: Thresholds, now_ms: int, step: Step) -> Visit:
    """A visit under the table's own settings, with prices as they were learned here."""
    limits = thresholds(table.counters.settings, defaults)
    if state.share.cost_factor != limits.cost_factor:
        limits = replace(limits, cost_factor=state.share.cost_factor)
    return Visit(state, limits, now_ms, step, defaults)


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
    was_full = len(table.work.running) >= visit.limits.max_in_flight or (
        rewrite_hold_of(table, visit.limits, visit.now_ms) is not None
    )
    ended = table.work.ended(task)
    # Partitions that found the table busy are found again only by a look at all.
    return replace(table, work=ended.looking(visit.now_ms) if was_full else ended)


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
    return replace(table, counters=counters)


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
    for _, partition in wanting:
        table = order(visit, table, partition)
    return table


def _aged(visit: Visit, table: Table, partition: Partition) -> Partition:
    """With the moments of its debt: what an older release has kept does not have them all."""
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


def order(visit: Visit, table: Table, partition: Partition) -> Table:
    """With an order out, if the partition deserves one now."""
    decision = explained(table, partition, visit.limits, visit.now_ms)
    if not decision.order:
        return table  # those deeper in debt have taken all places
    order, task = order_for(table, partition, decision, visit.limits, visit.now_ms)
    topic = topic_of(lane_of(partition, visit.limits), visit.limits.served_by)
    visit.step.send([Output(topic, order.table.uuid, order)])
    visit.keep(table, replace(partition, work=ordered(partition.work)))
    return replace(table, work=table.work.started(task).looking(task.deadline_ms))


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
    work = replace(table.work, expiry=expiry, expiry_reason=reason, expiry_ms=until_ms)
    return replace(table, work=work)


def to_be_shown(visit: Visit, table: Table) -> Table:
    """With a moment at which people see what has changed."""
    work, latest_ms = table.work, visit.now_ms + interval_ms(table)
    # Never later: where the clock was set back, it was shown in what is now the future.
    show_ms = min(max(visit.now_ms, work.shown_ms + interval_ms(table)), latest_ms)
    planned = work.show_ms
    if planned is not None and (planned <= show_ms or table.counters.removed):
        return table
    return replace(table, work=replace(work, show_ms=show_ms))


def show_or_forget(visit: Visit, table: Table) -> None:
    """On a tick: publish the table's state if it is due; forget what was removed long ago."""
    work = table.work
    if work.show_ms is None or work.show_ms > visit.now_ms:
        return
    if table.counters.removed and work.shown_ms:
        visit.state.drop_table(table)
        return
    recount = Recount(table.counters)
    spread = Spread(visit.limits.target_bytes)
    every = spread.through(recount.through(_without_gone(visit, table)))
    deepest = deepest_in_debt(table, every, visit.limits)
    table = replace(table, counters=recount.checked(visit.now_ms))
    known = Known(table, spread, visit.limits, visit.fleet, visit.now_ms)
    table = advised(known, visit.step)
    again = _shown_again_ms(visit, table)
    table = replace(table, work=replace(table.work, show_ms=again, shown_ms=visit.now_ms))
    shown = table_state(table, deepest, visit.limits, visit.fleet, visit.now_ms)
    visit.step.send([Output(TABLE_STATES, f"{shown.table.uuid}/{shown.ref}", shown)])
    visit.state.put_table(table)


def _shown_again_ms(visit: Visit, table: Table) -> int | None:
    """When time alone makes another state of it."""
    if table.counters.removed:
        return visit.now_ms + REMEMBER_REMOVED_MS
    return earliest(turns_ms(table, visit.limits, visit.now_ms), stale_ms(table, visit.now_ms))


def _without_gone(visit: Visit, table: Table) -> Iterator[Partition]:
    """Every partition that the counters speak of; the others are dropped on the way."""
    counters = table.counters
    for partition in visit.state.partitions(counters.table.uuid, counters.ref):
        if is_gone(counters, partition.counters):
            scope = partition.counters.scope
            visit.state.drop_partition(counters.table.uuid, counters.ref, scope)
        else:
            yield partition
