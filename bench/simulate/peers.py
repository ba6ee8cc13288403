"""What others do with the same fleet: seed stages of a lake's maintenance, and its competitors."""

from __future__ import annotations

import numpy as np
from firnline_domain.base.values import replace
from firnline_domain.policy.cost_model import FIRNLINE, STOCK_CACHED

from bench.simulate.choosing import (
    MAJOR,
    MINOR,
    AmoroSettings,
    BinPackSettings,
    amoro_plan,
    bin_pack,
    size_errors,
)
from bench.simulate.fleet import Flags, Floats, Ints
from bench.simulate.lake import FRAGMENT, Held
from bench.simulate.parameters import DAY_S, GB, HOUR_S, MB
from bench.simulate.tasks import Batch, Choice
from bench.simulate.world import World

SPARK = replace(STOCK_CACHED, open_s=0.002, convert_s=FIRNLINE.convert_s)
OURS = FIRNLINE


class Peer:
    """A loop that looks at all tables, whether or not anything happened to them."""

    name = ""
    own = SPARK  # Iceberg's action, its delete cache on
    parallel_bytes = 512.0 * MB  # Spark's tasks
    together = False
    slice_s = np.inf

    def __init__(self, world: World) -> None:
        self.world = world
        self._moved = np.ones(world.fleet.units, dtype=bool)  # since it was looked at in vain

    def committed(self, now_s: float, units: Ints) -> None:
        """Nobody tells it; but what has not changed need not be weighed again here."""
        self._moved[units] = True
        whole = self.world.fleet.whole
        if whole is not None and whole[units].any():
            tables = self.world.fleet.table[units[whole[units]]]
            self._moved |= np.isin(self.world.fleet.table, tables)

    def act(self, now_s: float) -> None:
        """See `System`."""

    def ended(self, now_s: float, batch: Batch) -> None:
        """Its own commits change what it finds."""
        self._moved[batch.units] = True

    def free(self, now_s: float) -> Ints:
        """Units that have changed and are in nobody's work."""
        return np.flatnonzero(self._moved & ~self.world.busy)

    def start(self, now_s: float, units: Ints, choice: Choice, reason: str) -> None:
        """Where there is anything to take."""
        wanted = (choice.rewrites + choice.converts).any(axis=1)
        self._moved[units[~wanted]] = False
        some = np.flatnonzero(wanted)
        if len(some):
            self.world.ledger.counted(reason, len(some))
            self.world.start(now_s, units[some], choice.of(some))


class BinPack(Peer):
    """`rewrite_data_files` on every table, so often, at that time, with these options."""

    every_s, at_s = HOUR_S, 0.0
    settings = BinPackSettings()

    def act(self, now_s: float) -> None:
        """One round."""
        if not self.world.every(now_s, self.every_s, self.at_s):
            return
        self.world.ledger.looks += self.world.fleet.tables
        units = self.wanted(self.free(now_s))
        held = self.world.lake.of(units)
        choice = bin_pack(held, self.world.p.target_bytes, self.settings)
        self.start(now_s, units, choice, self.name)

    def wanted(self, units: Ints) -> Ints:
        """Of these units."""
        return units


class HourlyBinPack(BinPack):
    """Every hour, all defaults."""

    name = "bin_pack_hourly"


class NightlyBinPack(BinPack):
    """Stage 1 of many lakes: a script at two in the morning, all defaults."""

    name = "bin_pack_nightly"
    every_s, at_s = DAY_S, 2 * HOUR_S


class NightlyDeletes(NightlyBinPack):
    """The same of someone who has upserts: each file that an equality delete reaches is taken."""

    name = "nightly_deletes"
    settings = BinPackSettings(delete_files=1)


class HourlyMse(BinPack):
    """Stage 2: every hour all files of every table are listed; a table whose root mean square
    distance from the target is above 20 % of it is bin-packed."""

    name = "hourly_mse"
    threshold = 0.2

    def wanted(self, units: Ints) -> Ints:
        """Units of such tables."""
        world = self.world
        squares, files = size_errors(world.lake.all, world.p.target_bytes)
        table = world.fleet.table
        total = np.bincount(table, squares, minlength=world.fleet.tables)
        many = np.bincount(table, files, minlength=world.fleet.tables)
        off = np.sqrt(total / np.maximum(many, 1e-9)) > self.threshold
        return units[off[table[units]]]


class AutoComp(BinPack):
    """OpenHouse's: partitions are ranked by the files that go (0.7) and by GB-hours (0.3), both
    normalised over the fleet; the best are bin-packed as far as an hour's budget goes. Its own
    estimate of cost: 2 MB/s and 2 GB, and half a GB-hour for each run."""

    name = "autocomp"
    budget = 0.25  # of the hour's candidates' estimated GB-hours

    def act(self, now_s: float) -> None:
        """One round."""
        world = self.world
        if not world.every(now_s, self.every_s, self.at_s):
            return
        world.ledger.looks += world.fleet.tables
        units = self.free(now_s)
        choice = bin_pack(world.lake.of(units), world.p.target_bytes)
        held = world.lake.of(units)
        taken = (held.bytes * choice.rewrites).sum(axis=1)
        gain = (held.files * choice.rewrites).sum(axis=1) - np.ceil(taken / world.p.target_bytes)
        some = np.flatnonzero(gain > 0)
        if not len(some):
            return
        cost = taken[some] / (2 * MB) / HOUR_S * 2 + 0.5
        score = 0.7 * _normal(gain[some]) - 0.3 * _normal(cost)
        order = np.argsort(-score, kind="stable")
        within = np.cumsum(cost[order]) <= max(self.budget * cost.sum(), cost[order[0]])
        best = np.sort(some[order[within]])
        self.start(now_s, units[best], choice.of(best), self.name)


