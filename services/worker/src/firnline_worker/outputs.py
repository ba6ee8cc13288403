"""Names of outputs, which are on a write-ahead list (`firnline_iceberg.output_lists`) before the
stage starts.

The list is `<metadata dir>/firnline-<task>-<attempt>-<run>.json`, and beside it the row map, which
is on the list; each run of a task has its own names, so a redelivered task and its zombie never
write one file.
"""

from __future__ import annotations

from dataclasses import dataclass

from firnline_domain.commands import RewriteFiles
from firnline_iceberg import output_lists

from firnline_worker.planning import Group

_SPARE = 2  # files above twice the inputs' bytes: a codec may do worse than the inputs' one


@dataclass(frozen=True)
class Naming:
    """File names of one run of one attempt."""

    task_id: str
    attempt: int
    run: str

    def names(self, group: int, count: int) -> list[str]:
        """Names without directory, in order."""
        stem = output_lists.output_stem(self.task_id, self.attempt, self.run)
        return [f"{stem}-{group:05d}-{number:05d}.parquet" for number in range(count)]

    def files(self, metadata_location: str) -> TaskFiles:
        """Beside the table's metadata files, wherever these are."""
        stem = output_lists.stem(metadata_location, self.task_id, self.attempt, self.run)
        return TaskFiles(f"{stem}{output_lists.SUFFIX}", f"{stem}.rows.puffin")


@dataclass(frozen=True)
class TaskFiles:
    """What a run keeps beside its outputs until its commit."""

    list: str  # the write-ahead list of everything that it may write
    row_map: str


def naming(order: RewriteFiles, run: str) -> Naming:
    return Naming(order.task_id, order.attempt, run)


def count(group: Group, target_bytes: int) -> int:
    """How many names a group gets; the writer puts what is left into the last."""
    return 2 * sum(file.bytes for file in group) // max(1, target_bytes) + _SPARE
