"""Which files the peers take, as their code does (commits: bench/results). Functions of what
units hold; the files of a cohort are alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.simulate.fleet import Flags, Floats
from bench.simulate.lake import FRAGMENT, LARGE, OVER, RIGHT, UNDERSIZED, Held
from bench.simulate.parameters import GB, MB
from bench.simulate.tasks import Choice

MINOR, MAJOR, FULL = "minor", "major", "full"


@dataclass(frozen=True)
class AmoroSettings:
    """Its defaults (OptimizingConfig)."""

    least_files: int = 12  # self-optimizing.minor.trigger.file-count
    interval_s: float = 3_600.0  # self-optimizing.minor.trigger.interval
    duplicate_ratio: float = 0.1  # self-optimizing.major.trigger.duplicate-ratio
    full_s: float = -1.0  # self-optimizing.full.trigger.interval
    open_bytes: float = 4.0 * MB  # read.split.open-file-cost


@dataclass(frozen=True)
class AmoroPlan:
    """Of each unit: whether a process is necessary, which, what it takes and what it weighs."""

    necessary: Flags
    major: Flags
    full: Flags
    choice: Choice
    cost: Floats


def amoro_plan(
    held: Held,
    target: float,
    minor_age_s: Floats,
    settings: AmoroSettings = AmoroSettings(),
    full_age_s: Floats | None = None,
) -> AmoroPlan:
    """`CommonPartitionEvaluator`, `AbstractPartitionPlan.addFile` and `BinPackingTaskSplitter`."""
    files, size, positions = held.files, held.bytes, held.positions
    there = files > 1e-6
    each = size / np.maximum(files, 1e-9)
    per_file = positions / np.maximum(files, 1e-9)  # position-delete files of a data file
    fragment, under, large = (np.zeros(held.files.shape, dtype=bool) for _ in range(3))
    fragment[:, FRAGMENT], under[:, UNDERSIZED], large[:, LARGE] = True, True, True
    due = np.zeros(len(files), dtype=bool)
    if settings.full_s >= 0 and full_age_s is not None:
        due = full_age_s > settings.full_s
    rewrite = there & (fragment | (held.masked > settings.duplicate_ratio) | due[:, None])
    small = there & under & ~rewrite  # `undersizedSegmentFiles`
    # `segmentShouldRewritePos`: its own position deletes, one for each file, need nothing more.
    convert = there & large & ~rewrite & ((held.reach > 0) | (per_file > 1 + 1e-6))

    rewritten_segments = (files * (rewrite & ~fragment)).sum(axis=1)
    small_files, small_bytes = (files * small).sum(axis=1), (size * small).sum(axis=1)
    enough = (small_bytes >= target) & _two_fit(files, each, small, target)
    major = enough | (rewritten_segments > 1e-6)
    count = files[:, FRAGMENT].sum(axis=1) + held.deletes
    minor = (count >= settings.least_files) | ((count > 1) & (minor_age_s > settings.interval_s))
    minor |= (there & large & ~rewrite & (per_file > 1 + 1e-6)).any(axis=1)
    deletes = (held.deletes > 0) | (positions.sum(axis=1) > 0)
    full = due & (deletes | (files[:, FRAGMENT].sum(axis=1) >= 2) | (small_files >= 2))
    full |= due & (rewritten_segments > 1e-6)
    necessary = np.where(due, full, major | minor)

    # Undersized files are packed with each other into bins of the target; one that is alone in
    # its bin is only converted.
    mean = small_bytes / np.maximum(small_files, 1e-9)
    per_bin = np.maximum(np.floor(target / np.maximum(mean, 1.0)), 1.0)
    alone = np.where(per_bin < 2, small_files, np.where(small_files % per_bin == 1, 1.0, 0.0))
    alone = np.where(small_files <= 1, small_files, alone)
    packed = (1 - alone / np.maximum(small_files, 1e-9))[:, None] * small
    left = small & ((held.reach > 0) | (per_file > 1 + 1e-6))
    # A fragment that is alone in its task, without deletes, is left (`enoughInputFiles`).
    others = (files * (rewrite & ~fragment)).sum(axis=1) + (files * convert).sum(axis=1)
    lonely = (files[:, FRAGMENT].sum(axis=1) <= 1) & (others == 0)
    lonely &= (held.reach + positions)[:, FRAGMENT].sum(axis=1) == 0
    rewrites = rewrite.astype(float)
    rewrites[:, FRAGMENT] *= ~lonely[:, None]
    rewrites += packed
    converts = convert + np.where(left, 1 - packed, 0.0)
    everything = np.ones(len(files), dtype=bool)
    choice = Choice(np.minimum(rewrites, 1.0), np.minimum(converts, 1.0), everything, apart=True)
    moved = (size * (rewrite | small)).sum(axis=1) * 2 + (size * convert).sum(axis=1) / 10
    opened = (files * (rewrite | small | convert)).sum(axis=1) + held.deletes
    moved = moved + (opened + positions.sum(axis=1)) * settings.open_bytes
    return AmoroPlan(necessary, major, full, choice, np.asarray(moved))


def _two_fit(files: Floats, each: Floats, some: Flags, target: float) -> Flags:
    """Whether the two smallest files make up one."""
    sizes = np.where(some & (files > 1e-6), each, np.inf)
    order = np.sort(sizes, axis=1)
    twice = np.where(some & (files > 1 + 1e-6), 2 * each, np.inf).min(axis=1)
    return np.asarray(np.minimum(order[:, 0] + order[:, 1], twice) <= target)


@dataclass(frozen=True)
class BinPackSettings:
    """Its defaults (SizeBasedFileRewritePlanner, BinPackRewriteFilePlanner)."""

    min_files: int = 5  # min-input-files
    delete_files: float = np.inf  # delete-file-threshold
    delete_ratio: float = 0.3  # delete-ratio-threshold: of deletes that are of one file
    group_bytes: float = 100.0 * GB  # max-file-group-size-bytes
    rewrite_all: bool = False


def bin_pack(held: Held, target: float, settings: BinPackSettings = BinPackSettings()) -> Choice:
    """`filterFiles` and `filterFileGroups`. Equality deletes stay where any older file is left."""
    files, size = held.files, held.bytes
    there = files > 1e-6
    each = size / np.maximum(files, 1e-9)
    wrong = (each < RIGHT * target) | (each > OVER * target)
    many = (held.reach + held.positions / np.maximum(files, 1e-9)) >= settings.delete_files
    dead = held.masked >= settings.delete_ratio
    taken = there & (wrong | many | dead | settings.rewrite_all)
    count, total = (files * taken).sum(axis=1), (size * taken).sum(axis=1)
    groups = np.maximum(np.ceil(total / settings.group_bytes), 1.0)
    count, total = count / groups, total / groups
    good = (count > 1) & ((count >= settings.min_files) | (total > target))
    good |= total > OVER * target
    good |= (taken & (many | dead)).any(axis=1) | settings.rewrite_all
    rewrites = (taken & good[:, None]).astype(float)
    left = (there & (rewrites == 0)).any(axis=1)
    return Choice(rewrites, np.zeros_like(rewrites), ~left)


def size_errors(held: Held, target: float) -> tuple[Floats, Floats]:
    """Of each unit: the sum of its files' squared distances from the target, and their number."""
    each = held.bytes / np.maximum(held.files, 1e-9)
    squares = held.files * np.square(np.minimum(each - target, 0.0) / target)
    return squares.sum(axis=1), held.files.sum(axis=1)
