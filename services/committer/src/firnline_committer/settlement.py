"""Was a result committed already? Asked of the table before every try (H7).

By task id in the history of its ref, and by its output paths in every retained snapshot of any
ref: a snapshot may be expired, or rolled back, and its files live on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from firnline_domain.conflicts import Conflict, outputs
from firnline_domain.identity import normal_path
from firnline_domain.results import RewriteFinished
from firnline_domain.swaps import Repair
from firnline_iceberg.commits import task_ids
from firnline_iceberg.heads import paths_since
from firnline_iceberg.tables import LoadedTable
from pyiceberg.table.snapshots import Snapshot, Summary

LOST_GROUPS = "firnline.lost-groups"  # snapshot summary: task:number:reason[,...]
REPAIRED = "firnline.rows-repaired"  # snapshot summary: task:rows[,...]


@dataclass(frozen=True)
class Settled:
    """The snapshots that hold a result; empty where they are known to have been, and are gone.

    `lost`: groups that were left out, by number, with their reason; `rows_repaired` as committed.
    """

    snapshot_ids: tuple[int, ...]
    lost: Mapping[int, str] = field(default_factory=dict)
    rows_repaired: int | None = None  # None: nothing had to be


def notes(
    lost: Mapping[str, Mapping[int, Conflict]], repairs: Mapping[str, Repair]
) -> dict[str, str]:
    """What the summaries of a commit's snapshots tell a committer that finds them later. `lost`:
    by task id and number of the group; `repairs`: by task id."""
    groups = ((task, number, one.reason) for task in lost for number, one in lost[task].items())
    found = {}
    if text := ",".join(f"{task}:{number}:{reason}" for task, number, reason in groups):
        found[LOST_GROUPS] = text
    if repairs:
        found[REPAIRED] = ",".join(f"{task}:{one.rows}" for task, one in repairs.items())
    return found


def settled(table: LoadedTable, results: Sequence[RewriteFinished]) -> dict[str, Settled]:
    """Those of `results` (one table and ref) that are in the table, by task id.

    Raises MetadataFileGone (expired while we read: load again), RetryLater.
    """
    if not results:
        return {}
    found = _by_task_id(table, results[0].ref, {result.task_id for result in results})
    return found | _by_outputs(table, [one for one in results if one.task_id not in found])


def _by_task_id(table: LoadedTable, ref: str, wanted: Collection[str]) -> dict[str, Settled]:
    ours: dict[str, list[Snapshot]] = {}
    for snapshot in table.ancestors(table.head_id(ref)):
        for task_id in task_ids(snapshot.summary):
            if task_id in wanted:
                ours.setdefault(task_id, []).append(snapshot)
    return {task_id: _as_noted(task_id, snapshots) for task_id, snapshots in ours.items()}


def _as_noted(task_id: str, newest_first: Sequence[Snapshot]) -> Settled:
    ids = tuple(one.snapshot_id for one in reversed(newest_first))
    summary = newest_first[0].summary
    return Settled(ids, _lost(summary, task_id), _repaired(summary, task_id))


def _lost(summary: Summary | None, task_id: str) -> dict[int, str]:
    text = (summary.get(LOST_GROUPS) if summary is not None else None) or ""
    entries = (entry.split(":") for entry in text.split(",") if entry)
    return {int(number): reason for task, number, reason in entries if task == task_id}


def _repaired(summary: Summary | None, task_id: str) -> int | None:
    text = (summary.get(REPAIRED) if summary is not None else None) or ""
    entries = (entry.split(":") for entry in text.split(",") if entry)
    return next((int(rows) for task, rows in entries if task == task_id), None)


def _by_outputs(table: LoadedTable, results: Sequence[RewriteFinished]) -> dict[str, Settled]:
    tasks = {
        normal_path(file.path): result.task_id for result in results for file in outputs(result)
    }
    if not tasks:
        return {}
    found: dict[str, set[int]] = {}
    for entry in paths_since(table, min(_began_after(table, result) for result in results)):
        if (task_id := tasks.get(entry.normal)) is not None:
            makers = found.setdefault(task_id, set())
            if entry.snapshot_id is not None and entry.live and table.retains(entry.snapshot_id):
                makers.add(entry.snapshot_id)
    return {task_id: Settled(tuple(sorted(ids))) for task_id, ids in found.items()}


def _began_after(table: LoadedTable, result: RewriteFinished) -> int:
    """The number of the snapshot that a result started from, as the table itself has it: no output
    can be in a manifest that is not younger. Where it is expired, or has another number than the
    result says, everything is read."""
    start = result.start_snapshot_id
    known = table.snapshot(start).sequence_number or 0 if table.retains(start) else 0
    return known if known == result.start_sequence_number else 0
