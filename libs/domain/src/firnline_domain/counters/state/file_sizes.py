"""Estimate how far data files are from the size that their table aims at, and what a merge would
improve.

The counters know files and bytes per size class, no squares: files of a class count as their mean,
so errors are lower bounds (by less than a sixteenth of the target for fragments). Files above the
target count as on target: a large file is left alone, and nothing can be merged into it.

Small files are merged level by level: L0 (fragments) into L1 or L2, L1 (undersized) into L2.
Hysteresis: what a merge leaves below the target takes part again only when it fills a file of the
target size together with what came since. So a byte is written once per level, not once per
merge."""

from __future__ import annotations

from math import sqrt

from firnline_domain.records.parts.tallies import FileTally, Tally

NONE = Tally()
ROOM = 1.5  # targets of input per group: its outputs are in range with 50 % to 100 % of rows left


def size_error(holds: FileTally, target_bytes: int) -> float:
    """Return the root of the mean squared distance (MSE) of the data files from the target, in
    targets: 0 = all are of that size, 1 = they are tiny compared with it. 0 without files."""
    squares, files = 0.0, 0
    for tally in (holds.fragments, holds.undersized, holds.on_target, holds.oversized):
        if tally.files > 0:
            squares += tally.files * _size_error(tally.bytes / tally.files, target_bytes) ** 2
            files += tally.files
    return sqrt(squares / files) if files else 0.0


def merged_files(small: Tally, target_bytes: int) -> int:
    """Return the number of files after a merge of these: full ones, and one of the rest."""
    if small.files < 2 or small.bytes <= 0:
        return small.files
    return min(-(-small.bytes // max(target_bytes, 1)), small.files)


def mendable_error(holds: FileTally, target_bytes: int) -> float:
    """Return by how much a merge would bring the small files themselves nearer to the target. Not
    all files: next to three good ones, three nearly empty files would seem worth a merge (0.71 to
    0.5), and so would the next two, again and again."""
    small, files = holds.fragments, merged_files(holds.fragments, target_bytes)
    if files >= small.files or files < 1:
        return 0.0
    rest = small.bytes % max(target_bytes, 1)  # of the last one; the others are full
    left = _size_error(rest, target_bytes) / sqrt(files) if rest else 0.0
    return max(_size_error(small.bytes / small.files, target_bytes) - left, 0.0)


def _size_error(size: float, target_bytes: int) -> float:
    return max(1 - size / max(target_bytes, 1), 0.0)


def taken_by_merge(holds: FileTally, target_bytes: int) -> Tally:
    """Return the files that the next merge takes; NONE if it would change nothing."""
    small = holds.fragments + holds.undersized
    if fills_target(holds, target_bytes):
        return small
    return holds.fragments if holds.fragments.files > 1 else NONE


def fills_target(holds: FileTally, target_bytes: int) -> bool:
    """Return True if small files make up a file of the target size, and of the undersized two fit
    into one: two of 70 % would come back as one of 100 % and one of 40 %, and again, and again."""
    small, under = holds.fragments + holds.undersized, holds.undersized
    pairs = under.files > 0 and 2 * under.bytes < target_bytes * under.files
    return small.files > 1 and small.bytes >= target_bytes and (under.files == 0 or pairs)


def undersized_debt(holds: FileTally, target_bytes: int) -> int:
    """Return how many undersized files a merge would take; 0 if they wait for more."""
    files = holds.undersized.files
    return files if files and fills_target(holds, target_bytes) else 0


def spared_by_merge(holds: FileTally, target_bytes: int) -> int:
    """Return by how many files a merge reduces the partition."""
    taken = taken_by_merge(holds, target_bytes)
    return max(taken.files - -(-taken.bytes // max(target_bytes, 1)), 0)


def group_count(total_bytes: int, target_bytes: int, least: int = 1) -> int:
    """Return how many groups a rewrite of these bytes is cut into, as far as it has the files."""
    return max(least, round(total_bytes / (ROOM * max(target_bytes, 1))), 1)


def output_count(group_bytes: float, target_bytes: int) -> int:
    """Return how many files one group becomes if no row is dead."""
    return max(round(group_bytes / max(target_bytes, 1)), 1)


def files_after(taken: Tally, target_bytes: int, least: int = 1) -> int:
    """Estimate how many files a rewrite of these leaves: each counts as their mean, and neighbours
    go into one group."""
    if taken.files <= 0:
        return 0
    groups = min(group_count(taken.bytes, target_bytes, least), taken.files)
    mean, (few, more) = taken.bytes / taken.files, divmod(taken.files, groups)
    of_few = (groups - more) * output_count(few * mean, target_bytes)
    return of_few + more * output_count((few + 1) * mean, target_bytes)
