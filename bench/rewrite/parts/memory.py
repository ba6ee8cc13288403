"""The smallest heap at which each side finishes, and what its tree then takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.rewrite.benchmark_runs import BenchmarkRun, benchmark_run
from bench.rewrite.engines import FIRNLINE, STOCK, Engine, Failed
from bench.rewrite.figures import Bar, figure
from bench.rewrite.pairs import line
from bench.rewrite.shapes import MAIN
from bench.rewrite.sources import Arena, Source

# Spark itself refuses to start below 450 MB (1.5 times its reserved memory).
OUR_HEAPS = ("512m", "768m", "1g")
STOCK_HEAPS = ("512m", "768m", "1g", "1536m", "2g", "3g", "4g", "6g")
OUR_LIMIT_S, STOCK_LIMIT_S = 120.0, 300.0  # far above what either needs with room


def run(place: Arena, _count: int, scale: float) -> dict[str, Any]:
    """One bisection each. Stock as it comes: with its cache it needs more, never less."""
    origin = place.source(MAIN.scaled(scale))
    found = {
        FIRNLINE.name: smallest(place, origin, FIRNLINE, OUR_HEAPS, OUR_LIMIT_S),
        STOCK.name: smallest(place, origin, STOCK, STOCK_HEAPS, STOCK_LIMIT_S),
    }
    bars = _bars(found)
    for bar in bars:
        print(bar, flush=True)
    return {"table": origin.described(), "smallest": found, "bars": [bar.as_json() for bar in bars]}


def _bars(found: dict[str, dict[str, Any]]) -> list[Bar]:
    """None where one side never finished."""
    ours, stock = (found[who.name] for who in (FIRNLINE, STOCK))
    if "pss_peak" not in ours or "pss_peak" not in stock:
        return []
    ratio = ours["pss_peak"] / stock["pss_peak"]
    above_idle = (ours["pss_peak"] - ours["pss_before"]) / (stock["pss_peak"] - stock["pss_before"])
    return [
        Bar("peak PSS at the smallest heap that works, against stock", 1 / 6, figure([ratio])),
        Bar("the same above what an idle session takes", None, figure([above_idle])),
    ]


def smallest(
    place: Arena, origin: Source, who: Engine, heaps: Sequence[str], limit_s: float
) -> dict[str, Any]:
    """By bisection: whoever finishes with a heap finishes with a larger one."""
    tries: list[dict[str, Any]] = []
    low, high = 0, len(heaps)  # below `low` none finishes; from `high` on all do
    best: BenchmarkRun | None = None
    while low < high:
        middle = (low + high) // 2
        made = _tried(place, origin, who.having(heap=heaps[middle]), limit_s)
        tries.append({"heap": heaps[middle], "finished": made is not None})
        if made is None:
            low = middle + 1
        else:
            high, best = middle, made
    if best is None:
        return {"tries": tries}
    return {
        "tries": tries,
        "heap": heaps[high],
        "pss_before": best.pss_before,
        "pss_peak": best.pss_peak,
        "pss_by": best.pss_by,
        "wall_s": best.wall_s,
        "cpu_s": best.cpu_s,
        "same_rows": best.same_rows,
    }


def _tried(place: Arena, origin: Source, who: Engine, limit_s: float) -> BenchmarkRun | None:
    try:
        made = benchmark_run(place, origin, who, limit_s=limit_s)
    except Failed as failed:
        print(f"heap {who.settings['heap']} {str(failed)[:160]}", flush=True)
        return None
    print(f"heap {who.settings['heap']} {line(made)}", flush=True)
    return made
