"""Find when the files of each partition came, by the snapshots that a table still has."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from firnline_domain.identity import MAIN, Scope

from firnline_iceberg.metadata.entries import FileEntry
from firnline_iceberg.table.loaded_table import LoadedTable


class LastChanges:
    """Notes entries as they pass by. The snapshot that brought a file may have expired: then the
    file is at least as old as the first retained snapshot that is not older than its commit. A
    commit that only took files out is not seen."""

    def __init__(self, table: LoadedTable) -> None:
        line = [*table.ancestors(table.head_id(MAIN))][::-1]
        self._times = {one.snapshot_id: one.timestamp_ms for one in table.snapshots}
        self._numbers = [one.sequence_number or 0 for one in line]
        self._of_line = [one.timestamp_ms for one in line]
        self._newest: dict[Scope, int] = {}

    def note_entries(self, entries: Iterable[FileEntry]) -> Iterator[FileEntry]:
        """Yield the same entries."""
        for entry in entries:
            scope, came_ms = entry.scope.counted_scope, self._came_ms(entry)
            self._newest[scope] = max(self._newest.get(scope, 0), came_ms)
            yield entry

    def changed_ms(self, scope: Scope) -> int | None:
        """Return the time of a partition in the form of the counters; None if none of its entries
        was read."""
        return self._newest.get(scope)

    def _came_ms(self, entry: FileEntry) -> int:
        if (time_ms := self._times.get(entry.snapshot_id or 0)) is not None:
            return time_ms
        number = entry.file_sequence_number
        at = len(self._numbers) if number is None else bisect_left(self._numbers, number)
        return self._of_line[min(at, len(self._of_line) - 1)]