def _normal(values: Floats) -> Floats:
    low, high = values.min(), values.max()
    return np.asarray((values - low) / max(high - low, 1e-9))


class HourlyConvert(Peer):
    """Once an hour, with our engine: equality deletes become positions, fragments are merged,
    small files are bin-packed and files with 30 % dead rows rewritten. No counters, no price."""

    name = "hourly_convert"
    own = OURS
    parallel_bytes = 64.0 * GB  # as ours: an order is one worker's

    def act(self, now_s: float) -> None:
        """On the hour."""
        world = self.world
        if not world.every(now_s, HOUR_S):
            return
        world.ledger.looks += world.fleet.tables
        units = self.free(now_s)
        held = world.lake.of(units)
        choice = converting(held, bin_pack(held, world.p.target_bytes))
        self.start(now_s, units, choice, self.name)


def converting(held: Held, packed: Choice) -> Choice:
    """What is bin-packed, and a conversion of every other file that an equality delete reaches;
    with it all fragments are rewritten."""
    reached = (held.reach > 0) & (packed.rewrites == 0)
    any_reached = reached.any(axis=1)
    rewrites = packed.rewrites.copy()
    small = (held.files[:, FRAGMENT] > 0) & any_reached[:, None]
    rewrites[:, FRAGMENT] = np.maximum(rewrites[:, FRAGMENT], small)
    converts = (reached & (rewrites == 0)).astype(float)
    return Choice(rewrites, converts, np.ones(len(any_reached), dtype=bool))


class Amoro(Peer):
    """Every minute every table is loaded, and planned if its snapshot moved. A table has one
    process at a time, of all partitions that need one, dearest first, as far as its share of the
    group's threads may take; its tasks of at most a target are spread over the workers."""

    name = "amoro"
    own = OURS  # `runnable-peers` measured its executor at three times ours: it is given ours
    parallel_bytes = 128.0 * MB
    together = True
    settings = AmoroSettings()
    # Of a process: 512 MB for each thread of the group, which is the whole fleet's. A group of a
    # few threads starves all but a table's dearest partition, so there are a hundred at least.
    thread_bytes = 512.0 * MB
    least_threads = 100.0

    def __init__(self, world: World) -> None:
        super().__init__(world)
        tables = world.fleet.tables
        self._last_minor, self._last_full = np.zeros(tables), np.zeros(tables)
        self._process = np.zeros(tables, dtype=np.int64)  # tasks that are not done
        self._minor_only = np.zeros(tables, dtype=bool)
        self._planned_s = np.zeros(tables)
        self._alarm = np.full(world.fleet.units, np.inf)

    def act(self, now_s: float) -> None:
        """Every minute."""
        world = self.world
        if not world.every(now_s, 60.0):
            return
        world.ledger.looks += world.fleet.tables * max(world.p.tick_s / 60.0, 1.0)
        table = world.fleet.table
        units = np.flatnonzero((self._moved | (self._alarm <= now_s)) & (self._process[table] == 0))
        if not len(units):
            return
        held = world.lake.of(units)
        ages = now_s - self._last_minor[table[units]]
        full = now_s - self._last_full[table[units]]
        plan = amoro_plan(held, world.p.target_bytes, ages, self.settings, full)
        wanted = plan.necessary & ~world.busy[units]
        self._moved[units[~wanted]] = False
        # What is not necessary now may be once the interval is over.
        later = self._last_minor[table[units]] + self.settings.interval_s + 1
        self._alarm[units] = np.where(~wanted & (ages <= self.settings.interval_s), later, np.inf)
        chosen = np.flatnonzero(wanted)
        if len(chosen):
            chosen = chosen[self._affordable(table[units[chosen]], plan.cost[chosen])]
            majors = plan.major[chosen]
            self._begin(now_s, units[chosen], majors, plan.choice.of(chosen))

    def _affordable(self, table: Ints, cost: Floats) -> Flags:
        """Partitions of each table, the dearest first, until the last one goes over the most."""
        order = np.lexsort((-cost, table))
        sums = np.cumsum(cost[order])
        first = np.concatenate(([True], table[order][1:] != table[order][:-1]))
        starts = np.maximum.accumulate(np.where(first, sums - cost[order], -np.inf))
        before = sums - cost[order] - starts
        p = self.world.p
        threads = max(2 * p.tables * p.workers_per_table, self.least_threads)
        most = self.thread_bytes * threads
        found = np.zeros(len(table), dtype=bool)
        found[order] = before <= most
        return found

    def _begin(self, now_s: float, units: Ints, majors: Flags, choice: Choice) -> None:
        table = self.world.fleet.table[units]
        some: Flags = np.asarray((choice.rewrites + choice.converts).any(axis=1))
        self._moved[units[~some]] = False
        units, majors, table = units[some], majors[some], table[some]
        np.add.at(self._process, table, 1)
        self._minor_only[table] = True
        self._minor_only[table[majors]] = False
        self._planned_s[table] = now_s
        self.world.ledger.counted(MAJOR, int(majors.sum()))
        self.world.ledger.counted(MINOR, int((~majors).sum()))
        if len(units):
            self.world.start(now_s, units, choice.of(some))

    def ended(self, now_s: float, batch: Batch) -> None:
        """A process is done with its last task."""
        table = self.world.fleet.table[batch.units]
        np.subtract.at(self._process, table, 1)
        super().ended(now_s, batch)
        done = np.unique(table[self._process[table] == 0])
        minor = done[self._minor_only[done]]
        self._last_minor[minor] = self._planned_s[minor]
