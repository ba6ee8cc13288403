"""Spark reads the result: ours against stock's, in turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.rewrite.benchmark_runs import Visitor, visiting
from bench.rewrite.engines import FIRNLINE, STOCK, STOCK_CACHED, Running, started
from bench.rewrite.figures import figure, ratio_bar
from bench.rewrite.shapes import MAIN
from bench.rewrite.sources import Arena, Source
from bench.rewrite.trees import Watch

PAIRS = 7
WARM_UPS = 2


def run(place: Arena, _count: int, scale: float) -> dict[str, Any]:
    """7 pairs of full reads; both tables are rewritten for it."""
    origin = place.source(MAIN.scaled(scale))
    names = {}
    for who in (FIRNLINE, STOCK_CACHED):
        with visiting(place, who) as visitor:
            names[who.name] = _rewritten(visitor, origin)
    try:
        reader = replace(STOCK, name="reader")
        with started(reader, place.work("reader"), uri=place.lake.uri) as spark:
            ours, theirs = _reads(spark, names[FIRNLINE.name], names[STOCK_CACHED.name])
    finally:
        for name in names.values():
            place.remove(origin, name)
    bars = [
        ratio_bar("Spark's wall to read our result", 1.1, ours[0], theirs[0]),
        ratio_bar("Spark's CPU to read our result", 1.1, ours[1], theirs[1]),
    ]
    for bar in bars:
        print(bar, flush=True)
    return {
        "table": origin.described(),
        "ours_s": str(figure(ours[0])),
        "stock_s": str(figure(theirs[0])),
        "walls": {"ours": ours[0], "stock": theirs[0]},
        "bars": [bar.as_json() for bar in bars],
    }


def _rewritten(visitor: Visitor, origin: Source) -> str:
    made = visitor.run(origin, keep=True)
    assert made.same_rows
    return str(made.extra["table"])


def _reads(
    spark: Running, ours: str, theirs: str
) -> tuple[tuple[list[float], list[float]], tuple[list[float], list[float]]]:
    """(walls, CPUs) of each. The order turns from pair to pair."""
    for name in (ours, theirs) * WARM_UPS:
        _read(spark, name)
    costs: dict[str, tuple[list[float], list[float]]] = {ours: ([], []), theirs: ([], [])}
    for number in range(PAIRS):
        for name in (ours, theirs) if number % 2 else (theirs, ours):
            wall, cpu = _read(spark, name)
            costs[name][0].append(wall)
            costs[name][1].append(cpu)
    return costs[ours], costs[theirs]


def _read(spark: Running, name: str) -> tuple[float, float]:
    with Watch(spark.pid) as watch:
        spark.ask(600.0, read=name)
    return watch.usage.wall_s, watch.usage.cpu_s
