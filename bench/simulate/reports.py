"""How often Firnline believes that partitions are read, from what their readers report."""

from __future__ import annotations

import numpy as np
from firnline_domain.base.values import replace
from firnline_domain.counters.activity.partition_age import HotRange
from firnline_domain.counters.activity.reads import (
    AgePosition,
    Reads,
    ScanReport,
    after_report,
    read_by,
    share_read,
)
from firnline_domain.records.events import PartitionClock
from firnline_domain.settings.thresholds import Thresholds

from bench.simulate.fleet import NEVER, Floats, Ints
from bench.simulate.parameters import DAY_S
from bench.simulate.world import World

REPORT_S = 1_800.0  # scans are told so often
BY_DAY = PartitionClock(1, 0, "day", "at")


class Reports:
    """All readers report. A scan of a table by day is told with the age of the partition that it
    wants, any other with the files that it has read."""

    def __init__(self, world: World, limits: Thresholds) -> None:
        self._world, self._limits = world, limits
        fleet = world.fleet
        self._known: dict[int, Reads] = {}
        self._rng = np.random.default_rng((world.p.seed, 7))
        self._told_s = 0.0
        self._by_day = fleet.closes < NEVER
        order = np.argsort(fleet.table, kind="stable")
        ends = np.cumsum(np.bincount(fleet.table, minlength=fleet.tables))
        self._units: list[Ints] = np.split(order, ends[:-1])

    def due(self, now_s: float) -> bool:
        """Whether readers have something to tell."""
        return now_s >= self._told_s + REPORT_S

    def believed(self, now_s: float, now_ms: int) -> Floats:
        """Scans of each unit in an hour, after what they tell now."""
        world, fleet = self._world, self._world.fleet
        files = world.lake.cohorts[0].sum(axis=1)
        scans = self._rng.poisson(world.reads_per_s(now_s) * (now_s - self._told_s))
        self._told_s = now_s
        tick = int(now_s / world.p.tick_s)
        ages = np.floor((tick - fleet.opens) * world.p.tick_s / DAY_S)
        rates = np.full(fleet.units, self._limits.reads_per_hour)
        came = np.bincount(fleet.table, scans, minlength=fleet.tables)
        for table in np.union1d(np.flatnonzero(came), np.array(list(self._known), dtype=np.int64)):
            units = self._units[table]
            if self._by_day[units[0]]:
                units = units[(ages[units] >= 0) & (files[units] > 0)]
            if not len(units):
                continue
            known = self._known.get(int(table))
            if came[table]:
                told = self._told(units, scans[units], ages[units], files[units])
                known = after_report(known, told, now_ms, now_ms)
                if self._by_day[units[0]]:
                    known = replace(known.with_clock(BY_DAY), span=len(units))
                self._known[int(table)] = known
            if known is not None and (now := known.rates_at(now_ms)) is not None:
                for unit in units:
                    place = AgePosition(self._age(unit, ages), len(units))
                    rates[unit] = read_by(self._limits, now.rate_at(place)).reads_per_hour
        return rates

    def _age(self, unit: int, ages: Floats) -> int | None:
        return int(ages[unit]) if self._by_day[unit] else None

    def _told(self, units: Ints, scans: Ints, ages: Floats, files: Floats) -> ScanReport:
        if self._by_day[units[0]]:
            ranges = (
                HotRange(int(age) or None, int(age), level=float(many))
                for age, many in zip(ages, scans, strict=True)
                if many
            )
            return ScanReport(ranges=tuple(ranges))
        total = int(scans.sum())
        opened = round(float((scans * files).sum()))
        return ScanReport(spread=total * share_read(total, opened, max(int(files.sum()), 1)))
