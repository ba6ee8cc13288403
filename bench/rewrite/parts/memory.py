"""The smallest heap at which each side finishes, and what its tree then takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.rewrite.bouts import Bout, bout
from bench.rewrite.contestants import FIRNLINE, STOCK, STOCK_CACHED, Contestant, Failed
from bench.rewrite.figures import Bar, figure
from bench.rewrite.pairs import line
from bench.rewrite.shapes import MAIN
from bench.rewrite.sources import Arena, Source

# Spark itself refuses to start below 450 MB (1.5 times its reserved memory).
OUR_HEAPS = ("512m", "768m", "1g")
STOCK_HEAPS = ("512m", "768m", "1g", "1536m", "2g", "3g", "4g", "6g")
OUR_LIMIT_S, STOCK_LIMIT_S = 120.0, 300.0  # far above what either needs with room


def run(place: Arena, _count: int, scale: float) -> dict[str, Any]:
    """One bisection per contestant."""
    origin = place.source(MAIN.scaled(scale))
    found = {
        FIRNLINE.name: smallest(place, origin, FIRNLINE, OUR_HEAPS, OUR_LIMIT_S),
        STOCK.name: smallest(place, origin, STOCK, STOCK_HEAPS, STOCK_LIMIT_S),
        STOCK_CACHED.name: smallest(place, origin, STOCK_CACHED, STOCK_HEAPS, STOCK_LIMIT_S),
    }
    peaks = {name: one["pss_peak"] for name, one in found.items() if "pss_peak" in one}
    stock = min(peak for name, peak in peaks.items() if name != FIRNLINE.name)
    ratio = figure([peaks[FIRNLINE.name] / stock])
    bar = Bar("peak PSS at the smallest heap that works, against the better stock", 1 / 6, ratio)
    print(bar, flush=True)
    return {"table": origin.described(), "smallest": found, "bars": [bar.as_json()]}


def smallest(
    place: Arena, origin: Source, who: Contestant, heaps: Sequence[str], limit_s: float
) -> dict[str, Any]:
    """By bisection: whoever finishes with a heap finishes with a larger one."""
    tries: list[dict[str, Any]] = []
    low, high = 0, len(heaps)  # below `low` none finishes; from `high` on all do
    best: Bout | None = None
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
        "pss_peak": best.pss_peak,
        "wall_s": best.wall_s,
        "cpu_s": best.cpu_s,
        "same_rows": best.same_rows,
    }


def _tried(place: Arena, origin: Source, who: Contestant, limit_s: float) -> Bout | None:
    try:
        made = bout(place, origin, who, limit_s=limit_s)
    except Failed as failed:
        print(f"heap {who.settings['heap']} {str(failed)[:160]}", flush=True)
        return None
    print(f"heap {who.settings['heap']} {line(made)}", flush=True)
    return made
