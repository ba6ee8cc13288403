"""Cuts slices: how much of a partition one order takes, and what it leaves to the next one.
Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from firnline_domain.base.values import bound_amount
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.slices import Slice, StoredFile
from firnline_iceberg.metadata.entries import DataFileEntry

from firnline_worker.plan.conversion_progress import NO_MARKS, PassMarks


@dataclass(frozen=True)
class SliceLimit:
    """The limit of a slice. `max_bytes` to be read; 0 = any number. `before`: the sequence number
    of the pass's start; 0 = it begins, and all files are the pass's. By normal path, of a
    conversion: `answered` files need not be read again; `void` ones are, as far as there is room
    for them, because the pass has read them once."""

    max_bytes: int = 0
    before: int = 0
    answered: Collection[str] = ()
    void: Collection[str] = ()

    def is_of_pass(self, file: DataFileEntry) -> bool:
        """Return whether a file belongs to the pass. A file that a slice of the same pass has
        written does not: its data sequence number is that of the start, as of files that the start
        itself has added, but it was added later."""
        if not self.before or file.sequence_number < self.before:
            return True
        added = file.file_sequence_number
        return added is not None and added <= self.before


ANY_SIZE = SliceLimit()


def slice_limit(
    order: RewriteFiles, known: PassMarks = NO_MARKS, has_sequence_numbers: bool = True
) -> SliceLimit:
    """Return the limit of a task's slice. In a v1 table, whose files all have the number 0, a pass
    takes all that is left of it. A full rewrite always leaves files, so there it is one task."""
    if order.action == Action.FULL and not has_sequence_numbers:
        return ANY_SIZE
    before = order.after.sequence_number if order.after else 0
    return SliceLimit(order.max_bytes, before, known.answered.keys(), known.void)


@dataclass(frozen=True)
class RemainingWork:
    """The remaining work that is not in this slice."""

    files: int = 0
    bytes: int = 0  # to be read


NOTHING_LEFT = RemainingWork()


@dataclass(frozen=True)
class Costed:
    """A data file, and how many of its bytes are to be read. `again`: the pass has read it."""

    file: DataFileEntry
    bytes: int
    again: bool = False


@dataclass(frozen=True)
class Cut:
    """One slice and the remaining work. `taken`: normal paths."""

    taken: frozenset[str]
    left: RemainingWork


def cut_slice(
    with_deletes: Sequence[Costed],
    runs: Iterable[Sequence[DataFileEntry]],
    group_bytes: float,
    limit: SliceLimit,
) -> Cut:
    """Cut one slice: files with deletes in the order given, at least one; then, as far as there is
    room, files that are only merged. `runs`: of the latter, such as may be in one file, each by
    age. If these are all there is, a slice is no smaller than one group, or merges would fill no
    file."""
    known, size = [list(run) for run in runs], 0
    if not limit.max_bytes:
        everything = (*(one.file for one in with_deletes), *chain(*known))
        return Cut(frozenset(file.normal_path for file in everything), NOTHING_LEFT)
    taken = list[Costed]()
    for one in with_deletes:
        if taken and size + one.bytes > limit.max_bytes:
            break
        taken.append(one)
        size += one.bytes
    waiting = with_deletes[len(taken) :]
    if waiting:
        merged = frozenset[str]()
    elif taken:
        merged = frozenset(_take_fitting(list(chain(*known)), limit.max_bytes - size))
    else:
        merged = frozenset(_take_runs(known, max(limit.max_bytes, group_bytes)))
    waiting = [one for one in waiting if not one.again]
    left = [*waiting, *_remaining_files(known, merged, bool(waiting))]
    chosen = merged | {one.file.normal_path for one in taken}
    return Cut(chosen, RemainingWork(len(left), sum(one.bytes for one in left)))


def _take_fitting(files: Sequence[DataFileEntry], room: float, least: int = 0) -> Iterator[str]:
    for number, file in enumerate(files):
        room -= file.bytes
        if room < 0 and number >= least:
            break
        yield file.normal_path


def _take_runs(runs: Sequence[Sequence[DataFileEntry]], room: float) -> Iterator[str]:
    """Take files that are only merged, at least two of a run: one alone would come back as it
    was."""
    for number, run in enumerate(runs):
        found = list(_take_fitting(run, room, 0 if number else 2))
        if len(found) > 1:
            yield from found
        if len(found) < len(run):
            break
        room -= sum(file.bytes for file in run)


def _remaining_files(
    runs: Sequence[Sequence[DataFileEntry]], taken: frozenset[str], all_counts: bool
) -> Iterator[Costed]:
    """Yield the files that remain; in a run, a single file is no remaining work."""
    for run in runs:
        left = [file for file in run if file.normal_path not in taken]
        if len(left) > 1 or all_counts:
            yield from (Costed(file, file.bytes) for file in left)


def slice_of(
    order: RewriteFiles, start: int, left: RemainingWork, marks: StoredFile | None = None
) -> Slice | None:
    """Return the slice for the result; None: the order was the whole pass."""
    if order.after is None and not left.files:
        return None
    number = order.after.sequence_number if order.after else start
    ratio = order.min_dead_ratio
    return Slice(
        order.action, order.reason, number, ratio, left.files, bound_amount(left.bytes), marks
    )
