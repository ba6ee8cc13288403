"""How far apart in time files may be that are merged with each other (seed 000: time-span limit).

Rows of a stream lie in the order of time. A file of rows of minutes is left out by its bounds
where a reader asks for another hour; merged across days it is read by everybody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from firnline_iceberg.files import DataFileEntry
from firnline_iceberg.tables import LoadedTable

from firnline_worker.table_settings import milliseconds

MAX_SPAN = "firnline.rewrite.max-span-ms"  # table property; 0 = any


def by_age(file: DataFileEntry) -> tuple[int, str]:
    """Sorts data files, the oldest first."""
    return file.sequence_number, file.normal


@dataclass(frozen=True)
class Spans:
    """`most_ms` from the oldest to the newest file of a run; `times`: of snapshots, in ms, by
    their sequence numbers, as far as they are retained."""

    most_ms: int = 0
    times: Mapping[int, int] = field(default_factory=dict)

    def runs(self, files: Sequence[DataFileEntry]) -> Iterator[list[DataFileEntry]]:
        """Neighbours by age, as far as they may be in one file. What is older than all retained
        snapshots is as old as the oldest of them."""
        oldest_ms = min(self.times.values(), default=0)
        run, since_ms = list[DataFileEntry](), oldest_ms
        for file in sorted(files, key=by_age):
            at_ms = self.times.get(file.sequence_number, oldest_ms)
            if run and 0 < self.most_ms < at_ms - since_ms:
                yield run
                run = []
            since_ms = since_ms if run else at_ms
            run.append(file)
        if run:
            yield run


def spans_of(table: LoadedTable) -> Spans:
    """As the table's property says."""
    times = {one.sequence_number or 0: one.timestamp_ms for one in table.snapshots}
    return Spans(milliseconds(table, MAX_SPAN, 0), times)
