"""Scans by table since they were sent last: counted on the event loop, taken by the sender."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from itertools import islice

from firnline_domain.events import TableScanned
from firnline_domain.identity import TableName

MOST_TABLES = 100_000


@dataclass
class _Count:
    table: TableName
    from_ms: int
    scans: int = 0
    data_files: int = 0


class ScanCounts:
    """Of at most `most` tables: scans of others are not counted until these are sent."""

    def __init__(self, now_ms: int, most: int = MOST_TABLES) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._from_ms = now_ms
        self._counts: dict[str, _Count] = {}  # by the table's uuid

    def add(self, table: TableName, scans: int, data_files: int) -> bool:
        """Count scans of a table; False where there is no room for it."""
        with self._lock:
            count = self._counts.get(table.uuid)
            if count is None:
                if len(self._counts) >= self._most:
                    return False
                count = self._counts[table.uuid] = _Count(table, self._from_ms)
            count.scans += scans
            count.data_files += data_files
            return True

    def take(self, most: int, now_ms: int) -> list[TableScanned]:
        """Those of so many tables, which are not counted any more; none = all are taken."""
        with self._lock:
            self._from_ms = now_ms
            taken = [self._counts.pop(uuid) for uuid in list(islice(self._counts, most))]
        return [
            TableScanned(one.table, min(one.from_ms, now_ms), now_ms, one.scans, one.data_files)
            for one in taken
        ]
