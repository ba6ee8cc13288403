"""Estimate what a rewrite costs, before it runs: CPU seconds and GB-hours from bytes, learned from
results.

Version 1 is linear. Its constants were measured (`bench/results/main.json`: 6 orders of together
465 MB in 252 data and 240 delete files, of which 180 MB were left)."""

from __future__ import annotations

import math

from firnline_domain.base.times import HOUR_S
from firnline_domain.base.values import Value

MAX_KEY_SHARE = 4.0  # keys are read once for each part of a delete set
LEARNING = 0.1  # weight of one more task: about the last twenty count
MAX_FACTOR = 20.0  # no host is so much slower, or faster: then the model is what is wrong
MAX_STEP_RATIO = (
    4.0  # a task that took so many times more or less than predicted counts as that much
)


class Work(Value):
    """Work of a task. `delete_loads`: delete records, once for every data file they reach."""

    bytes_read: float
    bytes_written: float
    delete_records: float = 0.0
    delete_loads: float = 0.0
    files: float = 0.0  # data and delete files opened
    converted: float = 0.0  # data files that stay: their keys are read, a delete file is written


class CostModel(Value):
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
    version: int = 1

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
FIRNLINE = CostModel(0.3, 2.2e-8, 3.3e-8, 3e-7, 0.0, 1.15, open_s=0.0014, convert_s=0.01)
# The same table by Iceberg's action: 285 CPU s, and 219 with its delete cache; 6.5 and 6.8 GB.
STOCK = CostModel(0.5, 6e-8, 6e-8, 0.0, 2.3e-6, 6.5)
STOCK_CACHED = CostModel(0.5, 6e-8, 6e-8, 0.0, 1.7e-6, 6.8)
