"""Three production shapes in small (by day, by bucket, no partitions), and one large file."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bench.rewrite.benchmark_runs import BenchmarkRun, benchmark_run
from bench.rewrite.engines import FIRNLINE, STOCK, STOCK_CACHED
from bench.rewrite.pairs import line
from bench.rewrite.shapes import Shape
from bench.rewrite.sources import Arena, Source
from bench.rewrite.table import day_of

ROWS, UPSERTS, COMMITS = 1_500_000, 500_000, 12
DAYS = Shape("days", spec="day", partitions=4, base_rows=ROWS, upserts=UPSERTS, commits=COMMITS)
BUCKETS = Shape(
    "buckets",
    spec="bucket",
    partitions=8,
    base_rows=ROWS,
    upserts=UPSERTS,
    commits=COMMITS,
    growing=False,
)
PLAIN = Shape("plain", spec="none", partitions=1, base_rows=ROWS, upserts=UPSERTS, commits=COMMITS)
ONE_FILE = Shape(
    "one_file",
    spec="none",
    partitions=1,
    base_rows=4_000_000,
    base_files=1,
    upserts=UPSERTS,
    commits=2,
    row_group_rows=250_000,
)


def run(place: Arena, _count: int, scale: float) -> dict[str, Any]:
    """Ratios of one run each."""
    found: dict[str, Any] = {}
    days = place.source(DAYS.scaled(scale))
    newest = days.only(days.scopes[-1:])
    where = f"day = DATE ''{day_of(DAYS.partitions - 1)}''"
    found["days, hourly: the newest day"] = _pair(place, newest, where)
    found["days, nightly: every day"] = _pair(place, days)
    for name, shape in (("buckets", BUCKETS), ("unpartitioned", PLAIN), ("one file", ONE_FILE)):
        found[name] = _pair(place, place.source(shape.scaled(scale)))
    return {"shapes": found, "bars": []}


def _pair(place: Arena, origin: Source, where: str | None = None) -> dict[str, Any]:
    ours = benchmark_run(place, origin, FIRNLINE)
    stocks = [benchmark_run(place, origin, who, where=where) for who in (STOCK, STOCK_CACHED)]
    for made in (ours, *stocks):
        print(f"{origin.shape.name} {line(made)}", flush=True)
    return {
        "table": origin.described(),
        "cpu_ratio": ours.cpu_s / min(one.cpu_s for one in stocks),
        "wall_ratio": ours.wall_s / min(one.wall_s for one in stocks),
        "runs": [_short(made) for made in (ours, *stocks)],
    }


def _short(made: BenchmarkRun) -> dict[str, Any]:
    return {name: value for name, value in asdict(made).items() if name != "extra"}
