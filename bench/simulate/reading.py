"""What readers pay: files opened, deletes applied, and CPU seconds against a tidy table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.simulate.fleet import Floats, Ints
from bench.simulate.lake import MASKED, PENDING, Held
from bench.simulate.parameters import Parameters


@dataclass(frozen=True)
class Scan:
    """One read of each unit: whole, or as much of it as a reader takes. Arrays."""

    files: Floats  # data and delete files, each once
    applications: Floats  # delete files times data files that they reach
    cost_s: Floats
    ideal_s: Floats  # of the same rows in files of the target size


def scan_of(held: Held, p: Parameters) -> Scan:
    """An equality delete is paid for by every file of a cohort that it reaches."""
    r = p.reading
    files, positions = held.files.sum(axis=1), held.positions.sum(axis=1)
    size = held.bytes.sum(axis=1)
    loads = (held.reach_records * held.files).sum(axis=1)
    applied = (held.reach * held.files).sum(axis=1) + positions
    opened = files + held.deletes + positions
    masked = held.cohorts[MASKED].sum(axis=1)
    cost = (
        (size - masked) * r.scan_s_per_byte
        + masked * r.masked_s_per_byte
        + opened * r.open_s
        + loads * r.delete_s_per_record
        + masked / p.row_bytes * r.position_s_per_record
    )
    live = np.maximum(size - masked - held.cohorts[PENDING].sum(axis=1), 0.0)
    ideal = live * r.scan_s_per_byte + np.ceil(live / p.target_bytes) * r.open_s
    part = np.minimum(1.0, r.most_bytes / np.maximum(live, 1.0))
    return Scan(opened * part, applied * part, cost * part, ideal * part)


class Readers:
    """Sums over the samples, each unit weighted by how often it is read. Arrays: per table."""

    SUMS = ("reads", "files", "applications", "cost_s", "ideal_s", "ratios")

    def __init__(self, tables: int) -> None:
        for key in self.SUMS:
            setattr(self, key, 0.0)
        self.cost_of, self.ideal_of = np.zeros(tables), np.zeros(tables)
        self.worst_of = np.ones(tables)  # amplification of the worst hour
        self.oldest_of = np.zeros(tables)  # seconds that an equality delete was left
        self._hour = np.zeros((2, tables))
        self._hour_s = 0.0

    reads: float
    files: float
    applications: float
    cost_s: float
    ideal_s: float
    ratios: float  # of each read, cost to ideal

    def sampled(self, scan: Scan, reads: Floats, tables: Ints, every_s: float) -> None:
        """One more sample; `reads` of each unit since the last one."""
        self.reads += float(reads.sum())
        self.files += float((reads * scan.files).sum())
        self.applications += float((reads * scan.applications).sum())
        self.cost_s += float((reads * scan.cost_s).sum())
        self.ideal_s += float((reads * scan.ideal_s).sum())
        self.ratios += float((reads * scan.cost_s / np.maximum(scan.ideal_s, 1e-9)).sum())
        many = len(self.cost_of)
        cost = np.bincount(tables, reads * scan.cost_s, minlength=many)
        ideal = np.bincount(tables, reads * scan.ideal_s, minlength=many)
        self.cost_of += cost
        self.ideal_of += ideal
        self._hour += (cost, ideal)
        self._hour_s += every_s
        if self._hour_s >= 3_600:
            ratio = self._hour[0] / np.maximum(self._hour[1], 1e-12)
            there = self._hour[1] > 0
            self.worst_of = np.where(there, np.maximum(self.worst_of, ratio), self.worst_of)
            self._hour[:] = 0.0
            self._hour_s = 0.0

    def aged(self, age_s: Floats, tables: Ints) -> None:
        """How long the oldest equality delete of each unit has been there."""
        np.maximum.at(self.oldest_of, tables, age_s)

    def sums(self) -> dict[str, float]:
        """What adds up over shards."""
        return {key: getattr(self, key) for key in self.SUMS}

    @property
    def amplification(self) -> float:
        """CPU seconds of all reads against the same of a tidy lake."""
        return self.cost_s / self.ideal_s if self.ideal_s else 1.0
