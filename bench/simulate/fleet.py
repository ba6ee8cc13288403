"""The tables of a simulation: who commits when and how much, and how often it is read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.simulate.parameters import HOUR_S, Kind, Parameters

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Fleet:
    """One row per unit: a partition of a table that commits touch. Arrays of equal length."""

    table: Ints
    kind: Ints
    commit_bytes: Floats  # median
    files: Ints
    upsert: Flags
    base_bytes: Floats
    reads_per_s: Floats
    period: Ints  # ticks
    phase: Ints
    burst: Ints  # ticks; 0 = always
    cycle: Ints  # ticks of burst and pause
    tables: int

    @property
    def units(self) -> int:
        return len(self.table)


def fleet_of(p: Parameters) -> Fleet:
    """The same for the same seed."""
    rng = np.random.default_rng(p.seed)
    kind = rng.choice(len(p.kinds), p.tables, p=_shares(p.kinds))
    parts = rng.choice(np.array(p.partitions), p.tables)
    base = p.largest_bytes / np.arange(1, p.tables + 1) ** p.zipf
    rng.shuffle(base)
    table = np.repeat(np.arange(p.tables), parts)
    of = kind[table]
    scale = np.exp(rng.normal(0, p.spread, p.tables))
    reads = np.exp(rng.normal(0, p.spread, p.tables))
    upsert = rng.random(p.tables) < _column(p.kinds, "upserts")[kind]
    period = np.maximum(_column(p.kinds, "period_s") / p.tick_s, 1).astype(np.int64)
    burst = (_column(p.kinds, "burst_s") / p.tick_s).astype(np.int64)
    pause = (_column(p.kinds, "pause_s") / p.tick_s).astype(np.int64)
    phase = rng.integers(0, 1 << 30, p.tables)  # a commit touches all partitions at once
    last = p.tables if p.last is None else p.last
    here = (table >= p.first) & (table < last)
    table, of = table[here], of[here]
    return Fleet(
        table=table - p.first,
        kind=of,
        commit_bytes=_column(p.kinds, "commit_bytes")[of] * scale[table],
        files=_column(p.kinds, "files").astype(np.int64)[of],
        upsert=upsert[table],
        base_bytes=base[table] / parts[table],
        reads_per_s=(_column(p.kinds, "reads_per_hour")[kind] * reads)[table] / HOUR_S,
        period=period[of],
        phase=phase[table] % period[of],
        burst=burst[of],
        cycle=(burst + pause)[of],
        tables=last - p.first,
    )


def _shares(kinds: tuple[Kind, ...]) -> Floats:
    shares = _column(kinds, "share")
    return np.asarray(shares / shares.sum())


def _column(kinds: tuple[Kind, ...], name: str) -> Floats:
    return np.array([float(getattr(kind, name)) for kind in kinds])


class Timetable:
    """Which units commit in a tick: those of one period and phase lie together."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet = fleet
        self._periods = [int(one) for one in np.unique(fleet.period)]
        self._due = {period: self._by_phase(period) for period in self._periods}
        shifts = np.random.default_rng(seed + 1).integers(0, 1 << 30, fleet.tables)
        self._shift = shifts[fleet.table] % np.maximum(fleet.cycle, 1)

    def _by_phase(self, period: int) -> list[Ints]:
        units = np.flatnonzero(self._fleet.period == period)
        units = units[np.argsort(self._fleet.phase[units], kind="stable")]
        ends = np.searchsorted(self._fleet.phase[units], np.arange(period + 1))
        return [units[ends[i] : ends[i + 1]] for i in range(period)]

    def due(self, tick: int) -> Ints:
        """Units that commit now, in ascending order."""
        units = np.concatenate([self._due[period][tick % period] for period in self._periods])
        fleet = self._fleet
        bursts = fleet.burst[units] > 0
        place = (tick + self._shift[units]) % np.maximum(fleet.cycle[units], 1)
        return np.sort(units[~bursts | (place < fleet.burst[units])])
