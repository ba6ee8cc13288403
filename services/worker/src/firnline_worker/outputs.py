"""Names of outputs, written down before the stage starts, so losers are removed without listing.

The list is `<metadata dir>/firnline-<task>-<attempt>-<run>.json`; each run of a task has its own
names, so a redelivered task and its zombie never write one file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from firnline_domain.commands import RewriteFiles
from pyiceberg.io import FileIO

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
        stem = f"firnline-{self.task_id[:16]}-{self.attempt}-{self.run}-{group:05d}"
        return [f"{stem}-{number:05d}.parquet" for number in range(count)]

    def list_path(self, metadata_location: str) -> str:
        """Beside the table's metadata files, wherever these are."""
        folder = metadata_location.rsplit("/", 1)[0]
        return f"{folder}/firnline-{self.task_id}-{self.attempt}-{self.run}.json"


def naming(order: RewriteFiles, run: str) -> Naming:
    return Naming(order.task_id, order.attempt, run)


def count(group: Group, target_bytes: int) -> int:
    """How many names a group gets; the writer puts what is left into the last."""
    return 2 * sum(file.bytes for file in group) // max(1, target_bytes) + _SPARE


def write_list(
    io: FileIO, path: str, order: RewriteFiles, worker: str, at_ms: int, outputs: Iterable[str]
) -> None:
    """Durable before the first output; raises what the FileIO raises."""
    body = {
        "task_id": order.task_id,
        "attempt": order.attempt,
        "table_uuid": order.table.uuid,
        "worker": worker,
        "written_at_ms": at_ms,
        "outputs": list(outputs),
    }
    with io.new_output(path).create(overwrite=False) as sink:
        sink.write(json.dumps(body).encode())


def remove(io: FileIO, paths: Sequence[str]) -> int:
    """Delete those that exist; how many. Only for outputs that no result has ever named."""
    removed = 0
    for path in paths:
        try:
            io.delete(path)
            removed += 1
        except FileNotFoundError:
            continue
    return removed
