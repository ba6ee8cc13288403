"""FilesChanged: into the counters, then a decision about what changed."""

from __future__ import annotations

from firnline_adapters.observability.traces import trace_of
from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.fold.folding import FoldedCounters, FoldOutcome, fold_change
from firnline_domain.counters.fold.missing_snapshots import ResyncReason, next_held, wait_for_resync
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.debt import NO_DEBT, debt_added_by
from firnline_domain.counters.state.work import Partition, Table, TableWork
from firnline_domain.errors import PoisonousRecord
from firnline_domain.identity import MAIN, Scope, TableName
from firnline_domain.policy.partition.outcomes import (
    after_change,
    with_head_start,
)
from firnline_domain.policy.table_action.snapshot_retention import after_expired
from firnline_domain.policy.triggers.full_rewrites import with_full_interval
from firnline_domain.policy.triggers.hot_partitions import after_writer_change
from firnline_domain.records.events import ChangeKind, FilesChanged
from firnline_domain.records.parts.sharing import SharingRefusal

from firnline_planner.publish.advice import with_commit
from firnline_planner.reconcile.table import reconcile, refresh_debts, with_retries
from firnline_planner.reconcile.tasks import finish_task, is_in_counters
from firnline_planner.reconcile.worker_memory import note_success
from firnline_planner.state.table_context import TableContext, spread_name

ASK_WHICH_MS = HOUR_MS  # between two questions whether a table is there: each reads all of it
WITHOUT_EFFECT = (FoldOutcome.DUPLICATE, FoldOutcome.STALE)


def on_files_changed(change: FilesChanged, context: TableContext) -> None:
    """Fold a change, and all that was held back for it; then decide about what it touched.

    Only `main` is maintained: counters of another branch would cost a read of the whole table
    and serve nothing. Its snapshots are the table's, though.

    Raises PoisonousRecord for a change of another table that has the same uuid.
    """
    state = context.state
    table = state.table(change.table.key, MAIN)
    if table is not None and is_of_another(table, change.table, change.renamed_from):
        _tell_apart(context, table, change)
    elif change.ref == MAIN:
        if table is None:
            pause = state.pause_in_force(change.table.key)
            table = Table(TableCounters(change.table, MAIN), pause=pause)
        elif table.counters.table != change.table:  # renamed, or dropped and made anew
            table = replace(table, counters=replace(table.counters, table=change.table))
        _fold_all(context, table, change)
    elif table is not None:
        external = table.counters.has_external_files or change.external_files > 0
        counters = replace(table.counters, snapshot_count=None, has_external_files=external)
        if counters != table.counters:
            state.put_table(replace(table, counters=counters))


def is_of_another(table: Table, name: TableName, renamed_from: tuple[str, ...] = ()) -> bool:
    """Return whether a fact is of another table with the same uuid, as `register_table` creates it.
    It is one with another name, unless the catalog has renamed this table to it, or this table was
    dropped."""
    known = table.counters.table
    return name.path != known.path and renamed_from != known.path and not table.counters.removed


def _tell_apart(context: TableContext, table: Table, change: FilesChanged) -> None:
    """Ignore a change of a second table with the uuid of a maintained one, or raise
    PoisonousRecord. A client that bypasses the gateway may have renamed the first, so a resync is
    requested now and then."""
    counters, now_ms = table.counters, context.now_ms
    asked_ms = counters.absolute_observed_ms
    is_due = not now_ms - ASK_WHICH_MS < asked_ms <= now_ms
    if change.kind is ChangeKind.REMOVED or (counters.waiting is None and is_due):
        if change.kind is not ChangeKind.REMOVED:
            waiting = wait_for_resync(counters, ResyncReason.OTHER_NAME, now_ms)
            reconcile(context.for_table(table), replace(table, counters=waiting), ())
        return
    text = (
        f"{change.table.full_name} has the uuid of {counters.table.full_name}, which is "
        "maintained: drop one of them without its files, or copy it to a new table"
    )
    raise PoisonousRecord(SharingRefusal.SHARED_IDENTITY, text)


def _fold_all(context: TableContext, table: Table, change: FilesChanged) -> None:
    touched: set[Scope] = set()
    following: FilesChanged | None = change
    before, context = table, context.for_table(table)
    while following is not None:
        settings = table.counters.settings
        table, verdict = _fold_one(context, table, following)
        if table.counters.settings != settings:
            context = context.for_table(table)
        context.effects.verdicts.append(verdict)
        touched.update(part.scope for part in following.partitions)
        following = next_held(table.counters) if verdict is not FoldOutcome.HELD else None
    if table != before:
        reconcile(context, table, touched)


