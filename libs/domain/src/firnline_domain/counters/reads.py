"""How often a table is read, learned from what readers report of their scans, and from the loads
of those that report nothing. Pure.

A rate that decays: what was read six hours ago counts a third of what is read now. It is divided by
the weight that was there to be had since the first report, so it is right from the start, and
believed only once there were thirty minutes to see something in. The clocks of those who count
are ahead or behind: a report from the future is one of now, a late one counts what is left of it.
"""

from __future__ import annotations

import math

from firnline_domain.settings.thresholds import ReadsFrom, Thresholds
from firnline_domain.times import HOUR_MS
from firnline_domain.values import Value, replace

TAU_MS = 6 * HOUR_MS  # a rate follows its readers within hours, and lasts through a night's gap
MIN_WATCH_MS = 30 * 60_000
STEPS = 4  # to each doubling: 19 % apart, well within what the price of a rewrite is known to
HYSTERESIS = 0.75  # of a step: a rate beside the border of two does not go to and fro between them
MIN_PER_HOUR = 2.0**-6  # scans an hour, one in three days: less is as good as none
NONE = -1_000  # the step of a rate below that


class Reads(Value):
    """Scans of a table, each by the share of the table that it has read.

    The first report starts the watch and is not counted: it came because the table was read, and
    says nothing of how often that happens.
    """

    since_ms: int
    as_of_ms: int
    level: float = 0.0  # decayed to `as_of_ms`
    step: int | None = None  # in force at the last report, None = not believed

    def after(self, scans: float, at_ms: int, now_ms: int) -> Reads:
        """With scans that were made until `at_ms`, by the clock of whoever has counted them."""
        at_ms = min(at_ms, max(now_ms, self.as_of_ms))
        if at_ms <= self.since_ms:
            return self
        as_of_ms = max(self.as_of_ms, at_ms)
        came = max(scans, 0.0) * decay(as_of_ms - at_ms)
        level = self.level * decay(as_of_ms - self.as_of_ms) + came
        seen = replace(self, level=level, as_of_ms=as_of_ms)
        return replace(seen, step=seen.step_at(now_ms))

    def per_hour(self, now_ms: int) -> float:
        """Scans of a partition in an hour."""
        now_ms = max(now_ms, self.as_of_ms)
        there = TAU_MS * (1 - decay(now_ms - self.since_ms))
        return self.level * decay(now_ms - self.as_of_ms) / there * HOUR_MS if there > 0 else 0.0

    def step_at(self, now_ms: int) -> int | None:
        """The step that the rate is on, None while nobody would believe it. It stays on one until
        it has clearly left it."""
        if max(now_ms, self.as_of_ms) - self.since_ms < MIN_WATCH_MS:
            return None
        per_hour = self.per_hour(now_ms)
        if per_hour < MIN_PER_HOUR:
            return NONE
        exact = STEPS * math.log2(per_hour)
        if self.step is not None and abs(exact - self.step) <= HYSTERESIS:
            return self.step
        return round(exact)

    @property
    def in_force(self) -> float | None:
        """What `believed` was at the last report."""
        return None if self.step is None else rate_of(self.step)

    def believed(self, now_ms: int) -> float | None:
        """Scans in an hour as one of few numbers, None = not known yet."""
        step = self.step_at(now_ms)
        return None if step is None else rate_of(step)


def after_report(reads: Reads | None, scans: float, at_ms: int, now_ms: int) -> Reads:
    """What is known of a table's readers after a report."""
    if reads is not None:
        return reads.after(scans, at_ms, now_ms)
    return Reads(min(at_ms, now_ms), min(at_ms, now_ms))


def rate_of(step: int) -> float:
    """Scans in an hour."""
    return 0.0 if step == NONE else 2.0 ** (step / STEPS)


def share_read(scans: int, data_files: int, files_there: int) -> float:
    """The share of a table that each of some scans has read, on average. More files than there are
    were read of an older snapshot; of a table without files there is nothing to leave out."""
    wanted = scans * files_there
    return min(1.0, data_files / wanted) if wanted > 0 else 1.0


def load_share(partitions: int) -> float:
    """The share of a table that a read is assumed to reach of which only the load was seen.

    Nobody knows whether it wants the last day or the last year. So each magnitude is taken to be
    as likely as any other: 1 to 2 of `n` partitions as 10 to 20 or 100 to 200. A partition at
    place k (0 = the one most wanted) is then reached by 1 - ln(k + 1) / ln(n + 1) of the reads;
    this is the mean of that: all of one partition, 0.3 of twenty, 0.17 of 365.
    """
    most = max(partitions, 1)
    return 1 - math.lgamma(most + 1) / (most * math.log(most + 1))


def decay(age_ms: int, tau_ms: int = TAU_MS) -> float:
    """The share that has not decayed yet of what is so old."""
    return math.exp(-max(age_ms, 0) / tau_ms)


def read_by(limits: Thresholds, reads: Reads, now_ms: int) -> Thresholds:
    """The limits of a table whose readers report: debt is weighed by what they do."""
    rate = reads_in_force(limits, reads.believed(now_ms))
    return limits if rate == limits.reads_per_hour else replace(limits, reads_per_hour=rate)


def reads_in_force(limits: Thresholds, reported: float | None) -> float:
    """Scans of a partition in an hour; `reported` None = nobody knows yet."""
    assumed = limits.reads_per_hour
    if reported is None or limits.reads_from is ReadsFrom.ASSUMED:
        return assumed
    return reported if limits.reads_from is ReadsFrom.REPORTED else max(assumed, reported)
