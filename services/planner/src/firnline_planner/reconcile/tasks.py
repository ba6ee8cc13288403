"""The end of a task: its partition's next state, and when its table is reconciled again."""

from __future__ import annotations

from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.work import SLOTS, PartitionWork, RunningTask, Table
from firnline_domain.policy.fleet.holds import find_rewrite_hold
from firnline_domain.policy.partition.outcomes import (
    after_failure,
    after_success,
    has_succeeded,
    waited_in_vain,
)
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.triggers.dead_files import positional_records
from firnline_domain.policy.triggers.v2_deletes import after_rewrite
from firnline_domain.records.parts.slices import Slice

from firnline_planner.state.table_context import TableContext

MANY_PARTITIONS = 1_000  # decided about in 0.1 s


def pause_ms(partitions: int) -> int:
    """Return the pause in milliseconds before all partitions of a table are decided about again.
    10,000 of them take a second, in which the process serves no other table: so they take a tenth
    of the time at most."""
    return partitions if partitions > MANY_PARTITIONS else 0


def end_task(context: TableContext, table: Table, task: RunningTask, work: PartitionWork) -> Table:
    """End a running task; its partition continues with `work`."""
    context.put_partition(table, replace(context.partition(table, task.scope), work=work))
    # Partitions that found the table busy, or held, are found again only where all are reconciled.
    was_full = not table.work.has_room(SLOTS, context.settings)
    ended = replace(table, work=table.work.drop_task(task))
    hold = find_rewrite_hold(context.table_input(ended))
    if hold is None and (was_full or find_rewrite_hold(context.table_input(table))):
        again_ms = context.now_ms + pause_ms(table.counters.totals.partitions)
        return replace(ended, work=ended.work.reconciled_by(again_ms))
    return ended if hold is None else replace(ended, work=ended.work.reconciled_by(hold.until_ms))


def end_failed(
    context: TableContext, table: Table, task: RunningTask, reason: str, retryable: bool
) -> Table:
    """End a task that failed; its partition backs off, or is suspended."""
    work = after_failure(
        context.partition(table, task.scope).work, reason, retryable, context.now_ms
    )
    if work.pause == Reason.PARKED:
        context.effects.outcomes.append("parked")
    return end_task(context, table, task, work)


def end_waiting(context: TableContext, table: Table, task: RunningTask) -> Table:
    """End a task that has waited too long for a worker, or its result for the committer's report:
    its partition is free, and has not failed."""
    work = waited_in_vain(context.partition(table, task.scope).work)
    return end_task(context, table, task, work)


def finish_task(
    context: TableContext, table: Table, task: RunningTask, done: Slice | None = None
) -> Table:
    """Finish a task: its partition rests on a new floor, or requests the next slice at once."""
    partition = context.partition(table, task.scope)
    counters, work = partition.counters, partition.work
    context.effects.outcomes.append("finished")
    # A crash may keep the partition without the table. The event then comes again, and what came
    # while the order was out, forgotten since, would be taken for what the rewrite left behind.
    if not has_succeeded(work, task):
        positions = positional_records(counters.holds)
        debt = context.debt(table, counters.holds)
        ended = task if done is None else replace(task, slice=done)
        changed_ms = counters.changed_ms
        if ended.slice is None or ended.slice.is_last:
            context.effects.ages_at_finish_ms += context.commit_ages_ms(task, work)
        work = after_success(
            work, debt, ended, context.settings, context.now_ms, positions, changed_ms
        )
        rested = replace(partition, work=replace(work, v2_left=partition.work.v2_left))
        left = after_rewrite(context.input_of(table, rested), ended)
        work = replace(work, v2_left=left)
    return end_task(context, table, task, work)


def is_in_counters(counters: TableCounters, task: RunningTask) -> bool:
    """Return True if a commit that the committer has reported is in the counters."""
    if task.committed_at_ms is None:
        return False
    if not task.committed_snapshot_ids:
        return True  # expired already: long ago
    read_later = task.committed_at_ms <= counters.absolute_observed_ms
    return read_later or any(counters.has_snapshot(one) for one in task.committed_snapshot_ids)
