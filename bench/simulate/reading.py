"""What readers pay: files opened, deletes applied, and CPU seconds against a tidy table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.simulate.fleet import Floats
from bench.simulate.lake import Holds
from bench.simulate.parameters import Parameters


@dataclass(frozen=True)
class Scan:
    """One read of each unit: whole, or as much of it as a reader takes. Arrays."""

    files: Floats  # data and delete files, each once
    applications: Floats  # delete files times data files that they reach
    cost_s: Floats
    ideal_s: Floats  # of the same rows in files of the target size


def scan_of(lake: Holds, p: Parameters) -> Scan:
    """Equality deletes reach every older file: all segments, and half of the fragments."""
    r = p.reading
    reached = lake.segments + lake.fragments / 2
    applied = lake.deletes * reached
    opened = lake.files + lake.deletes + lake.positions
    deletes_s = np.where(lake.deletes > 0, lake.delete_records * reached, 0.0)
    cost = (
        lake.bytes * r.scan_s_per_byte
        + opened * r.open_s
        + deletes_s * r.delete_s_per_record
        + lake.position_records * r.position_s_per_record
    )
    live = np.maximum(lake.bytes - lake.dead_bytes, 0.0)
    ideal = live * r.scan_s_per_byte + np.ceil(live / p.target_bytes) * r.open_s
    part = np.minimum(1.0, r.most_bytes / np.maximum(live, 1.0))
    return Scan(opened * part, (applied + lake.positions) * part, cost * part, ideal * part)


@dataclass
class Readers:
    """Sums over the samples, each unit weighted by how often it is read."""

    reads: float = 0.0
    files: float = 0.0
    applications: float = 0.0
    cost_s: float = 0.0
    ideal_s: float = 0.0
    ratios: float = 0.0  # of each read, cost to ideal

    def sampled(self, scan: Scan, reads: Floats) -> None:
        """One more sample; `reads` of each unit since the last one."""
        self.reads += float(reads.sum())
        self.files += float(reads @ scan.files)
        self.applications += float(reads @ scan.applications)
        self.cost_s += float(reads @ scan.cost_s)
        self.ideal_s += float(reads @ scan.ideal_s)
        self.ratios += float(reads @ (scan.cost_s / np.maximum(scan.ideal_s, 1e-9)))

    @property
    def amplification(self) -> float:
        """CPU seconds of all reads against the same of a tidy lake."""
        return self.cost_s / self.ideal_s if self.ideal_s else 1.0

    @property
    def mean_amplification(self) -> float:
        """The same of the average read: large tables count no more than small ones."""
        return self.ratios / self.reads if self.reads else 1.0
