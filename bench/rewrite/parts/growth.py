"""Four times the commits, the same rows in each."""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from typing import Any

from bench.rewrite.benchmark_runs import LIMIT_S, visiting
from bench.rewrite.engines import FIRNLINE, STOCK, STOCK_CACHED, Engine, Failed
from bench.rewrite.figures import Bar, figure
from bench.rewrite.pairs import line
from bench.rewrite.shapes import Shape
from bench.rewrite.sources import Arena, Source

FACTORS = (1, 2, 4)
COMMITS = 10
ROWS = 120_000  # per commit; the first one, without deletes, has as many
STOCK_LIMIT_S = 300.0


def run(place: Arena, count: int, scale: float) -> dict[str, Any]:
    """CPU by engine and factor; each engine takes all sizes in one warm process."""
    origins = {factor: place.source(_shape(factor, int(ROWS * scale))) for factor in FACTORS}
    found = {
        who.name: _costs(place, origins, who, times, limit)
        for who, times, limit in (
            (FIRNLINE, count, LIMIT_S),
            (STOCK, 1, STOCK_LIMIT_S),
            (STOCK_CACHED, 1, STOCK_LIMIT_S),
        )
    }
    grown = [b / a for a, b in zip(found["firnline"]["1"], found["firnline"]["4"], strict=True)]
    bar = Bar("CPU at 4 times the commits", 4.4, figure(grown))
    print(bar, flush=True)
    return {
        "tables": {str(factor): origin.described() for factor, origin in origins.items()},
        "cpu_s": found,
        "growth": {name: _grown(costs) for name, costs in found.items()},
        "bars": [bar.as_json()],
    }


def _shape(factor: int, rows: int) -> Shape:
    return Shape(
        f"growth{factor}_{rows}",
        partitions=2,
        base_rows=rows,
        base_files=1,
        upserts=rows * COMMITS * factor,
        commits=COMMITS * factor,
        growing=False,
    )


def _costs(
    place: Arena, origins: dict[int, Source], who: Engine, count: int, limit_s: float
) -> dict[str, list[float]]:
    """CPU seconds by factor; an engine that takes too long has no more of them."""
    costs: dict[str, list[float]] = {str(factor): [] for factor in origins}
    with ExitStack() as held:
        visitor = held.enter_context(visiting(place, who))
        visitor.run(origins[1])  # once more for the compilers
        for _ in range(count):
            for factor, origin in origins.items():
                try:
                    made = visitor.run(origin, limit_s=limit_s)
                except Failed as failed:
                    print(failed, flush=True)
                    return costs
                print(f"x{factor} {line(made)}", flush=True)
                costs[str(factor)].append(made.cpu_s)
    return costs


def _grown(costs: dict[str, list[float]]) -> float | None:
    if not costs["4"]:
        return None
    return statistics.median(costs["4"]) / statistics.median(costs["1"])
