"""Commits of this process as they were written. If the catalog shows the current snapshot only,
nothing else shows a commit that has others on top of it: its snapshots, and the groups it left
out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from firnline_domain.commits.commit_plan import PlannedSnapshot
from firnline_iceberg.commit.hidden_history import hides_history
from firnline_iceberg.commit.single_send import WrittenMetadata
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.table.snapshots import Snapshot

from firnline_committer.commit.found_commits import FoundCommit, found_commit


@dataclass(frozen=True)
class Request:
    """A commit request that was sent, or may have been."""

    written: WrittenMetadata
    commits: Mapping[str, FoundCommit]  # by task id, what it comes to where it is applied

    def is_source_of(self, task_id: str, found: FoundCommit) -> bool:
        """Return whether the commit that was found in the table is this request's."""
        mine = self.commits.get(task_id)
        return mine is not None and set(found.snapshot_ids) <= set(mine.snapshot_ids)

    @property
    def snapshots(self) -> Iterator[Snapshot]:
        """Yield the snapshots with their manifest lists, and no more."""
        for number, listed in zip(self.written.snapshot_ids, self.written.lists, strict=True):
            known = {"snapshot-id": number, "timestamp-ms": 0, "manifest-list": listed}
            yield Snapshot.model_validate(known)


def commits_of(
    plan: Sequence[PlannedSnapshot], written: WrittenMetadata, notes: Mapping[str, str]
) -> dict[str, FoundCommit]:
    """Return the plan's commits by task id. `notes`: in the summaries of the plan's snapshots."""
    ids: dict[str, list[int]] = {}
    for snapshot, number in zip(plan, written.snapshot_ids, strict=True):
        for task_id in snapshot.task_ids:
            ids.setdefault(task_id, []).append(number)
    return {task_id: found_commit(task_id, tuple(made), notes) for task_id, made in ids.items()}


def as_requested(
    table: LoadedTable, ref: str, requests: Sequence[Request], commits: Mapping[str, FoundCommit]
) -> dict[str, FoundCommit]:
    """Return the found commits, by task id, completed with what a table with hidden history does
    not show of them. `requests`: the newest last."""
    if not commits or not requests or not _hides_its_history(table, ref):
        return dict(commits)
    newest_first = requests[::-1]
    return {
        task: next(
            (one.commits[task] for one in newest_first if one.is_source_of(task, found)), found
        )
        for task, found in commits.items()
    }


def with_requested(table: LoadedTable, ref: str, requests: Sequence[Request]) -> LoadedTable:
    """Return the table with the snapshots of these requests if its history is hidden."""
    if not requests or not _hides_its_history(table, ref):
        return table
    return table.with_hidden_snapshots(one for request in requests for one in request.snapshots)


def _hides_its_history(table: LoadedTable, ref: str) -> bool:
    """Return True if the catalog hides parents of the ref's head."""
    head = table.head_id(ref)
    return head is not None and hides_history(table, head)
