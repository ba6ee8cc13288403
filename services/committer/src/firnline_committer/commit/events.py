"""Events of `maintenance-events` for a result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from firnline_domain.base.values import MAX_AMOUNT, bound_amount, replace
from firnline_domain.commits.conflicts import Conflict, output_files, replaced_files
from firnline_domain.records.events import (
    Classification,
    GroupProof,
    RewriteCommitted,
    RewriteConflicted,
    RewriteSkipped,
)
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.parts.slices import Slice
from firnline_domain.records.parts.summaries import number_in
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.commit.rewrite import task_ids
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.table.snapshots import Summary

from firnline_committer.commit.found_commits import FoundCommit
from firnline_committer.examine.examination import without_groups


def committed_event(
    result: RewriteFinished, table: LoadedTable, commit: FoundCommit, redelivered: bool, at_ms: int
) -> RewriteCommitted:
    """Return the event of a committed result. Files, bytes and rows are those of the groups that
    were not lost; deletes are counted by the snapshots."""
    summaries = list(_own_summaries(result, table, commit))
    whole, result = result, without_groups(result, commit.lost)
    return RewriteCommitted(
        task_id=result.task_id,
        table=result.table,
        ref=result.ref,
        scope=result.scope,
        snapshot_ids=commit.snapshot_ids,
        start_snapshot_id=result.start_snapshot_id,
        files_removed=sum(1 for _ in replaced_files(result)),
        files_added=sum(1 for _ in output_files(result)),
        equality_deletes_removed=_sum_property(summaries, "removed-equality-delete-files"),
        position_deletes_removed=_removed_position_deletes(summaries),
        bytes_before=bound_amount(sum(file.bytes for file in replaced_files(result))),
        bytes_after=_bytes_out(result),
        rows_in=bound_amount(sum(group.rows_in for group in result.groups)),
        rows_masked=bound_amount(sum(group.rows_masked for group in result.groups)),
        rows_out=bound_amount(sum(group.rows_out for group in result.groups)),
        mode=result.mode,
        redelivered=redelivered,
        committed_at_ms=at_ms,
        ordered_at_ms=result.ordered_at_ms,
        classification=_classify(result, table, commit),
        rows_repaired=commit.rows_repaired or 0,
        groups_lost=len(commit.lost),
        bytes_lost=bound_amount(_bytes_out(whole) - _bytes_out(result)),
        lost_reason=next(iter(commit.lost.values()), None),
        proofs=tuple(
            GroupProof(group.rows_in, group.rows_masked, group.rows_out, group.keys)
            for group in result.groups
        ),
        worked_ms=_worked_ms(result),
        slice=_next_slice(result, commit),
        bytes_read=whole.bytes_read,
        key_bytes=whole.key_bytes,
        delete_records=whole.delete_records,
        converted_bytes=bound_amount(
            sum(file.bytes for group in whole.groups if group.converts for file in group.inputs)
        ),
        dead_rows=() if commit.lost else result.dead_rows,
    )


# The worker's word for its own files is in doubt, or what it said of them is gone.
UNPROVEN = frozenset(
    {ConflictReason.PROOF_FAILED, ConflictReason.OUTPUTS_GONE, ConflictReason.INVALID_OUTPUTS}
)


def _next_slice(result: RewriteFinished, commit: FoundCommit) -> Slice | None:
    """Return where the next order begins; without marks the whole pass is read again."""
    if result.slice is None or UNPROVEN.isdisjoint(commit.lost.values()):
        return result.slice
    return replace(result.slice, marks=None)


def _classify(result: RewriteFinished, table: LoadedTable, commit: FoundCommit) -> Classification:
    if commit.rows_repaired is not None:
        return Classification.REPAIRED
    parents = {
        table.snapshot(one).parent_snapshot_id for one in commit.snapshot_ids if table.retains(one)
    }
    if result.start_snapshot_id in parents:
        return Classification.CLEAN
    return Classification.LATER_COMMITS


def _bytes_out(result: RewriteFinished) -> int:
    return bound_amount(sum(file.bytes for file in output_files(result)))


def handed_over_event(
    result: RewriteFinished, table: LoadedTable | None, at_ms: int
) -> RewriteCommitted:
    """Return the event of a result that Iceberg's own action has committed, once or twice. Its
    numbers are in its snapshots, as long as these are retained."""
    newest = result.committed_snapshot_id
    assert newest is not None
    history = table.ancestors(table.head_id(result.ref)) if table is not None else ()
    made = [one for one in history if _is_of_task(one.summary, result)][::-1]
    summaries = [one.summary for one in made]
    rows_in, rows_out = (
        _sum_property(summaries, "deleted-records"),
        _sum_property(summaries, "added-records"),
    )
    return RewriteCommitted(
        task_id=result.task_id,
        table=result.table,
        ref=result.ref,
        scope=result.scope,
        snapshot_ids=tuple(one.snapshot_id for one in made) or (newest,),
        start_snapshot_id=result.start_snapshot_id,
        files_removed=_sum_property(summaries, "deleted-data-files"),
        files_added=_sum_property(summaries, "added-data-files"),
        equality_deletes_removed=_sum_property(summaries, "removed-equality-delete-files"),
        position_deletes_removed=_removed_position_deletes(summaries),
        bytes_before=_sum_property(summaries, "removed-files-size"),
        bytes_after=_sum_property(summaries, "added-files-size"),
        rows_in=rows_in,
        rows_masked=bound_amount(rows_in - rows_out),
        rows_out=rows_out,
        mode=result.mode,
        redelivered=False,
        committed_at_ms=at_ms,
        reason=result.handover_reason,
        ordered_at_ms=result.ordered_at_ms,
        worked_ms=_worked_ms(result),
    )


def _is_of_task(summary: Summary | None, result: RewriteFinished) -> bool:
    return result.task_id in task_ids(summary, result.table.uuid)


def conflicted_event(
    result: RewriteFinished, conflict: Conflict, head: int | None, at_ms: int
) -> RewriteConflicted:
    """Return the event of a refused result: the planner may order its partition again."""
    return RewriteConflicted(
        task_id=result.task_id,
        table=result.table,
        ref=result.ref,
        scope=result.scope,
        reason=conflict.reason,
        detail=conflict.detail,
        start_snapshot_id=result.start_snapshot_id,
        head_snapshot_id=head,
        conflicted_at_ms=at_ms,
        files_written=sum(1 for _ in output_files(result)),
        bytes_written=_bytes_out(result),
    )


def skipped_event(result: RewriteFinished, at_ms: int) -> RewriteSkipped:
    """Return the event of a result with nothing to commit."""
    reason = result.handover_reason or "nothing_to_do"
    return RewriteSkipped(
        result.task_id,
        result.table,
        result.ref,
        result.scope,
        reason,
        at_ms,
        result.dead_rows,
    )


def _own_summaries(
    result: RewriteFinished, table: LoadedTable, commit: FoundCommit
) -> Iterator[Summary | None]:
    """Yield the summaries of the snapshots whose first task is this one, so that sums count each
    snapshot once."""
    for snapshot_id in commit.snapshot_ids:
        summary = table.snapshot(snapshot_id).summary if table.retains(snapshot_id) else None
        if task_ids(summary, result.table.uuid)[:1] == (result.task_id,):
            yield summary


def _removed_position_deletes(summaries: Iterable[Summary | None]) -> int:
    kept = list(summaries)
    return bound_amount(
        _sum_property(kept, "removed-position-delete-files") + _sum_property(kept, "removed-dvs")
    )


def _worked_ms(result: RewriteFinished) -> int | None:
    """Return the duration of the task; None if its start and end are not a valid duration."""
    worked_ms = result.finished_at_ms - result.started_at_ms
    return worked_ms if 0 <= worked_ms <= MAX_AMOUNT else None


def _sum_property(summaries: Iterable[Summary | None], name: str) -> int:
    said = (one.additional_properties for one in summaries if one is not None)
    return bound_amount(sum(number_in(one, name) for one in said))
