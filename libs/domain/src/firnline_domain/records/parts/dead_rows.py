"""Distribution of dead rows in a partition's larger data files: many in a few files, or some in
all."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from firnline_domain.base.values import Amount, Value

EDGES = (0.05, 0.1, 0.2, 0.3, 0.5)  # shares of dead rows, between the bins of a histogram


class DeadRows(Value):
    """The files of one bin: those that are no fragments, with a share of dead rows in its range."""

    files: Amount = 0
    bytes: Amount = 0
    records: Amount = 0
    dead: Amount = 0  # of the records, by position


Histogram = tuple[DeadRows, ...]
"""One bin below each of `EDGES`, and one above; empty = not known."""


def build_histogram(files: Iterable[tuple[int, int, float]]) -> Histogram:
    """Build a histogram of files by their bytes, rows and dead rows."""
    bins = [DeadRows()] * (len(EDGES) + 1)
    for size, records, dead in files:
        number = bisect_right(EDGES, dead / records if records > 0 else 1.0)
        before = bins[number]
        bins[number] = DeadRows(
            before.files + 1,
            before.bytes + size,
            before.records + records,
            before.dead + int(min(dead, records)),  # never more than the worker goes by
        )
    return tuple(bins)
