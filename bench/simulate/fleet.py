"""The tables of a simulation: who commits when and how much, and how often it is read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.simulate.parameters import DAY_S, HOUR_S, Kind, Parameters

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
NEVER = 1 << 40  # a tick


@dataclass(frozen=True)
class Fleet:
    """One row per unit: a partition of a table. Arrays of equal length, but for those per table."""

    table: Ints
    kind: Ints
    commit_bytes: Floats  # median
    files: Ints
    upsert: Flags
    merge: Flags
    recent_s: Floats  # half-life of a row's chance to be replaced; 0 = all rows alike
    vectors: Flags  # deletion vectors, not position-delete files
    base_bytes: Floats
    reads_per_s: Floats  # while it is written
    period: Ints  # ticks
    phase: Ints
    burst: Ints  # ticks; 0 = always
    cycle: Ints  # ticks of burst and pause
    opens: Ints  # tick of its first commit; before that it is not there
    closes: Ints  # tick after its last, but for late rows
    tables: int
    row_bytes: float
    commits_in_tick: Floats  # delete files of one commit of the simulation
    snapshots_in_tick: Floats  # per table: of such a commit
    base_file_bytes: Floats | None = None  # None = of the target size
    whole: Flags | None = (
        None  # equality deletes reach all partitions of the table; None = no one's
    )

    @property
    def units(self) -> int:
        return len(self.table)

    def reads(self, tick: int, p: Parameters) -> Floats:
        """Reads a second of each unit at a moment: of a closed one less with every day."""
        age_s = np.maximum(tick - self.closes, 0) * p.tick_s
        rate = self.reads_per_s * np.exp2(-age_s / p.reads_fade_s)
        return np.asarray(np.where(tick >= self.opens, rate, 0.0))


def fleet_of(p: Parameters) -> Fleet:
    """The same for the same seed."""
    rng = np.random.default_rng(p.seed)
    kind = rng.choice(len(p.kinds), p.tables, p=_shares(p.kinds))
    parts = rng.choice(np.array(p.partitions), p.tables)
    base = p.largest_bytes / np.arange(1, p.tables + 1) ** p.zipf
    rng.shuffle(base)
    scale = np.exp(rng.normal(0, p.spread, p.tables))
    reads = np.exp(rng.normal(0, p.spread, p.tables))
    chance = rng.random(p.tables)
    upserts = _column(p.kinds, "upserts")[kind]
    upsert = chance < upserts
    merge = ~upsert & (chance < upserts + _column(p.kinds, "merges")[kind])
    by_day = rng.random(p.tables) < _column(p.kinds, "by_day")[kind]
    recent = rng.random(p.tables) < p.recent_share
    vectors = rng.random(p.tables) < p.vectors
    phases = rng.integers(0, 1 << 30, p.tables)  # a commit touches all partitions at once
    days = p.days_before + int(np.ceil(p.end_s / DAY_S))
    units = np.where(by_day, days, parts)
    table = np.repeat(np.arange(p.tables), units)
    starts = np.cumsum(units) - units
    place = np.arange(len(table)) - starts[table]
    last = p.tables if p.last is None else p.last
    here = (table >= p.first) & (table < last)
    table, place = table[here], place[here]
    of, day = kind[table], by_day[table]
    period = np.maximum(_column(p.kinds, "period_s") / p.tick_s, 1).astype(np.int64)
    burst = (_column(p.kinds, "burst_s") / p.tick_s).astype(np.int64)
    pause = (_column(p.kinds, "pause_s") / p.tick_s).astype(np.int64)
    in_day = int(DAY_S / p.tick_s)
    opens = np.where(day, (place - p.days_before) * in_day, -NEVER)
    older = day & (place < p.days_before)
    # What a table by day has at first lies in its days, as much as a day of commits brings.
    bases = np.where(
        day, np.where(older, base[table] / p.days_before, 0.0), base[table] / parts[table]
    )
    per_hour = _column(p.kinds, "reads_per_hour")[kind] * reads
    return Fleet(
        table=table - p.first,
        kind=of,
        commit_bytes=_column(p.kinds, "commit_bytes")[of] * scale[table],
        files=_column(p.kinds, "files").astype(np.int64)[of],
        upsert=upsert[table],
        merge=merge[table],
        recent_s=np.where(recent[table] & (upsert | merge)[table], p.recent_s, 0.0),
        vectors=vectors[table],
        base_bytes=bases,
        reads_per_s=per_hour[table] / HOUR_S,
        period=period[of],
        phase=phases[table] % period[of],
        burst=burst[of],
        cycle=(burst + pause)[of],
        opens=opens,
        closes=np.where(day, opens + in_day, NEVER),
        tables=last - p.first,
        row_bytes=p.row_bytes,
        commits_in_tick=np.ones(len(table)),
        snapshots_in_tick=np.ones(last - p.first),
    )


def _shares(kinds: tuple[Kind, ...]) -> Floats:
    shares = _column(kinds, "share")
    return np.asarray(shares / shares.sum())


def _column(kinds: tuple[Kind, ...], name: str) -> Floats:
    return np.array([float(getattr(kind, name)) for kind in kinds])


class Timetable:
    """Which units commit in a tick: those of one period and phase lie together."""

    def __init__(self, fleet: Fleet, p: Parameters) -> None:
        self._fleet, self._p = fleet, p
        self._late = int(p.late_days * DAY_S / p.tick_s)
        self._periods = [int(one) for one in np.unique(fleet.period)]
        self._due = {period: self._by_phase(period) for period in self._periods}
        every = max(p.tables, p.first + fleet.tables)  # of the whole fleet: alike in any shard
        shifts = np.random.default_rng(p.seed + 1).integers(0, 1 << 30, every)
        self._shift = shifts[fleet.table + p.first] % np.maximum(fleet.cycle, 1)

    def _by_phase(self, period: int) -> list[Ints]:
        units = np.flatnonzero(self._fleet.period == period)
        units = units[np.argsort(self._fleet.phase[units], kind="stable")]
        ends = np.searchsorted(self._fleet.phase[units], np.arange(period + 1))
        return [units[ends[i] : ends[i + 1]] for i in range(period)]

    def due(self, tick: int, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """Units that commit now, in ascending order, and how large their commits are: late rows
        are a hundredth of a commit."""
        fleet = self._fleet
        units = np.concatenate([self._due[period][tick % period] for period in self._periods])
        there = (fleet.opens[units] <= tick) & (tick < fleet.closes[units] + self._late)
        units = np.sort(units[there])
        place = (tick + self._shift[units]) % np.maximum(fleet.cycle[units], 1)
        late = tick >= fleet.closes[units]
        chance = rng.random(len(units)) < self._p.late_share / max(self._p.late_days, 1)
        writes = ((fleet.burst[units] == 0) | (place < fleet.burst[units])) & (~late | chance)
        return units[writes], np.where(late, 0.01, 1.0)[writes]
