"""Virtual time: a heap of events, in whole ticks. Nothing runs beside anything else."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

import numpy as np
from firnline_domain.policy.costs import CostModel

from bench.simulate.fleet import Fleet, Floats, Ints, Timetable, fleet_of
from bench.simulate.lake import commit, lake_of
from bench.simulate.parameters import DAY_S, GB, Parameters
from bench.simulate.reading import Readers, scan_of
from bench.simulate.tasks import Batch, Ledger

Event = Callable[[int], None]
PER_WORKER = 4.0 * GB  # one more worker takes part in a task for so many bytes


class Rank(IntEnum):
    """What comes first within a tick."""

    END = 0
    COMMIT = 1
    ACT = 2
    SAMPLE = 3


class System(Protocol):
    """Whoever maintains the fleet."""

    name: str
    own: CostModel  # of the engine that it brings

    def committed(self, tick: int, units: Ints) -> None:
        """Writers committed to these units."""

    def act(self, tick: int) -> None:
        """Once a tick, after its commits: start what is wanted."""

    def ended(self, tick: int, batch: Batch) -> None:
        """Tasks of this system are done; the lake has what they give."""


@dataclass
class Sample:
    """The debt of the fleet at a moment."""

    day: float
    files: float
    fragments: float
    deletes: float
    cost_s: float  # of all reads until the next sample
    ideal_s: float


@dataclass
class World:
    """The lake, its writers and readers, and whatever is under way."""

    p: Parameters
    fleet: Fleet = field(init=False)
    ledger: Ledger = field(default_factory=Ledger)
    readers: Readers = field(default_factory=Readers)
    samples: list[Sample] = field(default_factory=list)
    commits: int = 0
    ingested: float = 0.0  # bytes

    def __post_init__(self) -> None:
        self.fleet = fleet_of(self.p)
        self.lake = lake_of(self.fleet, self.p)
        self.busy = np.zeros(self.fleet.units, dtype=bool)
        self._heap: list[tuple[int, int, int, Event]] = []
        self._pushed = 0
        self._times = Timetable(self.fleet, self.p.seed)
        self._rng = np.random.default_rng((self.p.seed, self.p.first))  # alike for everyone

    def at(self, tick: int, rank: Rank, event: Event) -> None:
        """Have something happen."""
        self._pushed += 1
        heapq.heappush(self._heap, (tick, rank, self._pushed, event))

    def run(self, system: System) -> None:
        """From the first tick to the last."""
        self._system = system
        self.at(0, Rank.COMMIT, self._write)
        self.at(0, Rank.ACT, self._act)
        self.at(self._sample_ticks, Rank.SAMPLE, self._sample)
        while self._heap and self._heap[0][0] < self.p.ticks:
            tick, _, _, event = heapq.heappop(self._heap)
            event(tick)

    def start(self, tick: int, units: Ints, batch: Batch) -> None:
        """Tasks start; they end by themselves, each after its own time."""
        self.busy[units] = True
        at_once = np.maximum(batch.taken.bytes / PER_WORKER, 1.0)
        seconds = batch.cpu_s / self.p.costs.cores / at_once
        ends = tick + np.ceil(seconds / self.p.tick_s).astype(np.int64)
        for end in np.unique(ends):
            chosen = ends == end
            part = Batch(
                units[chosen],
                batch.taken.of(np.flatnonzero(chosen)),
                batch.gives.of(np.flatnonzero(chosen)),
                batch.cpu_s[chosen],
            )
            self.at(int(end), Rank.END, lambda now, part=part: self._end(now, part))  # type: ignore[misc]

    def _end(self, tick: int, batch: Batch) -> None:
        self.lake.add(batch.units, batch.taken, -1.0)
        self.lake.add(batch.units, batch.gives)
        self.busy[batch.units] = False
        changed = (batch.taken.deletes + batch.taken.positions > 0) | (
            batch.gives.files < batch.taken.files
        )
        self.ledger.commits += len(np.unique(self.fleet.table[batch.units[changed]]))
        self._system.ended(tick, batch)

    def _write(self, tick: int) -> None:
        units = self._times.due(tick)
        before = float(self.lake.bytes[units].sum())
        commit(self.lake, self.fleet, units, self.p, self._rng)
        self.ingested += float(self.lake.bytes[units].sum()) - before
        self.commits += len(units)
        self._system.committed(tick, units)
        self.at(tick + 1, Rank.COMMIT, self._write)

    def _act(self, tick: int) -> None:
        self._system.act(tick)
        self.at(tick + 1, Rank.ACT, self._act)

    @property
    def _sample_ticks(self) -> int:
        return max(int(self.p.sample_s / self.p.tick_s), 1)

    def _sample(self, tick: int) -> None:
        scan = scan_of(self.lake, self.p)
        reads: Floats = self.fleet.reads_per_s * (self._sample_ticks * self.p.tick_s)
        self.readers.sampled(scan, reads)
        lake = self.lake
        self.samples.append(
            Sample(
                day=tick * self.p.tick_s / DAY_S,
                files=float(lake.files.sum()),
                fragments=float(lake.fragments.sum()),
                deletes=float(lake.deletes.sum() + lake.positions.sum()),
                cost_s=float(reads @ scan.cost_s),
                ideal_s=float(reads @ scan.ideal_s),
            )
        )
        self.at(tick + self._sample_ticks, Rank.SAMPLE, self._sample)
