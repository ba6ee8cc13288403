"""FilesChanged: into the counters, then a look at what changed."""

from __future__ import annotations

from firnline_domain.counters.counters import TableCounters
from firnline_domain.counters.debts import NO_DEBT, Debt, brought, debt_of
from firnline_domain.counters.folding import Folded, Verdict, fold
from firnline_domain.counters.gaps import next_held
from firnline_domain.counters.work import Partition, RunningTask, Table, TableWork
from firnline_domain.identity import MAIN, Scope
from firnline_domain.policy.expiry import after_expired, reconsidered
from firnline_domain.policy.heat import heated
from firnline_domain.policy.outcomes import after_change, aged, freed, has_succeeded, succeeded
from firnline_domain.records.events import ChangeKind, FilesChanged
from firnline_domain.records.tallies import FileTally
from firnline_domain.settings.thresholds import Thresholds
from firnline_domain.values import replace

from firnline_planner.effects import Step
from firnline_planner.reconcile.advice import noting_commit
from firnline_planner.reconcile.context import Visit, visit_of
from firnline_planner.reconcile.table import end_task, look_at
from firnline_planner.reconcile.worker_memory import noting_success
from firnline_planner.state.bucket_state import State

WITHOUT_EFFECT = (Verdict.DUPLICATE, Verdict.STALE)


def on_files_changed(
    change: FilesChanged, state: State, defaults: Thresholds, now_ms: int, step: Step
) -> None:
    """Fold a change, and all that was held back for it; then decide about what it touched.

    Only `main` is maintained: counters of another branch would cost a read of the whole table
    and serve nothing. Its snapshots are the table's, though.
    """
    table = state.table(change.table.uuid, MAIN)
    if change.ref == MAIN:
        paused = state.switches.holding(change.table.uuid)
        fresh = Table(TableCounters(change.table, MAIN), pause=paused)
        _fold_into(table or fresh, change, state, defaults, now_ms, step)
    elif table is not None:
        foreign = table.counters.foreign or change.foreign_files > 0
        counters = replace(table.counters, snapshot_count=None, foreign=foreign)
        if counters != table.counters:
            state.put_table(replace(table, counters=counters))


def _fold_into(
    table: Table,
    change: FilesChanged,
    state: State,
    defaults: Thresholds,
    now_ms: int,
    step: Step,
) -> None:
    touched: set[Scope] = set()
    following: FilesChanged | None = change
    before, visit = table, visit_of(state, table, defaults, now_ms, step)
    while following is not None:
        settings = table.counters.settings
        table, verdict = _fold_one(visit, table, following)
        if table.counters.settings != settings:
            visit = visit_of(state, table, defaults, now_ms, step)
        step.verdicts.append(verdict)
        touched.update(part.scope for part in following.partitions)
        following = next_held(table.counters) if verdict is not Verdict.HELD else None
    if table != before:
        look_at(visit, table, touched)


def _fold_one(visit: Visit, table: Table, change: FilesChanged) -> tuple[Table, Verdict]:
    entries = {part.scope: visit.partition(table, part.scope) for part in change.partitions}
    counters = {scope: entry.counters for scope, entry in entries.items()}
    folded = fold(table.counters, counters, change, visit.now_ms)
    if folded.verdict in WITHOUT_EFFECT:
        return replace(table, counters=folded.table), folded.verdict
    after = replace(table, counters=folded.table)
    if folded.verdict is Verdict.REMOVED:
        return _removed(visit, after), folded.verdict
    _keep_partitions(visit, after, entries, folded, change)
    if change.expired_snapshots and folded.verdict in (Verdict.FOLDED, Verdict.NOTED):
        after = after_expired(after, change.expired_snapshots)
    after = _noticed(visit, table, after)
    if folded.verdict in (Verdict.FOLDED, Verdict.PART):
        after = noting_commit(after, change, visit.now_ms)
    if folded.verdict is Verdict.FOLDED:
        after = _with_finished(visit, after, change)
    return after, folded.verdict


def _removed(visit: Visit, table: Table) -> Table:
    uuid, ref = table.counters.table.uuid, table.counters.ref
    for partition in visit.state.partitions(uuid, ref):
        visit.state.drop_partition(uuid, ref, partition.counters.scope)
    return replace(table, work=TableWork(advice=table.work.advice))  # to be withdrawn


