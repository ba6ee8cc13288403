"""Learn how often the partitions of a table are read, from what readers report of their scans, and
from the loads of those that report nothing. Pure.

A rate that decays: what was read six hours ago counts a third of what is read now. It is divided by
the weight that was there to be had since the first report, so it is right from the start, and
believed only once there were thirty minutes to see something in. The clocks of those who count are
ahead or behind: a report from the future is one of now, a late one counts what is left of it."""

from __future__ import annotations

import math
from collections.abc import Callable

from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import Value, replace
from firnline_domain.counters.activity.partition_age import HotRange, with_ranges
from firnline_domain.records.events import PartitionClock
from firnline_domain.settings.thresholds import ReadsFrom, Thresholds

TAU_MS = 6 * HOUR_MS  # a rate follows its readers within hours, and lasts through a night's gap
MIN_WATCH_MS = 30 * 60_000
STEPS = 4  # to each doubling: 19 % apart, well within what the price of a rewrite is known to
HYSTERESIS = 0.75  # of a step: a rate beside the border of two does not go to and fro between them
MIN_PER_HOUR = 2.0**-6  # scans an hour, one in three days: less is as good as none
NONE = -1_000  # the step of a rate below that


class AgePosition(Value):
    """Position of a partition among those of its table: its age in units of the table's clock (None
    = it has none), and how many there are."""

    age: int | None = 0
    partitions: int = 1


NEWEST = AgePosition()


class ScanReport(Value):
    """Reported scans of all partitions alike, loads of clients that report nothing, and scans of
    ranges."""

    spread: float = 0.0
    loads: float = 0.0
    ranges: tuple[HotRange, ...] = ()


class Rates(Value):
    """Scans in an hour: of all partitions alike, of loads, and of ranges."""

    spread: float
    loads: float
    ranges: tuple[tuple[HotRange, float], ...]
    span: int

    def rate_at(self, place: AgePosition) -> float:
        """Return the scans per hour of one partition."""
        units = max(self.span or place.partitions, 1)
        sums = self.spread
        if self.loads > 0:
            sums += self.loads * load_share(place.age, units)
        for one, rate in self.ranges:
            sums += rate * one.share_at(place.age, units)
        return sums


class Reads(Value):
    """Scans of a table's partitions, decayed to `as_of_ms`.

    `level`: of all partitions alike, each scan by the share of the table that it has read;
    `loads`: of which nobody knows what they read; `ranges`: of partitions of some ages. Each has
    its `step`, the rate in force at the last report; None = not believed.

    The first report starts the watch and is not counted: it came because the table was read, and
    says nothing of how often that happens.
    """

    since_ms: int
    as_of_ms: int
    level: float = 0.0
    step: int | None = None
    loads: float = 0.0
    loads_step: int | None = None
    ranges: tuple[HotRange, ...] = ()
    clock: PartitionClock | None = None
    span: int = 0  # units of time from the oldest partition to the newest; 0 = not known

    def with_scans(self, scans: float | ScanReport, at_ms: int, now_ms: int) -> Reads:
        """Add scans that were made until `at_ms`, by the clock of their counter."""
        came = scans if isinstance(scans, ScanReport) else ScanReport(spread=scans)
        at_ms = min(at_ms, max(now_ms, self.as_of_ms))
        if at_ms <= self.since_ms:
            return self
        as_of_ms = max(self.as_of_ms, at_ms)
        left, late = decay_share(as_of_ms - self.as_of_ms), decay_share(as_of_ms - at_ms)
        ranges, spread = self.ranges, 0.0
        if ranges or came.ranges:
            ranges, spread = with_ranges(
                tuple(replace(one, level=one.level * left) for one in ranges),
                [replace(one, level=one.level * late) for one in came.ranges],
                self.span,
            )
        seen = replace(
            self,
            as_of_ms=as_of_ms,
            level=self.level * left + max(came.spread, 0.0) * late + spread,
            loads=self.loads * left + max(came.loads, 0.0) * late,
            ranges=ranges,
        )
        step, loads_step, ranges = seen._rate_steps(now_ms)
        return replace(seen, step=step, loads_step=loads_step, ranges=ranges)

    def with_clock(self, clock: PartitionClock | None) -> Reads:
        """Set the table's clock; ranges of another one are dropped."""
        if clock is None or clock == self.clock:
            return self
        return replace(self, clock=clock, ranges=(), span=0)

    def _rate_steps(self, now_ms: int) -> tuple[int | None, int | None, tuple[HotRange, ...]]:
        stepped = (
            replace(one, step=self._next_step(one.level, one.step, now_ms)) for one in self.ranges
        )
        ranges = tuple(one for one in stepped if one.step != NONE) if self.ranges else ()
        loads = self._next_step(self.loads, self.loads_step, now_ms) if self.loads > 0 else None
        return self.step_at(now_ms), loads, ranges

    def per_hour(self, now_ms: int, place: AgePosition = NEWEST) -> float:
        """Return the scans of a partition in an hour."""
        return self._all_rates(lambda level, _: self._rate_of(level, now_ms)).rate_at(place)

    def step_at(self, now_ms: int) -> int | None:
        """Return the step of the rate that holds for all partitions; None while it is not credible.
        The step changes only after the rate has clearly left it."""
        return self._next_step(self.level, self.step, now_ms)

    def in_force(self, place: AgePosition = NEWEST) -> float | None:
        """Return the scans per hour of a partition that decisions count with, as of the last
        report; None = no rate is known."""
        return (
            None
            if self.step is None
            else self._all_rates(lambda _, step: _rate_of_step(step)).rate_at(place)
        )

    def scans_per_hour(self, now_ms: int, place: AgePosition = NEWEST) -> float | None:
        """Return scans of a partition in an hour, as a sum of few numbers; None = not known yet."""
        rates = self.rates_at(now_ms)
        return None if rates is None else rates.rate_at(place)

    def rates_at(self, now_ms: int) -> Rates | None:
        """Return the rates of all partitions; None = nothing yet."""
        if self.step_at(now_ms) is None:
            return None
        return self._all_rates(
            lambda level, step: _rate_of_step(self._next_step(level, step, now_ms))
        )

    def rate_steps(self, now_ms: int | None = None) -> tuple[object, ...]:
        """Return all rates that are in force, at the last report or by then: others make other
        decisions."""
        step, loads, ranges = self.step, self.loads_step, self.ranges
        if now_ms is not None:
            step, loads, ranges = self._rate_steps(now_ms)
        return step, loads, *sorted(map(_range_key, ranges))

    def most_read(self, partitions: int) -> AgePosition:
        """Return where those partitions lie that are read most."""
        if self.clock is None:
            return AgePosition(None, partitions)
        ages = {0, *(max(one.youngest or 0, 0) for one in self.ranges)}
        rates = self._all_rates(lambda level, _: level)
        return max((AgePosition(age, partitions) for age in sorted(ages)), key=rates.rate_at)

    def _all_rates(self, rate: Callable[[float, int | None], float]) -> Rates:
        """Apply a rate, of (level, step), to all partitions, to loads and to each range."""
        return Rates(
            spread=rate(self.level, self.step),
            loads=rate(self.loads, self.loads_step) if self.loads > 0 else 0.0,
            ranges=tuple((one, rate(one.level, one.step)) for one in self.ranges),
            span=self.span,
        )

    def _rate_of(self, level: float, now_ms: int) -> float:
        now_ms = max(now_ms, self.as_of_ms)
        there = TAU_MS * (1 - decay_share(now_ms - self.since_ms))
        return level * decay_share(now_ms - self.as_of_ms) / there * HOUR_MS if there > 0 else 0.0

    def _next_step(self, level: float, step: int | None, now_ms: int) -> int | None:
        if max(now_ms, self.as_of_ms) - self.since_ms < MIN_WATCH_MS:
            return None
        per_hour = self._rate_of(level, now_ms)
        if per_hour < MIN_PER_HOUR:
            return NONE
        exact = STEPS * math.log2(per_hour)
        if step is not None and abs(exact - step) <= HYSTERESIS:
            return step
        return round(exact)


