"""Count what a rewrite could remove in a partition, by kind of file."""

from __future__ import annotations

from operator import add

from firnline_domain.base.values import Value
from firnline_domain.counters.state.file_sizes import undersized_debt
from firnline_domain.records.parts.tallies import FileTally


class Debt(Value):
    """Files that a rewrite could do away with, by kind."""

    fragments: int = 0
    equality_deletes: int = 0
    position_deletes: int = 0  # position-delete files and deletion vectors
    global_deletes: int = 0  # equality deletes of unpartitioned specs, where others hold files
    undersized: int = 0  # data files that a merge would take into one of the target size

    def __add__(self, other: Debt) -> Debt:
        if other == NO_DEBT:
            return self
        return Debt(*map(add, self.counts, other.counts))

    def above(self, floor: Debt) -> Debt:
        """Return the debt that exceeds `floor`, count by count. Every decision calls it; mostly
        there is no floor."""
        if floor == NO_DEBT and min(self.counts) >= 0:
            return self
        return Debt(
            max(self.fragments - floor.fragments, 0),
            max(self.equality_deletes - floor.equality_deletes, 0),
            max(self.position_deletes - floor.position_deletes, 0),
            max(self.global_deletes - floor.global_deletes, 0),
            max(self.undersized - floor.undersized, 0),
        )

    def at_most(self, other: Debt) -> Debt:
        """Return the smaller number of each kind."""
        if self == NO_DEBT and min(other.counts) >= 0:
            return self
        return Debt(*map(min, self.counts, other.counts))

    @property
    def compactable(self) -> tuple[int, int, int, int]:
        """Return the counts that a compaction removes."""
        return self.fragments, self.equality_deletes, self.position_deletes, self.global_deletes

    @property
    def counts(self) -> tuple[int, int, int, int, int]:
        """Return the five counts, in the order of the fields."""
        return (
            self.fragments,
            self.equality_deletes,
            self.position_deletes,
            self.global_deletes,
            self.undersized,
        )


NO_DEBT = Debt()


def debt_of(holds: FileTally, target_bytes: int, global_deletes: int = 0) -> Debt:
    """Return the debt in all files of a partition."""
    return _count_debt(holds, global_deletes, undersized_debt(holds, target_bytes))


def debt_added_by(files: FileTally) -> Debt:
    """Return the debt that these files add: undersized ones may be debt together with others."""
    return _count_debt(files, 0, files.undersized.files)


def _count_debt(holds: FileTally, global_deletes: int, undersized: int) -> Debt:
    files, deletes = holds.fragments.files, holds.equality_deletes.files
    return Debt(files, deletes, holds.positional_files, global_deletes, undersized)
