"""The streaming-upsert table: Firnline, both stocks and both floors, in turn."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bench.rewrite.engines import FIRNLINE, FLOOR, FLOOR_LEAN, STOCK, STOCK_CACHED
from bench.rewrite.pairs import bars, rounds, summary
from bench.rewrite.shapes import COMPOSITE, MAIN, Shape
from bench.rewrite.sources import Arena

ALL = (FIRNLINE, STOCK, STOCK_CACHED, FLOOR, FLOOR_LEAN)


def run(place: Arena, count: int, scale: float) -> dict[str, Any]:
    """Long keys."""
    return _compared(place, MAIN.scaled(scale), count)


def run_composite(place: Arena, count: int, scale: float) -> dict[str, Any]:
    """Composite keys of two strings."""
    return _compared(place, COMPOSITE.scaled(scale), count)


def _compared(place: Arena, shape: Shape, count: int) -> dict[str, Any]:
    origin = place.source(shape)
    print(origin.described(), flush=True)
    found = rounds(place, origin, ALL, count)
    judged = bars(found)
    for bar in judged:
        print(bar, flush=True)
    return {
        "table": origin.described(),
        "summary": summary(found),
        "bars": [bar.as_json() for bar in judged],
        "runs": {name: [asdict(one) for one in runs] for name, runs in found.items()},
    }