def _rate_of_step(step: int | None) -> float:
    return 0.0 if step is None else rate_of(step)


def _range_key(one: HotRange) -> tuple[int, int, int]:
    youngest = -1 if one.youngest is None else one.youngest
    return youngest, one.oldest, NONE if one.step is None else one.step


def after_report(reads: Reads | None, scans: float | ScanReport, at_ms: int, now_ms: int) -> Reads:
    """Return the readers' rates of a table after a report of scans; `reads` None: before the first,
    which only begins the count."""
    if reads is not None:
        return reads.with_scans(scans, at_ms, now_ms)
    return Reads(min(at_ms, now_ms), min(at_ms, now_ms))


def rate_of(step: int) -> float:
    """Return the scans in an hour of a step."""
    return 0.0 if step == NONE else 2.0 ** (step / STEPS)


def share_read(scans: int, data_files: int, files_there: int) -> float:
    """Return the share of a table that each of some scans has read, on average. If more files were
    read than there are, the scan was of an older snapshot; a table without files counts as read
    whole."""
    wanted = scans * files_there
    return min(1.0, data_files / wanted) if wanted > 0 else 1.0


def load_share(age: int | None, units: int) -> float:
    """Return the share of the reads that reach a partition, if only loads of the table were
    observed.

    Whether such a read needs the last day or the last year is unknown, so each magnitude is as
    likely as any other: 1 to 2 of `n` units of time as 10 to 20 or 100 to 200. A partition of age k
    is then reached by 1 - ln(k + 1) / ln(n + 1) of the reads: the newest by all. If its age is
    unknown it is the mean of that: all of one partition, 0.3 of twenty, 0.17 of 365."""
    most = max(units, 1)
    if age is None:
        return 1 - math.lgamma(most + 1) / (most * math.log(most + 1))
    return max(1 - math.log(max(age, 0) + 1) / math.log(most + 1), 0.0)


def decay_share(age_ms: int, tau_ms: int = TAU_MS) -> float:
    """Return the share of a quantity that remains after an exponential decay of that age."""
    return math.exp(-max(age_ms, 0) / tau_ms)


def read_by(limits: Thresholds, rate: float | None) -> Thresholds:
    """Return the limits of a partition with that rate of scans per hour, which weighs its debt;
    None = no rate is known."""
    rate = reads_in_force(limits, rate)
    return limits if rate == limits.reads_per_hour else replace(limits, reads_per_hour=rate)


def reads_in_force(limits: Thresholds, reported: float | None) -> float:
    """Return the scans of a partition in an hour by the table's settings; `reported` None = no
    report yet."""
    assumed = limits.reads_per_hour
    if reported is None or limits.reads_from is ReadsFrom.ASSUMED:
        return assumed
    return reported if limits.reads_from is ReadsFrom.REPORTED else max(assumed, reported)
