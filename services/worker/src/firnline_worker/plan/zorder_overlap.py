"""Chooses the files of a partition to lay along a curve together, by how deep their boxes lie over
each other: what `overlap` is for one column, for several.

A file's bounds in all columns are a box, and the depth at a point is how many boxes hold it. Files
that were cut from one curve lie over each other a little: half of the rows in one more file, up to
three in all for two columns and four for four. So `CURVES_OWN` more are allowed, and files that
would come out as they went in are left alone. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from firnline_iceberg.metadata.entries import DataFileEntry

from firnline_worker.plan.overlap import GROWTH, MAX_BYTES, MAX_DEPTH, Clusters, Depth, KeyRange

CURVES_OWN = 3
WORTHWHILE = 2.5  # files over a row of a group, on average; of one curve 1.3 to 1.9
MOST_POINTS = 2_000  # that are examined, and as many denser ones
MOST_OTHERS = 2_000  # files whose bytes are looked for in a box; of more every so many
Ranks = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Box:
    """A data file, and its least and greatest key of each column."""

    file: DataFileEntry
    sides: tuple[KeyRange, ...]

    @property
    def is_point(self) -> bool:
        """Return whether all sides are points: see `KeyRange.is_point`."""
        return all(one.is_point for one in self.sides)


class _Boxes:
    """Boxes in ranks of the bounds that some file has."""

    def __init__(self, boxes: Sequence[Box]) -> None:
        sides = list(zip(*(one.sides for one in boxes), strict=True))
        ranked = [_to_ranks(column) for column in sides]
        self.low: Ranks = np.stack([low for low, _ in ranked], axis=1)
        self.high: Ranks = np.stack([high for _, high in ranked], axis=1)
        self.width: Reals = (self.high - self.low + 1).astype(np.float64)
        self.bytes: Reals = np.array([one.file.bytes for one in boxes], dtype=np.float64)

    def files_at(self, point: Ranks) -> npt.NDArray[np.int64]:
        """Return the numbers of the files at a point."""
        return np.flatnonzero(((self.low <= point) & (self.high >= point)).all(axis=1))

    def sample_points(self) -> Ranks:
        """Return the points where boxes begin, their middles, and the middle of what lies over each
        of these: new files have nearly the same bounds, and at none of these alone are all of
        them."""
        middles = (self.low + self.high) // 2
        found = np.unique(np.concatenate([self.low, middles]), axis=0)
        found = found[:: len(found) // MOST_POINTS + 1]
        denser = [
            np.median(middles[self.files_at(point)], axis=0).astype(np.int64) for point in found
        ]
        points: Ranks = np.unique(np.concatenate([found, np.stack(denser)]), axis=0)
        return points

    def depths_at(self, points: Ranks) -> Ranks:
        found = [len(self.files_at(point)) for point in points]
        return np.array(found, dtype=np.int64)

    def run_sizes(self) -> Reals:
        """Return run sizes as `overlap` does: a file's bytes by the share of all bytes that lie
        in its box."""
        others = np.arange(0, len(self.bytes), len(self.bytes) // MOST_OTHERS + 1)
        held = np.array(
            [
                self._overlap_shares(one, others) @ self.bytes[others]
                for one in range(len(self.bytes))
            ]
        )
        sizes: Reals = self.bytes / np.maximum(held / max(self.bytes[others].sum(), 1.0), 1e-9)
        return sizes

    def _overlap_shares(self, number: int, others: npt.NDArray[np.int64]) -> Reals:
        """Return the share of each other file's rows that lies in the box, if they lie evenly in
        theirs."""
        low = np.maximum(self.low[others], self.low[number])
        high = np.minimum(self.high[others], self.high[number])
        both = np.maximum(high - low + 1, 0) / self.width[others]
        share: Reals = both.prod(axis=1)
        return share

    def find_touching(self, number: int, others: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        over = (self.low[others] <= self.high[number]) & (self.high[others] >= self.low[number])
        found: npt.NDArray[np.int64] = others[over.all(axis=1)]
        return found

    def mean_depth(self, group: Sequence[int]) -> float:
        """Return the files of a group over one of its rows."""
        numbers = np.array(group, dtype=np.int64)
        weights = self.bytes[numbers] / max(self.bytes[numbers].sum(), 1.0)
        return float(sum(self._overlap_shares(one, numbers) @ weights for one in group))


def _to_ranks(column: Sequence[KeyRange]) -> tuple[Ranks, Ranks]:
    keys: list[Any] = sorted({one.low for one in column} | {one.high for one in column})
    place = {key: number for number, key in enumerate(keys)}
    low = np.array([place[one.low] for one in column], dtype=np.int64)
    return low, np.array([place[one.high] for one in column], dtype=np.int64)


def box_clusters(
    boxes: Sequence[Box], max_depth: int = MAX_DEPTH, max_bytes: int = MAX_BYTES
) -> Clusters:
    """Return the files to sort if any stack is too deep: at most `max_bytes`, but at least two
    files."""
    known = [one for one in boxes if not one.is_point]
    if not known:
        return Clusters((), (), Depth())
    laid = _Boxes(known)
    points = laid.sample_points()
    depths = laid.depths_at(points)
    depth = Depth(int(depths.max()), float(depths.mean()))
    deep = points[np.argsort(-depths, kind="stable")][
        : int((depths > max_depth + CURVES_OWN).sum())
    ]
    if not len(deep):
        return Clusters((), (), depth)
    sizes = laid.run_sizes()
    chosen = {
        number for point in deep for number in _least_runs(laid.files_at(point), sizes, max_depth)
    }
    tiers = {number: round(np.log2(max(sizes[number], 1.0))) for number in chosen}
    by_need = sorted(chosen, key=lambda one: (tiers[one], tuple(laid.low[one])))
    taken, size = list[int](), 0
    for number in by_need:
        if len(taken) >= 2 and size + known[number].file.bytes > max_bytes:
            break
        taken.append(number)
        size += known[number].file.bytes
    groups = [one for one in _touching_groups(laid, taken) if laid.mean_depth(one) >= WORTHWHILE]
    left = tuple(known[number].file for number in by_need[len(taken) :])
    files = tuple(tuple(known[number].file for number in group) for group in groups)
    return Clusters(files, left if groups else (), depth)


def _least_runs(files: npt.NDArray[np.int64], sizes: Reals, max_depth: int) -> list[int]:
    """Return the least runs of a stack, and the next as long as they are not much larger."""
    by_size = files[np.argsort(sizes[files], kind="stable")]
    count = max(len(by_size) - max_depth + 1, 2)
    while count < len(by_size) and sizes[by_size[count]] < GROWTH * sizes[by_size[:count]].sum():
        count += 1
    return [int(one) for one in by_size[:count]]


def _touching_groups(laid: _Boxes, taken: Sequence[int]) -> Iterator[list[int]]:
    """Yield groups of files whose boxes meet, directly or through others."""
    rest = np.array(sorted(taken), dtype=np.int64)
    while len(rest):
        group, todo = [int(rest[0])], [int(rest[0])]
        rest = rest[1:]
        while todo:
            found = laid.find_touching(todo.pop(), rest)
            rest = rest[~np.isin(rest, found)]
            group += found.tolist()
            todo += found.tolist()
        if len(group) > 1:
            yield sorted(group)