def _fold_one(
    context: TableContext, table: Table, change: FilesChanged
) -> tuple[Table, FoldOutcome]:
    """Fold one change into the table and its partitions. Return the table, and what became of the
    change."""
    settings = context.policies.with_policies(change.table, change.settings)
    if settings is not change.settings:
        change = replace(change, settings=dict(settings))
    entries = {part.scope: context.partition(table, part.scope) for part in change.partitions}
    counters = {scope: entry.counters for scope, entry in entries.items()}
    folded = fold_change(table.counters, counters, change, context.now_ms)
    if folded.verdict in WITHOUT_EFFECT:
        return replace(table, counters=folded.table), folded.verdict
    after = replace(table, counters=folded.table)
    if folded.verdict is FoldOutcome.REMOVED:
        return _drop_partitions(context, after), folded.verdict
    _keep_partitions(context, after, entries, folded, change)
    if change.expired_snapshots and folded.verdict in (FoldOutcome.FOLDED, FoldOutcome.NOTED):
        after = after_expired(after, change.expired_snapshots)
    after = _with_reconcile_of_all(context, table, after)
    if folded.verdict in (FoldOutcome.FOLDED, FoldOutcome.PART):
        after = with_commit(after, change, context.now_ms)
    if folded.verdict is FoldOutcome.FOLDED:
        after = _with_finished(context, _with_trace(after, trace_of(change)), change)
    return after, folded.verdict


def _with_trace(table: Table, trace: str) -> Table:
    """Return the table with the trace id of the request that made its head."""
    trace_id = bytes.fromhex(trace)
    if trace_id == table.counters.trace:
        return table
    return replace(table, counters=replace(table.counters, trace=trace_id))


def _drop_partitions(context: TableContext, table: Table) -> Table:
    table_key, ref = table.counters.table.key, table.counters.ref
    for partition in context.state.partitions(table_key, ref):
        context.state.drop_partition(table_key, ref, partition.counters.scope)
    return replace(table, work=TableWork(advice=table.work.advice))  # to be withdrawn


def _keep_partitions(
    context: TableContext,
    table: Table,
    entries: dict[Scope, Partition],
    folded: FoldedCounters,
    change: FilesChanged,
) -> None:
    """Keep the changed partitions with their new counters, and with their debts as they are after
    the change."""
    by_us = any(map(table.work.find_task, tasks_of(change)))
    parts = {part.scope: part for part in change.partitions}
    for counters in folded.partitions:
        entry, holds = entries[counters.scope], context.debt(table, counters.holds)
        part = parts[counters.scope]
        came = NO_DEBT if by_us else debt_added_by(part.added)
        if change.kind is ChangeKind.ABSOLUTE:
            came = debt_added_by(counters.holds).above(debt_added_by(entry.counters.holds))
        work = after_writer_change(entry.work, change, part, context.now_ms)
        name = spread_name(table, counters.scope)
        if change.kind is ChangeKind.ABSOLUTE and entry.counters.epoch == 0:
            work = with_head_start(work, name)
        work = with_full_interval(work, context.settings, name, context.now_ms)
        work = after_change(work, holds, came, context.now_ms, change.timestamp_ms)
        context.put_partition(table, Partition(counters, work))


def _with_reconcile_of_all(context: TableContext, before: Table, after: Table) -> Table:
    """Return the table after a change, due for a decision about all partitions if more than the
    touched ones may deserve one."""
    old, new = before.counters, after.counters
    settings_changed = old.settings != new.settings
    fewer_global = new.global_equality_deletes < old.global_equality_deletes
    if settings_changed or fewer_global:
        refresh_debts(context, after, settings_changed)
    if settings_changed:
        after = with_retries(after)
    news = (
        settings_changed,
        old.format_version != new.format_version,
        old.waiting is not None and new.waiting is None,
        new.global_equality_deletes != old.global_equality_deletes,
    )
    return replace(after, work=after.work.reconciled_by(context.now_ms)) if any(news) else after


def tasks_of(change: FilesChanged) -> tuple[str, ...]:
    """Return the tasks whose results are in the change's snapshot: several may share one
    (shared-number hazard, H6)."""
    return tuple(change.task_id.split(",")) if change.task_id else ()


def _with_finished(context: TableContext, table: Table, change: FilesChanged) -> Table:
    """End the orders whose commit is in the counters now."""
    ours, running = tasks_of(change), table.work.running
    if not ours and not running:
        return table
    for task in running:
        if task.task_id in ours or is_in_counters(table.counters, task):
            note_success(context, task)
            table = finish_task(context, table, task)
    ended = {*ours} - {task.task_id for task in running}
    if ended:
        _lower_floor(context, table, change, ended)
    return table


def _lower_floor(
    context: TableContext, table: Table, change: FilesChanged, ended: set[str]
) -> None:
    """Set the floor of the partitions of ended tasks. A task may commit several snapshots
    (shared-number hazard, H6): the last one sets the floor."""
    for part in change.partitions:
        partition = context.partition(table, part.scope)
        if partition.work.last_task_id in ended:
            floor = context.debt(table, partition.counters.holds)
            undersized = min(floor.undersized, partition.work.floor.undersized)  # `succeeded`
            floor = replace(floor, undersized=undersized)
            context.put_partition(
                table, replace(partition, work=replace(partition.work, floor=floor))
            )
