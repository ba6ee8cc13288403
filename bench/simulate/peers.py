"""What others do with the same fleet: seed 002's three stages, from `reference/peers.md`."""

from __future__ import annotations

import numpy as np
from firnline_domain.policy.costs import FIRNLINE, STOCK_CACHED

from bench.simulate.fleet import Flags, Floats, Ints
from bench.simulate.lake import Holds
from bench.simulate.parameters import DAY_S, HOUR_S
from bench.simulate.tasks import Batch, charge, converted, rewritten, work_of
from bench.simulate.world import World


class Peer:
    """A loop that looks at all tables, whether or not anything happened to them."""

    name = ""
    own = STOCK_CACHED  # Iceberg's action, its delete cache on

    def __init__(self, world: World) -> None:
        self.world = world
        self.changed = np.zeros(world.fleet.units, dtype=bool)

    def committed(self, tick: int, units: Ints) -> None:
        """Nobody tells it."""
        self.changed[units] = True

    def act(self, tick: int) -> None:
        """See `System`."""

    def ended(self, tick: int, batch: Batch) -> None:
        """Its own commits are not news."""

    def every(self, tick: int, seconds: float, at_s: float = 0.0) -> bool:
        """Whether one of its rounds begins now."""
        ticks, first = int(seconds / self.world.p.tick_s), int(at_s / self.world.p.tick_s)
        return tick % max(ticks, 1) == first

    def rewrite(self, tick: int, chosen: Flags, taken_of: Holds, reason: str) -> None:
        """Rewrite what `taken_of` has of the chosen units (all of them, as long)."""
        units = np.flatnonzero(chosen & ~self.world.busy)
        if not len(units):
            return
        taken = taken_of.of(units)
        gives, size = rewritten(self.world.p, units, taken)
        same = (taken.deletes + taken.positions == 0) & (gives.files >= taken.files)
        work = work_of(self.world.p, taken, size)
        no_ops = int(same.sum())
        cpu = charge(self.world.ledger, self.world.p.costs, self.own, work, no_ops)
        self.world.ledger.counted(reason, len(units))
        self.world.start(tick, units, Batch(units, taken, gives, cpu))


class Cron(Peer):
    """Stage 1: a script at night that rewrites every table, `rewrite-all`: without it, Iceberg's
    action leaves well-sized files with equality deletes as they are."""

    name = "cron"

    def act(self, tick: int) -> None:
        """At two in the morning."""
        if self.every(tick, DAY_S, 2 * HOUR_S):
            self.world.ledger.looks += self.world.fleet.tables
            everything = np.ones(self.world.fleet.units, dtype=bool)
            self.rewrite(tick, everything & (self.world.lake.files > 0), self.world.lake, "nightly")


class HourlyMse(Peer):
    """Stage 2: every hour all files of every table are listed; a table whose root mean square
    distance from the target is above 20 % of it is rewritten, where it has anything to merge."""

    name = "hourly_mse"
    threshold = 0.2

    def act(self, tick: int) -> None:
        """On the hour."""
        if not self.every(tick, HOUR_S):
            return
        self.world.ledger.looks += self.world.fleet.tables
        lake, table = self.world.lake, self.world.fleet.table
        off = self.distances() > self.threshold
        # The script looks for small files; a table that is one small file is looked at in vain.
        many = (lake.fragments + lake.undersized > 1) | (lake.deletes + lake.positions > 0)
        wanted = np.bincount(table, many, minlength=self.world.fleet.tables) > 0
        vain = int((off & ~wanted).sum())
        self.world.ledger.tasks += vain
        self.world.ledger.no_ops += vain
        fixed = vain * self.world.p.costs.fixed_s
        costs, own = self.world.p.costs, self.own
        self.world.ledger.gb_hours += fixed / costs.cores * costs.memory_gb / HOUR_S
        self.world.ledger.own_gb_hours += vain * own.fixed_s / own.cores * own.memory_gb / HOUR_S
        self.rewrite(tick, (off & wanted)[table] & many, lake, "mse")

    def distances(self) -> Floats:
        """Of each table, in targets. Files of a class count as its mean."""
        lake, table, tables = self.world.lake, self.world.fleet.table, self.world.fleet.tables
        target = float(self.world.p.target_bytes)
        squares = np.zeros(self.world.fleet.units)
        for files, size in (
            (lake.fragments, lake.fragment_bytes),
            (lake.undersized, lake.undersized_bytes),
            (lake.large, lake.large_bytes),
        ):
            mean = size / np.maximum(files, 1)
            squares += files * np.square(np.minimum(mean - target, 0) / target)
        total = np.bincount(table, lake.files, minlength=tables)
        return np.sqrt(np.bincount(table, squares, minlength=tables) / np.maximum(total, 1))


class Amoro(Peer):
    """Stage 3: every minute every table is loaded, and planned if its snapshot moved. Minor,
    major and full as in Amoro 0.9 with its defaults; optimizers are free at once."""

    name = "amoro"
    own = FIRNLINE  # its engine was never measured beside ours: it is given ours
    min_files = 12
    interval_s = HOUR_S
    duplicate_ratio = 0.1

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._last = np.zeros(world.fleet.units)  # seconds, of the last minor

    def act(self, tick: int) -> None:
        """Every minute."""
        if not self.every(tick, 60.0):
            return
        self.world.ledger.looks += self.world.fleet.tables
        lake, now_s = self.world.lake, tick * self.world.p.tick_s
        small = lake.fragments + lake.deletes
        waited = now_s - self._last >= self.interval_s
        minor = (small >= self.min_files) | ((small > 1) & waited)
        minor |= lake.positions > lake.segments + 1  # more than one on a segment
        minor &= (lake.fragments > 1) | (lake.deletes > 0) | (lake.positions > 0)
        target = self.world.p.target_bytes
        major = (lake.undersized > 1) & (lake.undersized_bytes >= target)
        major &= 2 * lake.undersized_bytes <= target * lake.undersized  # two fit into one
        records = lake.segment_bytes / self.world.p.row_bytes
        dirty = lake.position_records > self.duplicate_ratio * np.maximum(records, 1)
        free = ~self.world.busy
        full = (major | dirty) & free
        self._last[(minor | full) & free] = now_s
        self._major(tick, full, dirty)
        self._minor(tick, minor & ~full & free)

    def _major(self, tick: int, chosen: Flags, dirty: Flags) -> None:
        """Undersized segments and fragments together; or all, where too many rows are dead."""
        lake = self.world.lake
        small = Holds.nothing(self.world.fleet.units)
        small.fragments, small.fragment_bytes = lake.fragments, lake.fragment_bytes
        small.undersized, small.undersized_bytes = lake.undersized, lake.undersized_bytes
        clean = chosen & (lake.deletes + lake.positions == 0)
        self.rewrite(tick, clean & ~dirty, small, "major")
        self.rewrite(tick, chosen & ~(clean & ~dirty), lake, "major")

    def _minor(self, tick: int, chosen: Flags) -> None:
        """Fragments are merged; for the segments equality deletes become position deletes, for
        which the key columns of every segment are read."""
        units = np.flatnonzero(chosen)
        if not len(units):
            return
        p = self.world.p
        taken, gives, work = converted(p, units, self.world.lake.of(units))
        cpu = charge(self.world.ledger, p.costs, self.own, work)
        self.world.ledger.counted("minor", len(units))
        self.world.start(tick, units, Batch(units, taken, gives, cpu))
