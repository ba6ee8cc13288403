"""What the units hold at a moment, as arrays.

A unit holds its data files as cohorts: files of about one size and one history, so that a share of
dead rows is a share of each file's. A cohort is masked by position deletes (or vectors) of its own,
and by those equality deletes that came after it (`seen`: its high-water mark among them).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.simulate.fleet import Flags, Fleet, Floats, Ints
from bench.simulate.parameters import Parameters

SMALL, RIGHT, OVER = 1 / 8, 0.75, 1.8  # of the target, as in `tallies`
VARIATION = 0.5  # sigma of the lognormal of a table's commits
FRAGMENT, UNDERSIZED, LARGE = slice(0, 1), slice(1, 4), slice(4, 12)
COHORTS = 12

# Rows of `Lake.cohorts`. Those up to POSITIONS add up; the others are means over a cohort's files.
FILES, BYTES, MASKED, PENDING, POSITIONS, SEEN, SEEN_RECORDS, BORN = range(8)
ADDED = 5  # how many add up
FIELDS = 8
Cube = npt.NDArray[np.float64]  # field, unit, cohort


@dataclass(frozen=True)
class Held:
    """Some units at a moment. Two-dimensional arrays have a column per cohort."""

    cohorts: Cube
    came: Floats  # equality deletes that ever came: files, records
    cleared: Floats  # the first so many of them are gone

    @property
    def files(self) -> Floats:
        return np.asarray(self.cohorts[FILES])

    @property
    def bytes(self) -> Floats:
        return np.asarray(self.cohorts[BYTES])

    @property
    def dead(self) -> Floats:
        """Bytes of rows that a delete masks."""
        return np.asarray(self.cohorts[MASKED] + self.cohorts[PENDING])

    @property
    def live(self) -> Floats:
        return np.asarray(np.maximum(self.bytes - self.dead, 0.0))

    @property
    def masked(self) -> Floats:
        """The share of each file's rows that its positions mask."""
        return np.asarray(self.cohorts[MASKED] / np.maximum(self.bytes, 1.0))

    @property
    def positions(self) -> Floats:
        """Position-delete files and vectors."""
        return np.asarray(self.cohorts[POSITIONS])

    @property
    def reach(self) -> Floats:
        """Equality-delete files that reach a file of the cohort."""
        return self._reach(0, SEEN)

    @property
    def reach_records(self) -> Floats:
        return self._reach(1, SEEN_RECORDS)

    def _reach(self, row: int, seen: int) -> Floats:
        known = np.maximum(self.cohorts[seen], self.cleared[row][:, None])
        reach = np.maximum(self.came[row][:, None] - known, 0.0)
        return np.asarray(np.where(self.files > 1e-6, reach, 0.0))

    @property
    def deletes(self) -> Floats:
        """Equality-delete files that are left, as many as reach the oldest cohort."""
        return np.asarray(self.reach.max(axis=1))

    @property
    def delete_records(self) -> Floats:
        return np.asarray(self.reach_records.max(axis=1))

    def of(self, chosen: Flags | Ints) -> Held:
        """Some of these units."""
        return Held(self.cohorts[:, chosen], self.came[:, chosen], self.cleared[:, chosen])


class Lake:
    """All units. Files are fractions where a mean is meant."""

    def __init__(self, units: int) -> None:
        self.cohorts: Cube = np.zeros((FIELDS, units, COHORTS))
        self.came: Floats = np.zeros((2, units))
        self.cleared: Floats = np.zeros((2, units))
        self.waits_since: Floats = np.full(units, np.inf)  # the oldest delete that is left: s

    def of(self, units: Ints) -> Held:
        """A copy of some units."""
        return Held(self.cohorts[:, units], self.came[:, units], self.cleared[:, units])

    @property
    def all(self) -> Held:
        """A view of every unit."""
        return Held(self.cohorts, self.came, self.cleared)

    def put(
        self,
        units: Ints,
        files: Floats,
        size: Floats,
        seen: Floats,
        born: Floats | float,
        target: float,
    ) -> Ints:
        """Add files of one size per unit, none of whose rows is dead; the cohorts that take them.
        An empty cohort of their class, or the one with the smallest share of dead rows."""
        there = files > 0
        slots = self._slots(units, size, target)
        files = np.where(there, files, 0.0)
        at = self.cohorts
        had = at[FILES, units, slots]
        share = files / np.maximum(had + files, 1e-9)
        at[FILES, units, slots] = had + files
        at[BYTES, units, slots] += files * size
        for row, mean in ((SEEN, seen[0]), (SEEN_RECORDS, seen[1]), (BORN, born)):
            before = at[row, units, slots]
            at[row, units, slots] = before + share * (mean - before)
        return slots

    def _slots(self, units: Ints, size: Floats, target: float) -> Ints:
        cohorts = self.cohorts[:, units]
        dead = (cohorts[MASKED] + cohorts[PENDING]) / np.maximum(cohorts[BYTES], 1.0)
        score = np.where(cohorts[FILES] > 1e-6, dead, -1.0)
        under = UNDERSIZED.start + np.argmin(score[:, UNDERSIZED], axis=1)
        large = LARGE.start + np.argmin(score[:, LARGE], axis=1)
        small = size < SMALL * target
        return np.asarray(np.where(small, 0, np.where(size < RIGHT * target, under, large)))

    def put_whole(
        self,
        units: Ints,
        size: Floats,
        seen: Floats,
        born: Floats | float,
        target: float,
        to: Cube | None = None,
    ) -> Floats:
        """Add so many bytes as a rewrite writes them: full files, and one of what is left over.
        `to` [unit, cohort] is told the bytes that each cohort got. How many files these are."""
        full, each, left = whole(size, target)
        found = np.zeros(len(units))
        for files, of in ((full, each), ((left > 0).astype(float), left)):
            slots = self.put(units, files, of, seen, born, target)
            if to is not None:
                to[np.arange(len(units)), slots] += files * of
            found += files
        return found


