"""What units hold as the planner's counters have it: sums by kind of file, whole numbers."""

from __future__ import annotations

import numpy as np
from firnline_domain.policy.cost.cost_benefit import READ_COST
from firnline_domain.records.parts.tallies import NO_FILES, FileTally, Tally

from bench.simulate.fleet import Flags, Floats, Ints
from bench.simulate.lake import FRAGMENT, LARGE, MASKED, UNDERSIZED, Held
from bench.simulate.parameters import Parameters


class View:
    """Sums of what units hold, as the planner's counters have them. Whole numbers of files."""

    def __init__(self, held: Held, p: Parameters) -> None:
        files, size = held.files, held.bytes
        self.fragments = np.floor(files[:, FRAGMENT].sum(axis=1) + 1e-6)
        self.fragment_bytes = size[:, FRAGMENT].sum(axis=1)
        self.undersized = np.floor(files[:, UNDERSIZED].sum(axis=1) + 1e-6)
        self.undersized_bytes = size[:, UNDERSIZED].sum(axis=1)
        self.large = np.ceil(files[:, LARGE].sum(axis=1) - 1e-6)
        self.large_bytes = size[:, LARGE].sum(axis=1)
        self.deletes = np.floor(held.deletes + 1e-6)
        self.delete_records = np.floor(held.delete_records)
        self.positions = np.ceil(held.positions.sum(axis=1) - 1e-6)
        self.position_records = held.cohorts[MASKED].sum(axis=1) / p.row_bytes

    @property
    def segments(self) -> Floats:
        """Data files that are no fragments."""
        return np.asarray(self.undersized + self.large)

    @property
    def segment_bytes(self) -> Floats:
        return np.asarray(self.undersized_bytes + self.large_bytes)

    @property
    def bytes(self) -> Floats:
        return np.asarray(self.fragment_bytes + self.segment_bytes)

    def fills(self, target: float) -> Flags:
        """`sizes.fills_target`."""
        files, size = self.fragments + self.undersized, self.fragment_bytes + self.undersized_bytes
        pairs = (self.undersized > 0) & (2 * self.undersized_bytes < target * self.undersized)
        return np.asarray((files > 1) & (size >= target) & ((self.undersized == 0) | pairs))

    def debt(self, target: float) -> Ints:
        """Undersized files are it where they fill one (`sizes.undersized_debt`)."""
        under = self.undersized * self.fills(target)
        kinds = (self.fragments, self.deletes, self.positions, under)
        return np.array(kinds).astype(np.int64)

    def merged(self, target: float) -> tuple[Floats, Floats]:
        """Files and bytes that a merge takes (`sizes.taken_by_merge`)."""
        filling = self.fills(target)
        some = filling | (self.fragments > 1)
        files = self.fragments * some + self.undersized * filling
        return files, self.fragment_bytes * some + self.undersized_bytes * filling


def key_bytes(view: View, share: float) -> Floats:
    """Bytes of the keys that a conversion reads."""
    return np.where(view.deletes > 0, view.segment_bytes * share, 0.0)


def at_most_spared(view: View, p: Parameters) -> Floats:
    """CPU seconds per scan, of `burden` or a little more."""
    cost = READ_COST
    files = view.fragments + view.deletes + view.positions
    dead = np.minimum(view.position_records * p.row_bytes * 1.01, view.bytes)
    loads = view.delete_records * (view.segments + view.fragments / 2)
    positions = view.position_records * cost.position_s + dead * cost.scan_s
    return np.asarray(files * cost.open_s + loads * cost.load_s + positions)


def tallies_of(view: View, p: Parameters, vectors: Flags, whole: Flags) -> list[FileTally]:
    """Units as the planner's counters have them. `whole`: their equality deletes count for the
    table."""

    def data(files: Floats, size: Floats) -> list[Tally]:
        rows = (size / p.row_bytes).astype(np.int64).tolist()
        columns = zip(
            files.astype(np.int64).tolist(), rows, size.astype(np.int64).tolist(), strict=True
        )
        return [Tally(*one) if one[0] else NO_FILES for one in columns]

    def deletes(files: Floats, records: Floats, each: float, there: Flags) -> list[Tally]:
        columns = zip(files.tolist(), records.tolist(), there.tolist(), strict=True)
        return [
            Tally(int(many), int(rows), int(rows * each)) if of and many else NO_FILES
            for many, rows, of in columns
        ]

    kinds = (
        data(view.fragments, view.fragment_bytes),
        data(view.undersized, view.undersized_bytes),
        data(view.large, view.large_bytes),
        [NO_FILES] * len(whole),
        deletes(view.deletes, view.delete_records, p.delete_bytes, ~whole),
        deletes(view.positions, view.position_records, 1.0, ~vectors),
        deletes(view.positions, view.position_records, 1.0, vectors),
    )
    return [FileTally(*one) for one in zip(*kinds, strict=True)]
