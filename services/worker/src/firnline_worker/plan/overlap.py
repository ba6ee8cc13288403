"""Chooses the files of a partition to sort together, by how deep their bounds lie over each other.

A reader that asks for one key opens every file whose bounds hold it: the depth at that key. Sorted
files lie beside each other, and new ones, which hold all keys, on top of them. All files that hold
a key are a stack; where a stack is deeper than it may be, its least runs are sorted together, and
those that follow as long as they are less than 1.5 times as large. So a byte is written again only
when its run has grown by a multiple (universal compaction), and the whole is never sorted at once.

A run is what was sorted together. No file says which it is of: a file of 1 % of the rows that spans
1 % of the keys is of a run of all rows, one that spans all keys is a run of itself. Runs are taken
as wholes: one that is cut here and there makes stacks that differ from key to key, and each is then
too deep on a day of its own. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from firnline_iceberg.metadata.entries import DataFileEntry

MAX_DEPTH = 5
# A run that is larger than so many times those above it is left alone. Of 1.25 to 2.5 this writes
# least over half a year, for files that readers leave out.
GROWTH = 1.5
SAME_RUN = 1.25  # sizes of one run's files differ by so much, for they are reckoned from bounds
MAX_BYTES = 8 << 30  # sorted by one Spark task, on a disk with room for five times as much
MOST_LOOKS = 2_000  # keys whose stacks are examined, the deepest first
_TRUNCATED = 16  # characters of a bound of text, by default


@dataclass(frozen=True)
class KeyRange:
    """A data file, and the least and the greatest key that it may hold, as values that compare with
    those of the others: (side, value), where nulls are a side of their own."""

    file: DataFileEntry
    low: tuple[Any, ...]
    high: tuple[Any, ...]

    @property
    def is_point(self) -> bool:
        """Return whether the file has one key, or bounds that do not distinguish keys: sorting it
        again makes it no narrower."""
        if self.low == self.high:
            return True
        low, high = self.low[-1], self.high[-1]
        texts = isinstance(low, str) and isinstance(high, str) and len(low) >= _TRUNCATED
        return texts and low[: _TRUNCATED - 1] == high[: _TRUNCATED - 1]


@dataclass(frozen=True)
class Depth:
    """Numbers of files that contain a key: at the deepest key, and on average over the keys at
    which some file begins or ends."""

    most: int = 0
    mean: float = 0.0


@dataclass(frozen=True)
class Clusters:
    """Files to sort now, group by group, and those left for the next time."""

    groups: tuple[tuple[DataFileEntry, ...], ...]
    left: tuple[DataFileEntry, ...]
    depth: Depth


class _Stacks:
    """Files over the distinct keys at which some file begins or ends."""

    def __init__(self, spreads: Sequence[KeyRange]) -> None:
        keys = sorted({one.low for one in spreads} | {one.high for one in spreads})
        place = {key: number for number, key in enumerate(keys)}
        self.first = np.array([place[one.low] for one in spreads], dtype=np.int64)
        self.last = np.array([place[one.high] for one in spreads], dtype=np.int64)
        self.bytes = np.array([one.file.bytes for one in spreads], dtype=np.float64)
        self.depths = np.cumsum(self._add_steps(np.ones(len(spreads)), len(keys)))[:-1]
        self.sizes = self._run_sizes(self.bytes, len(keys))

    def _add_steps(self, amounts: npt.NDArray[np.float64], keys: int) -> npt.NDArray[np.float64]:
        steps = np.zeros(keys + 1)
        np.add.at(steps, self.first, amounts)
        np.add.at(steps, self.last + 1, -amounts)
        return steps

    def _run_sizes(self, bytes_: npt.NDArray[np.float64], keys: int) -> npt.NDArray[np.float64]:
        """Return the bytes of each file by the share of all bytes that lie where it lies."""
        if not keys:
            return bytes_
        held = np.cumsum(self._add_steps(bytes_ / (self.last - self.first + 1), keys))[:-1]
        up_to = np.concatenate([[0.0], np.cumsum(held)])
        share = (up_to[self.last + 1] - up_to[self.first]) / max(bytes_.sum(), 1.0)
        sizes: npt.NDArray[np.float64] = bytes_ / np.maximum(share, 1e-9)
        return sizes

    def stack_at(self, key: int) -> npt.NDArray[np.int64]:
        """Return the numbers of the files at a key, those of the least runs first."""
        found = np.flatnonzero((self.first <= key) & (self.last >= key))
        return found[np.argsort(self.sizes[found], kind="stable")]

    def split_overlapping(self, numbers: npt.NDArray[np.int64]) -> Sequence[npt.NDArray[np.int64]]:
        """Split files into groups that lie over each other, directly or by others."""
        in_turn = numbers[np.argsort(self.first[numbers], kind="stable")]
        ends = np.maximum.accumulate(self.last[in_turn])
        return np.split(in_turn, np.flatnonzero(self.first[in_turn][1:] > ends[:-1]) + 1)

    def rest_of_runs(
        self, group: npt.NDArray[np.int64], taken: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.int64]:
        """Return the files between the group's keys that are of its largest run or of a smaller
        one."""
        within = self.first <= self.last[group].max()
        within &= self.last >= self.first[group].min()
        within &= self.sizes <= SAME_RUN * self.sizes[group].max()
        return np.flatnonzero(within & ~taken)


def depth_of(spreads: Sequence[KeyRange]) -> Depth:
    """Return the depth of all files, those of one key as well."""
    if not spreads:
        return Depth()
    depths = _Stacks(spreads).depths
    return Depth(int(depths.max()), float(depths.mean()))


def find_clusters(
    spreads: Sequence[KeyRange], max_depth: int = MAX_DEPTH, max_bytes: int = MAX_BYTES
) -> Clusters:
    """Return the files to sort if any stack is too deep: at most `max_bytes`, but at least two
    files."""
    depth = depth_of(spreads)
    known = [one for one in spreads if not one.is_point]
    if not known:
        return Clusters((), (), depth)
    stacks = _Stacks(known)
    chosen = _whole_runs(stacks, _choose_files(stacks, max_depth))
    tiers = {number: round(np.log2(max(stacks.sizes[number], 1.0))) for number in chosen}
    by_need = sorted(chosen, key=lambda one: (tiers[one], known[one].low, known[one].high))
    taken, size = list[int](), 0
    for number in by_need:
        if len(taken) >= 2 and size + known[number].file.bytes > max_bytes:
            break
        taken.append(number)
        size += known[number].file.bytes
    groups = tuple(_overlapping_groups(known[number] for number in taken))
    left = tuple(known[number].file for number in by_need[len(taken) :])
    return Clusters(groups, left if groups else (), depth)


def _choose_files(stacks: _Stacks, max_depth: int) -> set[int]:
    found = set[int]()
    deep = np.flatnonzero(stacks.depths > max_depth)
    for key in deep[np.argsort(-stacks.depths[deep], kind="stable")][:MOST_LOOKS]:
        stack = stacks.stack_at(int(key))
        sizes = stacks.sizes[stack]
        count = len(stack) - max_depth + 1
        while count < len(stack) and sizes[count] < GROWTH * sizes[:count].sum():
            count += 1
        found.update(int(one) for one in stack[:count])
    return found


def _whole_runs(stacks: _Stacks, chosen: set[int]) -> set[int]:
    """Add the rest of a run that is chosen over a part of its keys, if that is less than what is
    chosen. Without it twice as much is written in the end."""
    taken = np.isin(np.arange(len(stacks.bytes)), list(chosen))
    before = -1
    while before != (before := int(taken.sum())):
        for group in stacks.split_overlapping(np.flatnonzero(taken)) if before else ():
            rest = stacks.rest_of_runs(group, taken)
            if stacks.bytes[rest].sum() <= stacks.bytes[group].sum():
                taken[rest] = True
    return set(np.flatnonzero(taken).tolist())


def _overlapping_groups(spreads: Iterable[KeyRange]) -> Iterator[tuple[DataFileEntry, ...]]:
    """Yield groups of files whose ranges overlap, directly or through others; a single file is
    sorted already."""
    group, end = list[KeyRange](), None
    for one in [*sorted(spreads, key=lambda one: (one.low, one.high)), None]:
        if group and (one is None or (end is not None and one.low > end)):
            if len(group) > 1:
                yield tuple(each.file for each in group)
            group, end = [], None
        if one is not None:
            group.append(one)
            end = one.high if end is None else max(end, one.high)
