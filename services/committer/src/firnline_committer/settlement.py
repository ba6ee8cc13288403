"""Was a result committed already? Asked of the table before every try (H7).

By task id in the history of its ref, and by its output paths in every retained snapshot of any
ref: a snapshot may be expired, or rolled back, and its files live on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firnline_domain.conflicts import outputs
from firnline_domain.identity import normal_path
from firnline_domain.results import RewriteFinished
from firnline_iceberg.commits import TASK_ID
from firnline_iceberg.heads import paths_since
from firnline_iceberg.tables import LoadedTable
from pyiceberg.table.snapshots import Summary


@dataclass(frozen=True)
class Settled:
    """The snapshots that hold a result; empty where they are known to have been, and are gone."""

    snapshot_ids: tuple[int, ...]


def settled(table: LoadedTable, results: Sequence[RewriteFinished]) -> dict[str, Settled]:
    """Those of `results` (one table and ref) that are in the table, by task id.

    Raises MetadataFileGone (expired while we read: load again), RetryLater.
    """
    found = {
        result.task_id: Settled(ids)
        for result in results
        if (ids := _by_task_id(table, result.ref, result.task_id))
    }
    return found | _by_outputs(table, [one for one in results if one.task_id not in found])


def _by_task_id(table: LoadedTable, ref: str, task_id: str) -> tuple[int, ...]:
    history = table.ancestors(table.head_id(ref))
    ids = [snapshot.snapshot_id for snapshot in history if task_id in task_ids(snapshot.summary)]
    return tuple(reversed(ids))


def _by_outputs(table: LoadedTable, results: Sequence[RewriteFinished]) -> dict[str, Settled]:
    tasks = {
        normal_path(file.path): result.task_id for result in results for file in outputs(result)
    }
    if not tasks:
        return {}
    found: dict[str, set[int]] = {}
    for entry in paths_since(table, min(result.start_sequence_number for result in results)):
        if (task_id := tasks.get(entry.normal)) is not None:
            makers = found.setdefault(task_id, set())
            if entry.snapshot_id is not None and entry.live and table.retains(entry.snapshot_id):
                makers.add(entry.snapshot_id)
    return {task_id: Settled(tuple(sorted(ids))) for task_id, ids in found.items()}


def task_ids(summary: Summary | None) -> tuple[str, ...]:
    """Firnline's tasks that a snapshot serves."""
    text = summary.get(TASK_ID) if summary is not None else None
    return tuple(text.split(",")) if text else ()
