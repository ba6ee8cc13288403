"""Estimate what one scan of a partition pays for its debt: read amplification.

Counters do not say which delete reaches which file. An equality delete reaches every older file of
its partition: all but, on average, half of the fragments that came with it. Position deletes reach
as many rows as they have records."""

from __future__ import annotations

from firnline_domain.base.values import Value, replace
from firnline_domain.counters.state.debt import Debt
from firnline_domain.counters.state.file_sizes import merged_files
from firnline_domain.records.parts.tallies import FileTally


class ReadCost(Value):
    """CPU seconds of whoever reads through Iceberg's own reader."""

    scan_s: float = 1e-8  # per byte of a data file
    open_s: float = 0.01  # per file
    load_s: float = 1.6e-6  # per equality delete and data file that it reaches (bench: 1.7e-6)
    position_s: float = 2e-7  # per position


READ_COST = ReadCost()


class Burden(Value):
    """Cost of debt for one scan."""

    files_spared: float  # that a merge of the fragments would spare
    equality_files: float  # global ones too
    delete_records: float  # in those of the partition
    delete_loads: float  # equality deletes times the data files they reach
    position_files: float  # vectors too
    positions: float
    dead_bytes: float  # of rows that position deletes mask
    tidy_s: float  # of a scan without the debt

    def deletes_s(self) -> float:
        """Return a scan's seconds for equality deletes."""
        return self.delete_loads * READ_COST.load_s + self.equality_files * READ_COST.open_s

    def positions_s(self) -> float:
        """Return a scan's seconds for position deletes and the rows they mask."""
        masked = self.positions * READ_COST.position_s + self.dead_bytes * READ_COST.scan_s
        return masked + self.position_files * READ_COST.open_s

    def files_s(self) -> float:
        """Return the seconds that a scan takes for files that a merge would save."""
        return self.files_spared * READ_COST.open_s

    def total_seconds(self) -> float:
        """Return the seconds that a scan takes for all of the burden: deletes, positions and
        files."""
        return self.deletes_s() + self.positions_s() + self.files_s()

    @property
    def opens(self) -> float:
        """Return the number of files that a scan opens because of the burden."""
        return self.files_spared + self.equality_files + self.position_files

    @property
    def amplification(self) -> float:
        """Return the time of a scan as a multiple of that of a tidy partition; 1 = there is no
        debt."""
        return 1 + self.total_seconds() / self.tidy_s if self.tidy_s > 0 else 1.0

    def grow_to(self, debt: Debt, grown: Debt) -> Burden:
        """Return what has come since the last rewrite, each kind by itself: one equality delete
        beside a thousand vectors that a conversion has left is all of its kind, and no
        thousandth."""
        if grown == debt:
            return self  # mostly: the last rewrite has left nothing
        deletes = _share_of(
            grown.equality_deletes + grown.global_deletes,
            debt.equality_deletes + debt.global_deletes,
        )
        masks = _share_of(grown.position_deletes, debt.position_deletes)
        return replace(
            self,
            files_spared=self.files_spared * _share_of(grown.fragments, debt.fragments),
            equality_files=self.equality_files * deletes,
            delete_records=self.delete_records * deletes,
            delete_loads=self.delete_loads * deletes,
            position_files=self.position_files * masks,
            positions=self.positions * masks,
            dead_bytes=self.dead_bytes * masks,
        )


def _share_of(part: int, whole: int) -> float:
    return part / max(whole, 1)


def burden_of(holds: FileTally, target_bytes: int, global_deletes: int = 0) -> Burden:
    """Return the burden of a partition. Of global deletes only the number of files is known
    here."""
    data, small, deletes = holds.all_data, holds.fragments, holds.equality_deletes
    reached = max(data.files - small.files / 2, 0.0)
    positions = holds.position_deletes + holds.deletion_vectors
    row = data.bytes / data.records if data.records > 0 else 0.0
    dead = min(positions.records * row, float(max(data.bytes, 0)))
    spared = small.files - merged_files(small, target_bytes)
    return Burden(
        files_spared=spared,
        equality_files=deletes.files + global_deletes,
        delete_records=deletes.records,
        delete_loads=deletes.records * reached,
        position_files=positions.files,
        positions=positions.records,
        dead_bytes=dead,
        tidy_s=max(data.bytes - dead, 0.0) * READ_COST.scan_s
        + (data.files - spared) * READ_COST.open_s,
    )
