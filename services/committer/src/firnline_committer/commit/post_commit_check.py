"""The post-commit check of iceberg-rules 1.4 (a): what did a commit really remove?

Asked of every commit of ours that is found in a table, whether its answer came, was lost, or a
committer that died had sent it: from the results and the table alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from firnline_domain.commits.commit_plan import PlannedSnapshot, plan_single
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.commit.pinned_head import deletes_removed_by
from firnline_iceberg.table.loaded_table import LoadedTable

from firnline_committer.commit.found_commits import FoundCommit
from firnline_committer.examine.examination import without_groups

REMOVED = "removed-equality-delete-files"  # of a snapshot's summary


def needed_but_removed(
    table: LoadedTable, snapshot_ids: Iterable[int], rewrites: Sequence[PlannedSnapshot]
) -> str | None:
    """Return the path of an equality delete that one of the snapshots removed although it applies
    to outputs or to converted files, as its data sequence number is above theirs. Raises
    SnapshotGone, MetadataFileGone, RetryLater."""
    return next(
        (
            delete.path
            for snapshot_id in snapshot_ids
            if _removes_any(table, snapshot_id)
            for delete in deletes_removed_by(table, snapshot_id)
            if any(rewrite.still_needs(delete) for rewrite in rewrites)
        ),
        None,
    )


def _removes_any(table: LoadedTable, snapshot_id: int) -> bool:
    """Return whether a snapshot removed equality deletes: without this check a redelivered batch
    would read the manifests of each of its commits. If the value is not a number, the manifests are
    read."""
    summary = table.snapshot(snapshot_id).summary
    return summary is None or summary.get(REMOVED) not in (None, "", "0")


def lost_deletes(
    table: LoadedTable,
    results: Mapping[str, RewriteFinished],
    commits: Mapping[str, FoundCommit],
    sent: Mapping[str, tuple[PlannedSnapshot, ...]],
) -> dict[str, str]:
    """Return, by task id, the delete file that its commit should have left. `commits`: those of the
    `results` that are in the table; `sent`: the plans that are known. All by task id. Raises as
    `needed_but_removed`."""
    known = {
        task: sent.get(task) or _assume_plan(results[task], one) for task, one in commits.items()
    }
    lost = {}
    for task, one in commits.items():
        mine = set(one.snapshot_ids)
        beside = [other for other in commits if mine & {*commits[other].snapshot_ids}]
        kept = [number for number in one.snapshot_ids if table.retains(number)]
        rewrites = [rewrite for other in beside for rewrite in known[other]]
        if delete := needed_but_removed(table, kept, rewrites):
            lost[task] = delete
    return lost


def _assume_plan(result: RewriteFinished, commit: FoundCommit) -> tuple[PlannedSnapshot, ...]:
    """Return the plan that another committer has sent, derived from the result."""
    return plan_single(without_groups(result, commit.lost))


def is_in_history(table: LoadedTable, ref: str, commits: Iterable[FoundCommit]) -> bool:
    """Return False if all of their snapshots were reverted, or are expired."""
    history = {ancestor.snapshot_id for ancestor in table.ancestors(table.head_id(ref))}
    return any(number in history for commit in commits for number in commit.snapshot_ids)


@dataclass(frozen=True)
class Reversal:
    """A revert of a ref from `head` to `parent`, and of these tasks with it."""

    head: int
    parent: int
    tasks: frozenset[str]


def plan_reversal(
    table: LoadedTable, ref: str, commits: Mapping[str, FoundCommit], bad: Collection[str]
) -> Reversal | None:
    """Return the revert that removes all snapshots of the tasks `bad`. None: they are not in the
    history of the ref any more, or another commit is on top of them, or the snapshot before is
    expired."""
    history = [ancestor.snapshot_id for ancestor in table.ancestors(table.head_id(ref))]
    tasks, above = set(bad), list[int]()
    while True:
        mine = {number for task in tasks for number in commits[task].snapshot_ids}
        depth = max((place for place, one in enumerate(history) if one in mine), default=-1)
        above = history[: depth + 1]
        along = {task for task, one in commits.items() if {*above} & {*one.snapshot_ids}}
        if along <= tasks:
            break
        tasks |= along
    if not above or not {*above} <= mine:
        return None
    parent = table.snapshot(above[-1]).parent_snapshot_id
    if parent is None or not table.retains(parent):
        return None
    return Reversal(above[0], parent, frozenset(tasks))
