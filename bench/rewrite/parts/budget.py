"""A delete set of four times the memory budget."""

from __future__ import annotations

from typing import Any

from firnline_worker.delete_sets.build import set_bytes

from bench.rewrite.benchmark_runs import BenchmarkRun, benchmark_run
from bench.rewrite.engines import FIRNLINE, STOCK, Engine, Failed
from bench.rewrite.figures import Bar, figure
from bench.rewrite.pairs import line
from bench.rewrite.shapes import Shape
from bench.rewrite.sources import Arena, Source

FACTOR = 4
LIMIT_S = 240.0
SHAPE = Shape(
    "budget",
    spec="none",
    partitions=1,
    base_rows=3_000_000,
    base_files=4,
    upserts=4_000_000,
    commits=8,
)


def run(place: Arena, count: int, scale: float) -> dict[str, Any]:
    """The budget is what the set would take, divided by FACTOR. Its peak is held against that
    of the same rows with a set that fits the same budget."""
    origin = place.source(SHAPE.scaled(scale))
    small = place.source(_fitting(origin.shape))
    budget = _set_bytes(origin) // FACTOR
    print({**origin.described(), "budget_bytes": budget}, flush=True)
    who = FIRNLINE.having(delete_set_bytes=budget)
    ours, fits = [], []
    for _ in range(count):
        fits.append(benchmark_run(place, small, who))
        ours.append(benchmark_run(place, origin, who))
        print(f"fits {line(fits[-1])}\n4 x  {line(ours[-1])}", flush=True)
    stock = _tried(place, origin, STOCK.having(heap=FIRNLINE.settings["heap"]))
    peaks = [big.pss_peak / little.pss_peak for big, little in zip(ours, fits, strict=True)]
    over = [(big.pss_peak - fit.pss_peak) / budget for big, fit in zip(ours, fits, strict=True)]
    bars = [
        Bar("peak PSS of a set of 4 budgets against one that fits", 1.2, figure(peaks)),
        Bar("its excess over that peak, in budgets", None, figure(over)),
    ]
    for bar in bars:
        print(bar, flush=True)
    return {
        "table": origin.described(),
        "budget_bytes": budget,
        "set_bytes": _set_bytes(origin),
        "firnline": [_short(one) for one in ours],
        "fits": [_short(one) for one in fits],
        "stock_same_heap": stock,
        "bars": [bar.as_json() for bar in bars],
    }


def _fitting(shape: Shape) -> Shape:
    """As many rows in; a quarter of the deletes."""
    upserts = shape.upserts // FACTOR
    rows = shape.base_rows + shape.upserts - upserts
    return Shape(
        f"{shape.name}_fits",
        spec=shape.spec,
        partitions=shape.partitions,
        base_rows=rows,
        base_files=shape.base_files,
        upserts=upserts,
        commits=shape.commits,
    )


def _set_bytes(origin: Source) -> int:
    """By the worker's own estimate."""
    return set_bytes(origin.table, origin.live.deletes)


def _tried(place: Arena, origin: Source, who: Engine) -> dict[str, Any]:
    try:
        made = benchmark_run(place, origin, who, limit_s=LIMIT_S)
    except Failed as failed:
        print(f"stock at heap {who.settings['heap']}: {failed}", flush=True)
        return {"failed": str(failed)[:300], "heap": who.settings["heap"]}
    print(f"stock at heap {who.settings['heap']}: {line(made)}", flush=True)
    return {**_short(made), "heap": who.settings["heap"]}


def _short(made: BenchmarkRun) -> dict[str, Any]:
    return {
        "wall_s": made.wall_s,
        "cpu_s": made.cpu_s,
        "pss_before": made.pss_before,
        "pss_peak": made.pss_peak,
        "same_rows": made.same_rows,
        "modes": made.extra.get("modes"),
    }
