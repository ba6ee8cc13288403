"""BenchmarkRuns that nobody fought."""

from __future__ import annotations

from typing import Any

from bench.rewrite.benchmark_runs import BenchmarkRun


def benchmark_run(who: str, wall: float = 1.0, cpu: float = 2.0, **more: Any) -> BenchmarkRun:
    """A run of 2 M rows in, 1 M out, with the right rows."""
    given: dict[str, Any] = {
        "pss_before": 50_000_000,
        "pss_peak": 100_000_000,
        "cpu_by": {"driver": 0.5, "jvm": 1.0, "python": cpu - 1.5},
        "pss_by": {"driver": 40_000_000, "python": 60_000_000},
        "start_s": 3.0,
        "start_cpu_s": 4.0,
        "warm_s": 1.5,
        "output_bytes": 7_000_000,
        "output_files": 6,
        "rows_in": 2_000_000,
        "rows_out": 1_000_000,
        "same_rows": True,
    }
    return BenchmarkRun(engine=who, wall_s=wall, cpu_s=cpu, **{**given, **more})
