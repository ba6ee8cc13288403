"""Virtual time: a heap of events. Nothing runs beside anything else."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

import numpy as np
from firnline_domain.base.values import replace
from firnline_domain.policy.cost_model import CpuRates

from bench.simulate.fleet import Flags, Fleet, Floats, Ints, Timetable, fleet_of
from bench.simulate.lake import Lake, commit, lake_of
from bench.simulate.parameters import DAY_S, Parameters, Reading
from bench.simulate.reading import Readers, scan_of
from bench.simulate.tasks import Batch, Choice, Ledger, batch_of, charge, finish

Event = Callable[[float], None]


class Rank(IntEnum):
    """What comes first within a moment."""

    END = 0
    COMMIT = 1
    ACT = 2
    SAMPLE = 3


class System(Protocol):
    """Whoever maintains the fleet."""

    name: str
    own: CpuRates  # of the engine that it brings
    parallel_bytes: float  # a task is spread over one more worker for so many
    together: bool  # all tasks of a table that start together end in one commit
    slice_s: float  # of work in one order: a longer task is a pass of several, each committed

    def committed(self, now_s: float, units: Ints) -> None:
        """Writers committed to these units."""

    def act(self, now_s: float) -> None:
        """After the commits of a tick, and after tasks have ended: start what is wanted."""

    def ended(self, now_s: float, batch: Batch) -> None:
        """Tasks of this system are done; the lake has what they give."""


@dataclass
class Sample:
    """The debt of the fleet at a moment."""

    day: float
    files: float
    deletes: float
    cost_s: float  # of all reads until the next sample
    ideal_s: float
    gb_hours: float  # so far


@dataclass
class World:
    """The lake, its writers and readers, and whatever is under way."""

    p: Parameters
    given: Fleet | None = None  # instead of one that is drawn
    readings: Mapping[str, Reading] = field(default_factory=dict)  # other judges of the same run
    fleet: Fleet = field(init=False)
    samples: list[Sample] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fleet = self.given or fleet_of(self.p)
        self.lake: Lake = lake_of(self.fleet, self.p)
        self.busy: Flags = np.zeros(self.fleet.units, dtype=bool)
        self._heap: list[tuple[float, int, int, Event]] = []
        self._pushed = 0
        self._acts: set[float] = set()
        self._times = Timetable(self.fleet, self.p)
        self._rng = np.random.default_rng((self.p.seed, self.p.first))  # alike for everyone
        self.commits_of = np.zeros(self.fleet.tables)  # everybody's, from the first tick on
        self._now_s = 0.0
        self._free = [0.0] * self.p.workers  # when each place is free: a heap
        self._begin()

    def _begin(self) -> None:
        """From here on everything counts."""
        tables = self.fleet.tables
        self.ledger, self.readers = Ledger(tables), Readers(tables)
        self.readers_by = {name: Readers(tables) for name in self.readings}
        self.commits, self.ingested = 0, 0.0  # bytes
        self.ingested_of = np.zeros(tables)
        self.samples.clear()

    def at(self, when_s: float, rank: Rank, event: Event) -> None:
        """Have something happen."""
        self._pushed += 1
        heapq.heappush(self._heap, (when_s, rank, self._pushed, event))

    def run(self, system: System) -> None:
        """From the first tick to the last."""
        self._system = system
        self._tick = 0
        self.at(0.0, Rank.COMMIT, self._write)
        self.at(self.p.sample_s, Rank.SAMPLE, self._sample)
        if self.p.warm_s > 0:
            self.at(self.p.warm_s, Rank.END, lambda _: self._begin())
        while self._heap and self._heap[0][0] < self.p.end_s:
            when_s, _, _, event = heapq.heappop(self._heap)
            self._now_s = when_s
            event(when_s)

    def start(self, now_s: float, units: Ints, choice: Choice) -> None:
        """Tasks start as soon as a place is free, in the order that they came; each commits by
        itself when its last part is done."""
        batch = batch_of(self.p, units, self.lake.of(units), choice, now_s)
        tables = self.fleet.table[units]
        cpu = charge(self.ledger, self.p, self._system.own, tables, batch)
        self.busy[units] = True
        taken = (batch.held.bytes * np.maximum(choice.rewrites, choice.converts)).sum(axis=1)
        slices = np.ceil(cpu / self.p.costs.cores / self._system.slice_s) - 1
        self._commit(tables, np.maximum(slices, 0.0))
        parts = np.maximum(np.ceil(taken / self._system.parallel_bytes), 1.0)
        ends = np.array([self._placed(now_s, *one) for one in zip(cpu, parts, strict=True)])
        if self._system.together:
            _, of = np.unique(tables, return_inverse=True)
            latest = np.zeros(of.max() + 1)
            np.maximum.at(latest, of, ends)
            ends = latest[of]
        for end_s in np.unique(ends):
            part = batch.of(np.flatnonzero(ends == end_s))
            self.at(float(end_s), Rank.END, lambda now, part=part: self._end(now, part))  # type: ignore[misc]

    def _placed(self, now_s: float, cpu_s: float, parts: float) -> float:
        """When a task ends whose parts take the next free places."""
        many = int(min(parts, len(self._free)))
        seconds, end_s = cpu_s * self.p.slowness / self.p.costs.cores / many, now_s
        for part in range(many):
            free_s = max(self._free[0], now_s)
            heapq.heapreplace(self._free, free_s + seconds)
            end_s = max(end_s, free_s + seconds)
            if part == 0:
                self.ledger.waited_s += free_s - now_s
                self.ledger.longest_wait_s = max(self.ledger.longest_wait_s, free_s - now_s)
        grain = self.p.grain_s
        return float(np.ceil((end_s + self.p.order_s) / grain) * grain)

    def _end(self, now_s: float, batch: Batch) -> None:
        finish(self.lake, batch, self.p.target_bytes)
        self.busy[batch.units] = False
        tables = np.unique(self.fleet.table[batch.units[batch.changes]])
        self._commit(tables, np.ones(len(tables)))
        self._system.ended(now_s, batch)
        self._act_at(now_s)

    def _commit(self, tables: Ints, times: Floats) -> None:
        """Commits of maintenance, and what they cost the store."""
        many, m = float(times.sum()), self.p.metadata
        self.ledger.commits += many
        np.add.at(self.ledger.by_table["commits"], tables, times)
        kept = self.commits_of[tables] * min(1.0, m.retained_s / max(self._now_s, 1.0))
        self.ledger.requests += many * m.requests_per_commit
        self.ledger.metadata_bytes += many * m.bytes_per_commit
        self.ledger.metadata_bytes += float((times * kept).sum()) * m.bytes_per_snapshot
        np.add.at(self.commits_of, tables, times)

    def _write(self, now_s: float) -> None:
        units, scale = self._times.due(self._tick, self._rng)
        size = commit(self.lake, self.fleet, units, scale, now_s, self.p, self._rng)
        self.ingested += float(size.sum())
        np.add.at(self.ingested_of, self.fleet.table[units], size)
        self.commits += len(units)
        tables = np.unique(self.fleet.table[units])
        self.commits_of[tables] += self.fleet.snapshots_in_tick[tables]
        self._system.committed(now_s, units)
        self._tick += 1
        self.at(self._tick * self.p.tick_s, Rank.COMMIT, self._write)
        self._act_at(now_s)

    def _act_at(self, now_s: float) -> None:
        """Once in a moment."""
        if now_s not in self._acts:
            self._acts.add(now_s)
            self.at(now_s, Rank.ACT, self._act)

    def _act(self, now_s: float) -> None:
        self._acts.discard(now_s)
        self._system.act(now_s)

    def reads_per_s(self, now_s: float) -> Floats:
        """Of each unit."""
        return self.fleet.reads(int(now_s / self.p.tick_s), self.p)

    def _sample(self, now_s: float) -> None:
        held = self.lake.all
        scan = scan_of(held, self.p)
        reads: Floats = self.reads_per_s(now_s) * self.p.sample_s
        self.readers.sampled(scan, reads, self.fleet.table, self.p.sample_s)
        for name, reading in self.readings.items():
            other = scan_of(held, replace(self.p, reading=reading))
            self.readers_by[name].sampled(other, reads, self.fleet.table, self.p.sample_s)
        self.readers.aged(now_s - self.lake.waits_since, self.fleet.table)
        self.samples.append(
            Sample(
                day=(now_s - self.p.warm_s) / DAY_S,
                files=float(held.files.sum()),
                deletes=float(held.deletes.sum() + held.positions.sum()),
                cost_s=float((reads * scan.cost_s).sum()),
                ideal_s=float((reads * scan.ideal_s).sum()),
                gb_hours=self.ledger.gb_hours,
            )
        )
        self.at(now_s + self.p.sample_s, Rank.SAMPLE, self._sample)

    def every(self, now_s: float, seconds: float, at_s: float = 0.0) -> bool:
        """Whether a round of so many seconds begins in this tick."""
        tick_s = max(self.p.tick_s, 1.0)
        if now_s % tick_s:
            return False
        return (now_s - at_s) % max(seconds, tick_s) < tick_s
