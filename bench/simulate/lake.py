"""What the units hold at a moment, as arrays; and tasks that take files away and bring others."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from bench.simulate.fleet import Flags, Fleet, Floats, Ints
from bench.simulate.parameters import Parameters

FRAGMENT, UNDERSIZED, RIGHT = 0.0, 1 / 8, 0.75  # of the target, as in `tallies`


@dataclass
class Holds:
    """Files and bytes per unit by size class, and what masks their rows."""

    fragments: Floats
    fragment_bytes: Floats
    undersized: Floats
    undersized_bytes: Floats
    large: Floats  # on target and above
    large_bytes: Floats
    deletes: Floats  # equality-delete files
    delete_records: Floats
    positions: Floats  # position-delete files
    position_records: Floats
    dead_bytes: Floats  # of rows that a delete masks, in data files

    @classmethod
    def nothing(cls, units: int) -> Holds:
        return cls(*(np.zeros(units) for _ in fields(cls)))

    @property
    def files(self) -> Floats:
        return self.fragments + self.undersized + self.large

    @property
    def bytes(self) -> Floats:
        return self.fragment_bytes + self.undersized_bytes + self.large_bytes

    @property
    def segments(self) -> Floats:
        """Data files that are no fragments."""
        return self.undersized + self.large

    @property
    def segment_bytes(self) -> Floats:
        return self.undersized_bytes + self.large_bytes

    def of(self, units: Ints) -> Holds:
        """A copy of some units."""
        return Holds(*(getattr(self, each.name)[units] for each in fields(self)))

    def where(self, chosen: Flags | Floats) -> Holds:
        """Scaled per unit: 0 or False takes nothing of it."""
        return Holds(*(getattr(self, each.name) * chosen for each in fields(self)))

    def add(self, units: Ints, other: Holds, sign: float = 1.0) -> None:
        """Add (or, -1, take) what `other` has for these units, each named once."""
        for each in fields(self):
            getattr(self, each.name)[units] += sign * getattr(other, each.name)

    def put_data(self, units: Ints, files: Floats, size: Floats, target: float) -> None:
        """Add data files of one size per unit, each in its class."""
        for names, low, high in _CLASSES:
            there = np.where((size >= low * target) & (size < high * target), files, 0.0)
            getattr(self, names[0])[units] += there
            getattr(self, names[1])[units] += there * size


_CLASSES = (
    (("fragments", "fragment_bytes"), FRAGMENT, UNDERSIZED),
    (("undersized", "undersized_bytes"), UNDERSIZED, RIGHT),
    (("large", "large_bytes"), RIGHT, np.inf),
)


def lake_of(fleet: Fleet, p: Parameters) -> Holds:
    """All bases lie in files of the target size, or in one that is smaller."""
    lake = Holds.nothing(fleet.units)
    put_whole(lake, np.arange(fleet.units), fleet.base_bytes, p.target_bytes)
    return lake


def fills(held: Holds, target: float) -> Flags:
    """`levels.fills`."""
    files = held.fragments + held.undersized
    size = held.fragment_bytes + held.undersized_bytes
    pairs = (held.undersized > 0) & (2 * held.undersized_bytes < target * held.undersized)
    return np.asarray((files > 1) & (size >= target) & ((held.undersized == 0) | pairs))


def merged_of(held: Holds, target: float) -> Holds:
    """The files that a merge takes (`levels.taken_by_merge`)."""
    taken, filling = Holds.nothing(len(held.files)), fills(held, target)
    some = filling | (held.fragments > 1)
    taken.fragments, taken.fragment_bytes = held.fragments * some, held.fragment_bytes * some
    taken.undersized = held.undersized * filling
    taken.undersized_bytes = held.undersized_bytes * filling
    return taken


SPREAD = 0.1  # of a target: what is left over goes into the other files, not into its own


def put_whole(lake: Holds, units: Ints, size: Floats, target: float) -> None:
    """Add so many bytes as a rewrite writes them: full files, and one of what is left over."""
    full = np.floor(size / target)
    rest = size - full * target
    spread = (full > 0) & (rest < SPREAD * target)
    each = target + np.where(spread, rest / np.maximum(full, 1), 0.0)
    lake.put_data(units, full, each, target)
    left = np.where(spread, 0.0, rest)
    lake.put_data(units, (left > 0).astype(float), left, target)


def commit(lake: Holds, fleet: Fleet, units: Ints, p: Parameters, rng: np.random.Generator) -> None:
    """One commit of each of the units: data files, and a delete file of the same keys."""
    size = fleet.commit_bytes[units] * np.exp(rng.normal(0, 0.5, len(units)))
    files = fleet.files[units].astype(float)
    size = np.floor(size / files) * files  # whole bytes: sums stay exact
    lake.put_data(units, files, size / files, p.target_bytes)
    upsert = fleet.upsert[units].astype(float)
    before = lake.bytes[units] > size * 1.01  # the first rows of a table replace nothing
    lake.deletes[units] += upsert
    lake.delete_records[units] += upsert * np.floor(size / p.row_bytes)
    lake.dead_bytes[units] += upsert * np.floor(size * p.hit_share) * before
