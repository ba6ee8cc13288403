"""Scans by table since they were sent last: counted on the event loop, taken by the sender."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from firnline_domain.records.events import FilteredBy, TableScanned

from firnline_gateway.identities import Identity
from firnline_gateway.scan_reports import Scan

MOST_TABLES = 100_000
MOST_COLUMNS = 16  # of a table at a time; a planner keeps four


@dataclass
class _Tally:
    scans: int = 0
    data_files: int = 0

    def add(self, scan: Scan) -> None:
        self.scans += 1
        self.data_files += scan.data_files


@dataclass
class _Count:
    identity: Identity
    from_ms: int
    every: _Tally = field(default_factory=_Tally)
    by_column: dict[str, _Tally] = field(default_factory=dict)

    def add(self, scan: Scan) -> None:
        self.every.add(scan)
        for column in sorted(scan.filtered_by):
            if column in self.by_column or len(self.by_column) < MOST_COLUMNS:
                self.by_column.setdefault(column, _Tally()).add(scan)

    def event(self, now_ms: int) -> TableScanned:
        return TableScanned(
            table=self.identity.table,
            from_ms=min(self.from_ms, now_ms),
            to_ms=now_ms,
            scans=self.every.scans,
            data_files=self.every.data_files,
            filtered=tuple(
                FilteredBy(name, one.scans, one.data_files) for name, one in self.by_column.items()
            ),
            layout=self.identity.layout,
        )


class ScanCounts:
    """Of at most `most` tables: scans of others are not counted until these are sent."""

    def __init__(self, now_ms: int, most: int = MOST_TABLES) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._from_ms = now_ms
        self._counts: dict[str, _Count] = {}  # by the table's uuid

    def add(self, identity: Identity, scans: Iterable[Scan]) -> bool:
        """Count scans of a table; False where there is no room for it."""
        uuid = identity.table.uuid
        with self._lock:
            count = self._counts.get(uuid)
            if count is None:
                if len(self._counts) >= self._most:
                    return False
                count = self._counts[uuid] = _Count(identity, self._from_ms)
            count.identity = identity  # what was read last
            for scan in scans:
                count.add(scan)
            return True

    def take(self, most: int, now_ms: int) -> list[TableScanned]:
        """Those of so many tables, which are not counted any more; none = all are taken."""
        with self._lock:
            self._from_ms = now_ms
            taken = [self._counts.pop(uuid) for uuid in list(islice(self._counts, most))]
        return [one.event(now_ms) for one in taken]
