"""Peak memory with 1, 4 and 8 tasks at once on one delete set."""

from __future__ import annotations

import statistics
from typing import Any

from bench.rewrite.benchmark_runs import BenchmarkRun, visiting
from bench.rewrite.engines import FIRNLINE, STOCK, Engine, Failed
from bench.rewrite.figures import Bar, figure
from bench.rewrite.pairs import line
from bench.rewrite.shapes import Shape
from bench.rewrite.sources import Arena

TASKS = (1, 4, 8)
SHAPE = Shape(
    "tasks",
    spec="none",
    partitions=1,
    base_rows=3_000_000,
    base_files=16,
    upserts=1_500_000,
    commits=4,
    target_bytes=4 << 20,  # a file per group, 20 groups
)
LIMIT_S = 300.0


def run(place: Arena, count: int, scale: float) -> dict[str, Any]:
    """An unpartitioned table: every group of files needs the whole set."""
    origin = place.source(SHAPE.scaled(scale))
    print(origin.described(), flush=True)

    def runs(who: Engine) -> dict[str, list[BenchmarkRun]]:
        found: dict[str, list[BenchmarkRun]] = {str(tasks): [] for tasks in TASKS}
        for tasks in TASKS * count:
            try:
                with visiting(place, who.having(cores=tasks)) as visitor:
                    made = visitor.run(origin, limit_s=LIMIT_S)
            except Failed as failed:
                print(failed, flush=True)
                continue
            print(f"{tasks} tasks {line(made)}", flush=True)
            found[str(tasks)].append(made)
        return found

    ours, theirs = runs(FIRNLINE), runs(STOCK)
    judged = _bars(ours)
    for bar in judged:
        print(bar, flush=True)
    return {
        "table": origin.described(),
        "firnline": {tasks: _of(made) for tasks, made in ours.items()},
        "stock": {tasks: _of(made) for tasks, made in theirs.items()},
        "process_bytes": _per_process(ours),
        "bars": [bar.as_json() for bar in judged],
    }


def _of(runs: list[BenchmarkRun]) -> dict[str, Any]:
    if not runs:
        return {}
    return {
        "pss_before": statistics.median([one.pss_before for one in runs]),
        "pss_peak": statistics.median([one.pss_peak for one in runs]),
        "cpu_s": statistics.median([one.cpu_s for one in runs]),
        "same_rows": all(one.same_rows for one in runs),
    }


def _per_process(ours: dict[str, list[BenchmarkRun]]) -> float:
    """What one more Python worker costs before it has work."""
    idle = {
        tasks: statistics.median([one.pss_before for one in ours[str(tasks)]]) for tasks in (1, 8)
    }
    return (idle[8] - idle[1]) / 7


def _bars(ours: dict[str, list[BenchmarkRun]]) -> list[Bar]:
    fixed = 7 * _per_process(ours)
    pairs = list(zip(ours["1"], ours["8"], strict=False))
    plain = figure([eight.pss_peak / one.pss_peak for one, eight in pairs])
    beside = figure([(eight.pss_peak - fixed) / one.pss_peak for one, eight in pairs])
    return [
        Bar("peak PSS with 8 tasks against 1, processes included", None, plain),
        Bar("peak PSS with 8 tasks against 1, beside the cost of 7 idle processes", 1.25, beside),
    ]