SPREAD = 0.1  # of a target: what is left over goes into the other files, not into its own


def whole(size: Floats, target: float) -> tuple[Floats, Floats, Floats]:
    """Full files, the size of each, and of the last."""
    full = np.floor(size / target)
    rest = size - full * target
    spread = (full > 0) & (rest < SPREAD * target)
    each = target + np.where(spread, rest / np.maximum(full, 1), 0.0)
    return full, each, np.where(spread, 0.0, rest)


def lake_of(fleet: Fleet, p: Parameters) -> Lake:
    """Bases lie in files of the target size, or in one that is smaller; where keys are mostly of
    the last hours, in four cohorts of different age."""
    lake = Lake(fleet.units)
    recent = fleet.recent_s > 0
    parts = 4
    for part in range(parts):
        share = np.where(recent, 1 / parts, 1.0 if part == 0 else 0.0)
        some = np.flatnonzero((share > 0) & (fleet.base_bytes > 0))
        born = -p.recent_s * (1.0 + 4 * part)
        seen = np.zeros((2, len(some)))
        size = (fleet.base_bytes * share)[some]
        if fleet.base_file_bytes is None:
            lake.put_whole(some, size, seen, born, p.target_bytes)
        else:
            files = np.ceil(size / fleet.base_file_bytes[some])
            lake.put(some, files, size / files, seen, born, p.target_bytes)
    return lake


def kill(lake: Lake, fleet: Fleet, units: Ints, hits: Floats, now_s: float, pending: bool) -> None:
    """So many bytes of rows are dead from now on: by an equality delete, or by positions. Which
    ones depends on where the keys of a table lie."""
    cohorts = lake.cohorts[:, units]
    live = np.maximum(cohorts[BYTES] - cohorts[MASKED] - cohorts[PENDING], 0.0)
    age = now_s - cohorts[BORN]
    half = fleet.recent_s[units][:, None]
    weight = np.where(half > 0, np.exp2(-age / np.maximum(half, 1.0)) + 0.01, 1.0)
    wanted = np.minimum(hits, live.sum(axis=1))
    dead = np.zeros_like(live)
    for _ in range(3):  # what a small cohort cannot give comes from the others
        left = live - dead
        pull = left * weight
        total = pull.sum(axis=1)
        part = (wanted - dead.sum(axis=1)) / np.maximum(total, 1e-9)
        dead += np.minimum(pull * part[:, None], left)
    rest = (wanted - dead.sum(axis=1)) / np.maximum((live - dead).sum(axis=1), 1e-9)
    dead += (live - dead) * np.clip(rest, 0.0, 1.0)[:, None]
    lake.cohorts[PENDING if pending else MASKED, units] += dead
    if pending:
        return
    files = cohorts[FILES]
    rows = dead / fleet.row_bytes
    touched = files * -np.expm1(-rows / np.maximum(files, 1e-9))
    lake.cohorts[POSITIONS, units] = _with_positions(
        cohorts[POSITIONS], touched, files, fleet.vectors[units]
    )


def _deleted(lake: Lake, fleet: Fleet, units: Ints, records: Floats, now_s: float) -> None:
    """Equality deletes have come. One that reaches all partitions is there for each of them."""
    lake.came[0, units] += fleet.commits_in_tick[units]
    lake.came[1, units] += records
    lake.waits_since[units] = np.minimum(lake.waits_since[units], now_s)
    if fleet.whole is None or not fleet.whole[units].any():
        return
    for table in np.unique(fleet.table[units[fleet.whole[units]]]):
        own = units[fleet.table[units] == table]
        others = np.setdiff1d(np.flatnonzero(fleet.table == table), own)
        lake.waits_since[others] = np.minimum(lake.waits_since[others], now_s)
        lake.came[0, others] += fleet.commits_in_tick[own[0]]
        lake.came[1, others] += records[fleet.table[units] == table].sum()


def _with_positions(had: Floats, touched: Floats, files: Floats, vectors: Flags) -> Floats:
    """A vector holds all positions of its file; of position-delete files a file has several."""
    safe = np.maximum(files, 1e-9)
    covered = files * (1 - (1 - np.minimum(had / safe, 1)) * (1 - np.minimum(touched / safe, 1)))
    return np.asarray(np.where(vectors[:, None], covered, had + touched))


def commit(
    lake: Lake,
    fleet: Fleet,
    units: Ints,
    scale: Floats,
    now_s: float,
    p: Parameters,
    rng: np.random.Generator,
) -> Floats:
    """One commit of each of the units: data files, and deletes of rows that they replace. `scale`:
    of a commit's usual bytes. The bytes that came."""
    size = fleet.commit_bytes[units] * np.exp(rng.normal(0, VARIATION, len(units))) * scale
    files = np.where(scale < 1, 1.0, fleet.files[units].astype(float))
    size = np.floor(size / files) * files  # whole bytes: sums stay exact
    upsert, merge = fleet.upsert[units], fleet.merge[units]
    if upsert.any():
        some = units[upsert]
        kill(lake, fleet, some, np.floor(size[upsert] * p.hit_share), now_s, pending=True)
        _deleted(lake, fleet, some, np.floor(size[upsert] / p.row_bytes), now_s)
    if merge.any():
        some = units[merge]
        kill(lake, fleet, some, np.floor(size[merge] * p.merge_share), now_s, pending=False)
    lake.put(units, files, size / files, lake.came[:, units], now_s, p.target_bytes)
    return size
