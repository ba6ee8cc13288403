"""Advice for a table's owner: judged whenever its state is published, sent when it changes."""

from __future__ import annotations

from firnline_domain.advice.finding import Known
from firnline_domain.advice.rules import EASE, advise
from firnline_domain.advice.sorting import RULE, SCANS, most_filtered
from firnline_domain.base.times import earliest_of
from firnline_domain.base.values import replace
from firnline_domain.counters.activity.other_maintainers import notice_rewrite
from firnline_domain.counters.activity.writers import after_commit, after_result
from firnline_domain.counters.state.work import RunningTask, Table, TableWork
from firnline_domain.policy.cost_model import FIRNLINE, Work
from firnline_domain.records.events import (
    FilesChanged,
    RewriteCommitted,
    RewriteConflicted,
    RewriteSkipped,
)
from firnline_domain.records.results import DUPLICATE_FILES, Mode, TaskFailed
from firnline_domain.records.states import TableAdvice

from firnline_planner.state.effects import ADVICE, Effects, Output

MAX_SAID = 500  # characters; a path may be longer than anybody reads


def update_advice(known: Known, effects: Effects) -> Table:
    """Return the table with the recommendations in force, and send those that changed."""
    after = advise(known)
    effects.add_outputs(Output(ADVICE, _advice_key(one), one) for one in after.changed)
    return replace(known.table, work=replace(known.table.work, advice=after.given))


def _advice_key(advice: TableAdvice) -> str:
    return f"{advice.table.key}/{advice.ref}/{advice.rule}"


def stale_ms(table: Table, now_ms: int) -> int | None:
    """Return when recommendations from an hour of writes or a day of reads expire if nothing more
    happens."""
    work = table.work
    return (
        earliest_of(work.activity.stale_ms(now_ms), _faded_ms(work, now_ms))
        if work.advice
        else None
    )


def _faded_ms(work: TableWork, now_ms: int) -> int | None:
    if RULE not in work.advice or work.filters is None:
        return None
    faded_ms = work.filters.fades_ms(SCANS * EASE)
    return faded_ms if faded_ms > now_ms else None


def column_sought(work: TableWork, now_ms: int) -> str | None:
    """Return the column that a table's readers would gain from an order by, if its files are worth
    it; else None."""
    given = work.advice.get(RULE)
    if work.filters is None:
        return None
    ease, mark = (EASE, given.mark) if given else (1.0, 0)
    use = most_filtered(work.filters.decay_to(now_ms), ease, mark)
    return use.column if use else None


def with_commit(table: Table, change: FilesChanged, now_ms: int) -> Table:
    """Return the table with one more commit counted: in the writers' hour, or of another
    maintainer."""
    work = table.work
    activity = after_commit(work.activity, change, now_ms)
    other = notice_rewrite(work.other, change, now_ms)
    return replace(table, work=replace(work, activity=activity, other=other))


def with_result(table: Table, event: RewriteCommitted | RewriteConflicted, now_ms: int) -> Table:
    """Return the table with one more result of Firnline's counted in the writers' hour."""
    task = table.work.find_task(event.task_id)
    foretold = _foretold_ms(task, event) if task and isinstance(event, RewriteCommitted) else None
    activity = after_result(table.work.activity, event, now_ms, foretold)
    return replace(table, work=replace(table.work, activity=activity))


def _foretold_ms(task: RunningTask, event: RewriteCommitted) -> int | None:
    """Return the estimated time for what the worker has read and written, at the prices of the
    task: these amounts were only estimated before. None for Iceberg's own action, which has no
    price."""
    if event.mode != Mode.NATIVE or event.redelivered:
        return None
    read = event.bytes_read + event.key_bytes
    work = Work(read, event.bytes_after, event.delete_records)
    return int(FIRNLINE.wall_s(work) * task.numbers.get("price_factor", 1.0) * 1000)


def with_duplicate(
    table: Table, event: RewriteCommitted | RewriteConflicted | RewriteSkipped | TaskFailed
) -> Table:
    """Return the table with the duplicate file that a worker or the committer reports. A commit, or
    a task that finds nothing to do, has checked and found none."""
    if isinstance(event, TaskFailed | RewriteConflicted):
        if event.reason != DUPLICATE_FILES:
            return table
        said = event.message if isinstance(event, TaskFailed) else event.detail
    else:
        said = ""
    if said[:MAX_SAID] == table.work.duplicate:
        return table
    return replace(table, work=replace(table.work, duplicate=said[:MAX_SAID]))
