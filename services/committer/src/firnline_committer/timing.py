"""Waits for the moment at which a commit disturbs a table's writers least (`moments`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from firnline_iceberg.tables import LoadedTable, Tables
from pyiceberg.table.snapshots import Snapshot

from firnline_committer.moments import beat_ms, names_rows

LOOK_S = 0.02  # between two looks at the table
EARLY_S = 0.1  # before the next such commit is due, the table is looked at for the first time
LATE = 2  # beats after which the next commit is not waited for any longer
SEEN_SNAPSHOTS = 64  # the newest, among which those of such a writer are looked for


@dataclass(frozen=True)
class Timing:
    """Asks the table, and sleeps."""

    tables: Tables
    now_ms: Callable[[], int]
    sleep: Callable[[float], None]

    def beat_ms(self, table: LoadedTable, ref: str) -> int | None:
        """How often rows of files are deleted now; None: there is nothing to be waited for."""
        times = [one.timestamp_ms for one in _of_deleting_writers(table, ref)]
        return beat_ms(times, self.now_ms())

    def wait(self, table: LoadedTable, ref: str, beat: int) -> None:
        """Return when such a writer has committed once more, or is late. Raises TableGone,
        RetryLater."""
        last = next(_of_deleting_writers(table, ref), None)
        due_s = 0.0 if last is None else (last.timestamp_ms + beat - self.now_ms()) / 1000
        self.sleep(min(max(due_s - EARLY_S, 0.0), beat / 1000))  # whatever the writer's clock says
        for _ in range(int(LATE * beat / 1000 / LOOK_S)):
            newest = next(_of_deleting_writers(self.tables.load(table.identity), ref), None)
            if newest is not None and not table.retains(newest.snapshot_id):
                return
            self.sleep(LOOK_S)


def _of_deleting_writers(table: LoadedTable, ref: str) -> Iterator[Snapshot]:
    """Snapshots in which rows of files were deleted that the writer had read, newest first."""
    for snapshot in islice(table.ancestors(table.head_id(ref)), SEEN_SNAPSHOTS):
        summary = snapshot.summary
        if summary is not None and names_rows(summary, summary.operation.value):
            yield snapshot