def _keep_partitions(
    visit: Visit,
    table: Table,
    entries: dict[Scope, Partition],
    folded: Folded,
    change: FilesChanged,
) -> None:
    by_us = any(map(table.work.task, tasks_of(change)))
    parts = {part.scope: part for part in change.partitions}
    for counters in folded.partitions:
        entry, holds = entries[counters.scope], _debt(visit, table, counters.holds)
        part = parts[counters.scope]
        came = NO_DEBT if by_us else brought(part.added)
        if change.kind is ChangeKind.ABSOLUTE:
            came = brought(counters.holds).beyond(brought(entry.counters.holds))
        work = heated(entry.work, change, part, visit.now_ms)
        work = after_change(work, holds, came, visit.now_ms)
        visit.keep(table, Partition(counters, work))


def _debt(visit: Visit, table: Table, holds: FileTally) -> Debt:
    return debt_of(holds, visit.limits.target_bytes, table.counters.global_equality_deletes)


def _noticed(visit: Visit, before: Table, after: Table) -> Table:
    """Look at all partitions where more than the touched ones may deserve another decision."""
    old, new = before.counters, after.counters
    settings_changed = old.settings != new.settings
    fewer_global = new.global_equality_deletes < old.global_equality_deletes
    if settings_changed or fewer_global:
        _refresh(visit, after, settings_changed)
    if settings_changed:
        expiry = reconsidered(after.work.expiry)
        after = replace(after, work=replace(after.work, expiry=expiry))
    news = (
        settings_changed,
        old.waiting is not None and new.waiting is None,
        new.global_equality_deletes != old.global_equality_deletes,
    )
    return replace(after, work=after.work.looking(visit.now_ms)) if any(news) else after


def _refresh(visit: Visit, table: Table, settings_changed: bool) -> None:
    for partition in visit.all_partitions(table):
        work = freed(partition.work) if settings_changed else partition.work
        holds = _debt(visit, table, partition.counters.holds)
        work = aged(replace(work, floor=work.floor.at_most(holds)), holds, visit.now_ms)
        visit.keep(table, replace(partition, work=work))


def tasks_of(change: FilesChanged) -> tuple[str, ...]:
    """Tasks whose results are in the change's snapshot: several may share one (H6)."""
    return tuple(change.task_id.split(",")) if change.task_id else ()


def _with_finished(visit: Visit, table: Table, change: FilesChanged) -> Table:
    """End the orders whose commit is in the counters now."""
    ours, running = tasks_of(change), table.work.running
    if not ours and not running:
        return table
    for task in running:
        if task.task_id in ours or is_in_counters(table.counters, task):
            noting_success(visit, task)
            table = finish(visit, table, task)
    ended = {*ours} - {task.task_id for task in running}
    if ended:
        _lower_again(visit, table, change, ended)
    return table


def is_in_counters(counters: TableCounters, task: RunningTask) -> bool:
    """True if a commit that the committer told of is in the counters."""
    if task.committed_at_ms is None:
        return False
    if not task.committed_snapshot_ids:
        return True  # expired already: long ago
    read_later = task.committed_at_ms <= counters.absolute_observed_ms
    return read_later or any(counters.has(one) for one in task.committed_snapshot_ids)


def finish(visit: Visit, table: Table, task: RunningTask) -> Table:
    """A task is done: its partition rests on a new floor."""
    work = visit.partition(table, task.scope).work
    visit.step.outcomes.append("finished")
    # A crash may keep the partition without the table. The event then comes again, and what came
    # while the order was out, forgotten since, would be taken for what the rewrite left behind.
    if not has_succeeded(work, task):
        holds = _debt(visit, table, visit.partition(table, task.scope).counters.holds)
        work = succeeded(work, holds, task, visit.limits, visit.now_ms)
    return end_task(visit, table, task, work)


def _lower_again(visit: Visit, table: Table, change: FilesChanged, ended: set[str]) -> None:
    """A task may commit several snapshots (H6): the last one sets the floor."""
    for part in change.partitions:
        partition = visit.partition(table, part.scope)
        if partition.work.last_task_id in ended:
            floor = _debt(visit, table, partition.counters.holds)
            undersized = min(floor.undersized, partition.work.floor.undersized)  # `succeeded`
            floor = replace(floor, undersized=undersized)
            visit.keep(table, replace(partition, work=replace(partition.work, floor=floor)))
