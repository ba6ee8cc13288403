"""Names of outputs, which are on a write-ahead list (`firnline_iceberg.outputs.write_ahead_list`)
before the stage starts. The list lies beside the table's metadata files, and beside it the row map
and the marks, which are on the list.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from firnline_domain.records.orders import RewriteFiles
from firnline_iceberg.outputs.names import TaskRun
from firnline_iceberg.storage.paths import folder_of

from firnline_worker.plan.planning import MAX_OUTPUTS, Group

MAX_NAMES = 2 * MAX_OUTPUTS + 2  # of one group, whatever somebody asks for
_SPARE = 2  # files above twice the inputs' bytes: a codec may do worse than the inputs' one


@dataclass(frozen=True)
class TaskFiles:
    """The files of a run next to its outputs, kept until its commit."""

    list: str  # the write-ahead list of everything that it may write
    row_map: str
    marks: str  # of a conversion that is done in slices


def files_of(run: TaskRun, metadata_location: str) -> TaskFiles:
    """Return the paths next to the table's metadata files, wherever these are."""
    folder = folder_of(metadata_location)
    return TaskFiles(*(f"{folder}/{name}" for name in run.names_beside))


def new_run(order: RewriteFiles) -> TaskRun:
    """Return a new run. Raises ValueError if the order's id cannot be part of a name."""
    return TaskRun(order.table.key, order.task_id, order.attempt, uuid.uuid4().hex[:8])


def name_count(group: Group, target_bytes: int) -> int:
    """Return how many names a group gets; the writer puts what is left into the last."""
    wanted = 2 * sum(file.bytes for file in group) // max(1, target_bytes) + _SPARE
    return min(wanted, MAX_NAMES)
