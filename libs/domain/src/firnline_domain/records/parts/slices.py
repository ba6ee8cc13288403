"""One pass over a partition in several orders: each takes a slice of what there is to be done."""

from __future__ import annotations

from firnline_domain.base.values import Amount, Finite, Identifier, Value


class StoredFile(Value):
    """A file whose contents are vouched for by its signed name."""

    path: str
    sha256: str


class Slice(Value):
    """State that a slice leaves to the next one. It travels from the worker's result through the
    commit to the planner, and with the next order back to a worker.

    `sequence_number`: of the snapshot that the pass's first slice started from. Files from it on
    are not the pass's: so it comes to an end, however many commits come meanwhile. `left_bytes` are
    to be read, of `left_files` data files. `marks`: which files are converted already
    (`commits.conversion_progress`), None = none."""

    action: str
    reason: str
    sequence_number: Identifier
    min_dead_ratio: Finite = 0.0  # of all its orders
    left_files: Amount = 0
    left_bytes: Amount = 0
    marks: StoredFile | None = None

    @property
    def is_last(self) -> bool:
        """The pass is over."""
        return self.left_files == 0
