"""Scans by table since they were sent last, and which table a name means: reports of readers name
no uuid."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice

from cachetools import LRUCache
from firnline_domain.base.values import Value
from firnline_domain.counters.activity.partition_age import time_index
from firnline_domain.identity import CATALOG, TableName
from firnline_domain.records.events import (
    FilteredBy,
    PartitionClock,
    ScannedRange,
    TableLayout,
    TableScanned,
)

from firnline_gateway.rest.call import Names
from firnline_gateway.rest.scan_report import Scan
from firnline_gateway.rest.table_layout import Loaded

MAX_NAMES = 100_000  # 80 MB of them
KEPT_S = 600.0  # by then the name may mean another table: dropped and created through others
UNKNOWN_S = 60.0  # a table that could not be read is asked for again
MAX_TABLES = 100_000
MAX_COLUMNS = 16  # of a table at a time; a planner keeps four
MAX_RANGES = 16  # and eight of these
Ages = tuple[int | None, int | None]  # of the youngest and the oldest partition that is wanted


class ScannedTable(Value):
    """A table, and how its files were laid out when it was read; None = it did not say."""

    table: TableName
    layout: TableLayout | None = None


class Identities:
    """The newest `most` names that were asked for."""

    def __init__(
        self,
        most: int = MAX_NAMES,
        now_s: Callable[[], float] = time.monotonic,
        catalog: str = CATALOG,
    ) -> None:
        """Remember the tables of one `catalog` by their names."""
        self._catalog = catalog
        self._now_s = now_s
        self._known = LRUCache[Names, tuple[ScannedTable | None, float]](most)

    def __contains__(self, names: Names) -> bool:
        """Return True if it is known which table that is, or that it cannot be read."""
        known = self._known.get(names)
        if known is not None and known[1] <= self._now_s():
            del self._known[names]
            return False
        return known is not None

    def __getitem__(self, names: Names) -> ScannedTable | None:
        """Return the table of known names; None = it could not be read."""
        return self._known[names][0]

    def set_identity(self, names: Names, loaded: Loaded | None) -> None:
        """Set the table that these names mean; None = it could not be read."""
        found = None
        if loaded is not None:
            prefix, *levels, name = names
            table = TableName(loaded.uuid, tuple(levels), name, self._catalog, prefix)
            found = ScannedTable(table, loaded.layout)
        until_s = self._now_s() + (UNKNOWN_S if found is None else KEPT_S)
        self._known[names] = found, until_s

    def forget_names(self, names: Names) -> None:
        """Forget the names: they mean another table from now on, or none."""
        self._known.pop(names, None)


@dataclass
class _Tally:
    scans: int = 0
    data_files: int = 0

    def add(self, scan: Scan) -> None:
        self.scans += 1
        self.data_files += scan.data_files


@dataclass
class _ScanCount:
    identity: ScannedTable
    from_ms: int
    every: _Tally = field(default_factory=_Tally)
    loads: int = 0
    by_column: dict[str, _Tally] = field(default_factory=dict)
    by_ages: dict[Ages, _Tally] = field(default_factory=dict)

    def add(self, scan: Scan, now_ms: int) -> None:
        self.every.add(scan)
        layout = self.identity.layout
        ages = ages_of(scan, layout.clock if layout else None, now_ms)
        if ages is not None and (ages in self.by_ages or len(self.by_ages) < MAX_RANGES):
            self.by_ages.setdefault(ages, _Tally()).add(scan)
        for column in sorted(scan.filtered_by):
            if column in self.by_column or len(self.by_column) < MAX_COLUMNS:
                self.by_column.setdefault(column, _Tally()).add(scan)

    def to_event(self, now_ms: int) -> TableScanned:
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
            loads=self.loads,
            ranges=tuple(
                ScannedRange(*ages, one.scans, one.data_files) for ages, one in self.by_ages.items()
            ),
        )


def ages_of(scan: Scan, clock: PartitionClock | None, now_ms: int) -> Ages | None:
    """Return the ages of the partitions that a scan reads, as far as its filter limits them; None
    if the filter does not, so that no partition is likelier than another."""
    if clock is None or clock.column not in scan.filtered_by:
        return None
    wanted, now = dict(scan.bounds).get(clock.column), time_index(clock.unit, now_ms)
    if wanted is None:
        return None, None
    youngest = None if wanted.until_ms is None else now - time_index(clock.unit, wanted.until_ms)
    oldest = None if wanted.from_ms is None else now - time_index(clock.unit, wanted.from_ms)
    # What is to come belongs to the newest.
    return youngest if youngest and youngest > 0 else None, oldest and max(oldest, 0)


class ScanCounts:
    """Counts of the scans of at most `most` tables: scans of other tables are not counted until
    these are sent."""

    def __init__(self, now_ms: int, most: int = MAX_TABLES) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._from_ms = now_ms
        self._counts: dict[str, _ScanCount] = {}  # by the table's key

    def add_scans(self, identity: ScannedTable, scans: Iterable[Scan], now_ms: int = 0) -> bool:
        """Count scans of a table. Return False if there is no room for it."""
        with self._lock:
            count = self._count_for(identity)
            if count is None:
                return False
            for scan in scans:
                count.add(scan, now_ms)
            return True

    def add_load(self, identity: ScannedTable) -> bool:
        """Count a read without a report; False if there is no room for the table."""
        with self._lock:
            count = self._count_for(identity)
            if count is None:
                return False
            count.loads += 1
            return True

    def _count_for(self, identity: ScannedTable) -> _ScanCount | None:
        count = self._counts.get(identity.table.key)
        if count is None:
            if len(self._counts) >= self._most:
                return None
            count = self._counts[identity.table.key] = _ScanCount(identity, self._from_ms)
        count.identity = identity  # what was read last
        return count

    def take_events(self, most: int, now_ms: int) -> list[TableScanned]:
        """Remove and return the counts of at most `most` tables; an empty list means that none are
        left."""
        with self._lock:
            self._from_ms = now_ms
            taken = [self._counts.pop(key) for key in list(islice(self._counts, most))]
        return [one.to_event(now_ms) for one in taken]
