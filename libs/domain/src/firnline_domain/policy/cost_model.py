"""Estimate what maintenance costs, before it runs: CPU seconds and GB-hours from bytes, learned
from results, and dollars by a price list.

Version 1 is linear. Its constants were measured (`bench/results/main.json`: 6 orders of together
465 MB in 252 data and 240 delete files, of which 180 MB were left)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from firnline_domain.base.times import HOUR_S
from firnline_domain.base.values import Value, field, replace
from firnline_domain.counters.state.work import KEY_SHARE
from firnline_domain.settings.thresholds import Thresholds

MAX_KEY_SHARE = 4.0  # keys are read once for each part of a delete set
LEARNING = 0.1  # weight of one more task: about the last twenty count
MAX_FACTOR = 20.0  # no host is so much slower, or faster: then the model is what is wrong
MAX_STEP_RATIO = (
    4.0  # a task that took so many times more or less than predicted counts as that much
)
SORT_S = 1.2  # CPU than any rewrite: ten sorts of next to nothing took 15.1 s (`bench/actions`)


class Work(Value):
    """Work of a task. `delete_loads`: delete records, once for every data file they reach."""

    bytes_read: float
    bytes_written: float
    delete_records: float = 0.0
    delete_loads: float = 0.0
    files: float = 0.0  # data and delete files opened
    converted: float = 0.0  # data files that stay: their keys are read, a delete file is written

    def with_shuffle(self) -> Work:
        """Add that each byte that is written goes to a disk and back before."""
        size = self.bytes_written
        return replace(self, bytes_read=self.bytes_read + size, bytes_written=2.0 * size)


class CpuRates(Value):
    """CPU seconds are linear in the work; wall and memory follow from the engine's size."""

    fixed_s: float  # CPU s per task: planning, stage, commit
    read_s: float  # per byte read, decoded and filtered
    write_s: float  # per byte written
    record_s: float  # per delete record, read once
    load_s: float  # per delete record and data file
    memory_gb: float  # while it runs
    open_s: float = 0.0  # per file
    convert_s: float = 0.0  # per file that is converted, its delete file and the commit with it
    cores: float = 2.0

    def cpu_s(self, work: Work) -> float:
        """Return the CPU seconds of all processes."""
        moved = work.bytes_read * self.read_s + work.bytes_written * self.write_s
        deletes = work.delete_records * self.record_s + work.delete_loads * self.load_s
        files = work.files * self.open_s + work.converted * self.convert_s
        return self.fixed_s + moved + deletes + files

    def wall_s(self, work: Work) -> float:
        """Return the seconds on all cores."""
        return self.cpu_s(work) / self.cores

    def gb_hours(self, work: Work) -> float:
        """Return the memory held, in gigabytes, times hours."""
        return self.held_gb_hours(self.cpu_s(work))

    def held_gb_hours(self, cpu_s: float) -> float:
        """Return the memory held, in gigabytes, times hours, by a task of that many CPU seconds."""
        return self.memory_gb * cpu_s / self.cores / HOUR_S


def learned_key_share(share: float, found: float) -> float:
    """Return the part of a table's data files that is key columns, after one more conversion has
    read them: in the order of the last few, because the files of a table are alike."""
    return share + (min(found, MAX_KEY_SHARE) - share) / 2


def learned_factor(factor: float, foretold_s: float, took_s: float) -> float:
    """Return the factor by which tasks take longer than the model estimates, after one that was
    estimated with `factor` at `foretold_s` seconds and took `took_s`. One task changes it
    little."""
    ratio = (
        min(max(took_s / foretold_s, 1 / MAX_STEP_RATIO), MAX_STEP_RATIO) if foretold_s > 0 else 1.0
    )
    after = factor * math.pow(ratio, LEARNING)
    return min(max(after, 1 / MAX_FACTOR), MAX_FACTOR)


# 19.3 CPU s and 2.7 of the commit: 6 x 0.3 fixed (prices.json: a task of ten small files takes
# 0.2 to 0.4), 492 files, the rest by bytes; 1.15 GB PSS at 2 tasks.
# Of files (prices.json): 1,000 of 200 rows took 1.4 ms each of the worker and 0.2 of the committer
# when they were compacted, 9 and 0.9 when they were converted: each was a Spark task of its own.
FIRNLINE = CpuRates(0.3, 2.2e-8, 3.3e-8, 3e-7, 0.0, 1.15, open_s=0.0014, convert_s=0.01)
# The same table by Iceberg's action with its delete cache: 219 CPU s and 6.8 GB.
STOCK_CACHED = CpuRates(0.5, 6e-8, 6e-8, 0.0, 1.7e-6, 6.8)


def sort_wall_s(work: Work) -> float:
    """Return the wall time as measured, of a sort that did so much."""
    return FIRNLINE.wall_s(work.with_shuffle()) + SORT_S / FIRNLINE.cores


class LearnedFactors(Value):
    """CPU seconds that a group's workers take, against those that were measured: a conversion reads
    keys, where a rewrite reads and writes whole files, so one says nothing of the other."""

    rewrites: float = 1.0
    conversions: float = 1.0
    sorts: float | None = None  # none was made yet

    def after_task(self, work: Work, converts: bool, took_s: float) -> LearnedFactors:
        """Return the factors after a task with that much work took `took_s` seconds."""
        factor = self.conversions if converts else self.rewrites
        factor = learned_factor(factor, factor * FIRNLINE.wall_s(work), took_s)
        return replace(self, conversions=factor) if converts else replace(self, rewrites=factor)

    def after_sort(self, work: Work, took_s: float) -> LearnedFactors:
        """Return the factors after a sort: it takes longer for its bytes, and does not change the
        others."""
        factor = self.sort_factor
        return replace(self, sorts=learned_factor(factor, factor * sort_wall_s(work), took_s))

    @property
    def sort_factor(self) -> float:
        """Return the factor of sorts; before the first one that of rewrites."""
        return self.rewrites if self.sorts is None else self.sorts


MEASURED = LearnedFactors()


class CostModel(Value):
    """Cost of a table's maintenance: CPU seconds as measured (`FIRNLINE`), times what tasks
    have taken here, and dollars (`firnline.price.*`). `actions`: factors of actions on whole
    tables. `key_share`: of a data file's bytes, as the table's conversions have read them."""

    cpu_hour: float
    million_gets: float
    million_puts: float
    gb_month: float
    factors: LearnedFactors = MEASURED
    actions: Mapping[str, float] = field(default_factory=dict)
    key_share: float = KEY_SHARE

    def action_factor(self, action: str) -> float:
        """Return the factor of an action's cost in this deployment: its seconds for each measured
        second; before its first task that of rewrites."""
        return self.actions.get(action, self.factors.rewrites)


def cost_model(
    settings: Thresholds,
    factors: LearnedFactors = MEASURED,
    actions: Mapping[str, float] | None = None,
    key_share: float = KEY_SHARE,
) -> CostModel:
    """Return the costs at a table with these settings, with what was learned there."""
    return CostModel(
        settings.price_cpu_hour,
        settings.price_million_gets,
        settings.price_million_puts,
        settings.price_gb_month,
        factors,
        actions or {},
        key_share,
    )
