"""Finds results that were committed already. Asked of the table before every attempt (redelivery
hazard, H7).

By task id in the history of its ref, and by its output paths in every retained snapshot of any ref:
a snapshot may be expired, or rolled back, and its files live on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from firnline_domain.base.numbers import whole_range
from firnline_domain.base.values import MAX_AMOUNT
from firnline_domain.commits.commit_plan import Repair
from firnline_domain.commits.conflicts import Conflict, output_files
from firnline_domain.identity import normal_path
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.commit.head_examination import entries_named
from firnline_iceberg.commit.hidden_history import hides_history
from firnline_iceberg.commit.pinned_head import manifests_since
from firnline_iceberg.commit.rewrite import claimed_task_ids, task_ids
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.table.snapshots import Snapshot, Summary

LOST_GROUPS = "firnline.lost-groups"  # snapshot summary: task:number:reason[,...]
REPAIRED = "firnline.rows-repaired"  # snapshot summary: task:rows[,...]


_COUNT = whole_range(0, MAX_AMOUNT)


@dataclass(frozen=True)
class FoundCommit:
    """The snapshots that contain a result; empty if they are known to have existed, and are
    expired. `lost`: groups that were left out, by number, with their reason; `rows_repaired` as
    committed."""

    snapshot_ids: tuple[int, ...]
    lost: Mapping[int, str] = field(default_factory=dict)
    rows_repaired: int | None = None  # None: nothing had to be


def summary_notes(
    lost: Mapping[str, Mapping[int, Conflict]], repairs: Mapping[str, Repair]
) -> dict[str, str]:
    """Return the properties for the summaries of a commit's snapshots, for a committer that finds
    them later. `lost`: by task id and number of the group; `repairs`: by task id."""
    groups = ((task, number, one.reason) for task in lost for number, one in lost[task].items())
    found = {}
    if text := ",".join(f"{task}:{number}:{reason}" for task, number, reason in groups):
        found[LOST_GROUPS] = text
    if repairs:
        found[REPAIRED] = ",".join(f"{task}:{one.rows}" for task, one in repairs.items())
    return found


@dataclass
class OutputSearch:
    """Snapshots and manifests that do not contain the outputs of some tasks. Manifests and their
    lists never change, so a next try reads only new ones."""

    tasks: frozenset[str] = frozenset()
    snapshots: set[int] = field(default_factory=set)
    manifests: set[str] = field(default_factory=set)

    def for_tasks(self, tasks: Collection[str]) -> None:
        """Start the search again if it was for other tasks: what was read for those does not cover
        these."""
        if not self.tasks.issuperset(tasks):
            self.tasks = frozenset(tasks)
            self.snapshots, self.manifests = set(), set()


def find_committed(
    table: LoadedTable, results: Sequence[RewriteFinished], search: OutputSearch | None = None
) -> dict[str, FoundCommit]:
    """Return those of `results` (one table and ref) that are in the table, by task id. Raises
    MetadataFileGone (expired while we read: load again), RetryLater."""
    if not results:
        return {}
    found = _find_by_task_id(table, results[0].ref, {result.task_id for result in results})
    others = [result for result in results if result.task_id not in found]
    return found | _find_by_outputs(table, others, search or OutputSearch())


def _find_by_task_id(table: LoadedTable, ref: str, wanted: set[str]) -> dict[str, FoundCommit]:
    """Find commits by the task ids that the deployment has signed: a task's id is a hash of public
    values, and any writer may put it into the summary of its commit."""
    ours: dict[str, list[Snapshot]] = {}
    for snapshot in table.ancestors(table.head_id(ref)):
        if wanted.isdisjoint(claimed_task_ids(snapshot.summary)):
            continue
        for task_id in wanted.intersection(task_ids(snapshot.summary, table.identity.uuid)):
            ours.setdefault(task_id, []).append(snapshot)
    return {task_id: _build_found_commit(task_id, snapshots) for task_id, snapshots in ours.items()}


def _build_found_commit(task_id: str, newest_first: Sequence[Snapshot]) -> FoundCommit:
    """Return a task's commit from its snapshots, with the notes in the newest one's summary."""
    ids = tuple(one.snapshot_id for one in reversed(newest_first))
    return found_commit(task_id, ids, newest_first[0].summary)


Noted = Summary | Mapping[str, str]


def found_commit(task_id: str, snapshot_ids: tuple[int, ...], notes: Noted | None) -> FoundCommit:
    """Return a commit with what the summaries of its snapshots contain about one task."""
    return FoundCommit(snapshot_ids, _lost_groups(notes, task_id), _repaired_rows(notes, task_id))


def _lost_groups(summary: Noted | None, task_id: str) -> dict[int, str]:
    entries = _note_entries(summary, LOST_GROUPS, task_id)
    found = {_COUNT.parse(one[0]): one[1] for one in entries if len(one) == 2}
    return {int(number): reason for number, reason in found.items() if number is not None}


def _repaired_rows(summary: Noted | None, task_id: str) -> int | None:
    found = next(iter(_note_entries(summary, REPAIRED, task_id)), None)
    rows = None if found is None else _COUNT.parse(":".join(found))
    return None if rows is None else int(rows)


def _note_entries(summary: Noted | None, name: str, task_id: str) -> Iterator[list[str]]:
    """Return the entries of a note about one task, cut at their colons. With signing off any writer
    may have written it."""
    text = (summary.get(name) if summary is not None else None) or ""
    entries = (entry.split(":") for entry in text.split(",") if entry)
    return (entry[1:] for entry in entries if entry[0] == task_id)


def _find_by_outputs(
    table: LoadedTable, results: Sequence[RewriteFinished], search: OutputSearch
) -> dict[str, FoundCommit]:
    """Find commits, by task id, in which an output of the results is live. `search` skips what was
    searched before, and notes what is searched now. If the table's history is hidden, a commit
    counts as without the groups whose outputs were not seen."""
    tasks = {
        normal_path(file.path): result.task_id
        for result in results
        for file in output_files(result)
    }
    if not tasks:
        return {}
    search.for_tasks(set(tasks.values()))
    paths, found, seen = frozenset(tasks), dict[str, set[int]](), set[str]()
    since = min(_began_after(table, result) for result in results)
    for snapshot_id, manifests in manifests_since(table, since):
        if snapshot_id in search.snapshots:
            continue
        new = [manifest for manifest in manifests if manifest.path not in search.manifests]
        for entry in entries_named(table, new, paths):
            makers = found.setdefault(tasks[entry.normal_path], set())
            seen.add(entry.normal_path)
            if entry.snapshot_id is not None and entry.is_live:
                makers.add(entry.snapshot_id)
        search.manifests.update(one.path for one in new)
        search.snapshots.add(snapshot_id)
    if found:  # of these the next look is to see them again
        search.tasks = frozenset()
    head = table.head_id(results[0].ref)
    if found and head is not None and hides_history(table, head):
        return {
            result.task_id: FoundCommit(
                tuple(sorted(found[result.task_id])), _not_seen(result, seen)
            )
            for result in results
            if result.task_id in found
        }
    return {
        task_id: FoundCommit(tuple(sorted(filter(table.retains, ids))))
        for task_id, ids in found.items()
    }


def _not_seen(result: RewriteFinished, seen: Collection[str]) -> dict[int, str]:
    """Return the groups of which the head has no output, while it has others'. The summary with the
    reason is hidden, so their outputs are in doubt."""
    return {
        number: ConflictReason.OUTPUTS_GONE
        for number, group in enumerate(result.groups)
        if group.outputs and not any(normal_path(file.path) in seen for file in group.outputs)
    }


def _began_after(table: LoadedTable, result: RewriteFinished) -> int:
    """Return the number of the snapshot that a result started from, as the table itself has it: an
    output can only be in a younger manifest. Return 0, so that everything is read, if the snapshot
    is expired or has another number than in the result."""
    start = result.start_snapshot_id
    known = table.snapshot(start).sequence_number or 0 if table.retains(start) else 0
    return known if known == result.start_sequence_number else 0
