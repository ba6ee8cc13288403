"""The results as one SVG: bars of CPU, wall and memory, and lines of growth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

WIDTH, ROW, LABEL, GAP = 760, 22, 130, 34
MEASURES = {"cpu_s": "CPU, s", "wall_s": "wall, s", "pss_peak": "peak PSS, MB"}
COLOURS = {
    "firnline": "#1a7f5a",
    "stock": "#b3541e",
    "stock_cached": "#d9903d",
    "floor": "#8a8f98",
    "floor_lean": "#b9bec6",
}


def svg(results: Mapping[str, Any]) -> str:
    """What there is of the parts main, keys and growth."""
    parts: list[str] = []
    top = GAP
    for name, title in (("main", "long keys"), ("keys", "composite keys")):
        if name in results:
            for measure, unit in MEASURES.items():
                found = _medians(results[name]["summary"], measure)
                drawn, top = _bars(f"{title}: {unit}", found, top)
                parts.extend(drawn)
    if "growth" in results:
        drawn, top = _lines("growth: CPU at 1, 2 and 4 times the commits", results["growth"], top)
        parts.extend(drawn)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" '
        'font-family="sans-serif" font-size="12">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>\n"])


def _medians(summary: Mapping[str, Any], measure: str) -> dict[str, float]:
    scale = 1e6 if measure == "pss_peak" else 1.0
    return {name: one[measure]["median"] / scale for name, one in summary.items()}


def _bars(title: str, values: Mapping[str, float], top: int) -> tuple[list[str], int]:
    longest = max(values.values())
    room = WIDTH - LABEL - 90
    drawn = [_text(8, top, title, bold=True)]
    for number, (name, value) in enumerate(values.items()):
        y = top + 10 + number * ROW
        width = max(1.0, room * value / longest)
        drawn.append(_text(16, y + 13, name))
        drawn.append(
            f'<rect x="{LABEL}" y="{y}" width="{width:.1f}" height="{ROW - 6}" '
            f'fill="{COLOURS.get(name, "#666")}"/>'
        )
        drawn.append(
            _text(LABEL + width + 6, y + 13, f"{value:,.3g}" if value < 1e3 else f"{value:,.0f}")
        )
    return drawn, top + len(values) * ROW + GAP


def _lines(title: str, growth: Mapping[str, Any], top: int) -> tuple[list[str], int]:
    """Both axes logarithmic: a slope of one is linear growth."""
    height, left = 180, LABEL
    series = {
        name: [(int(factor), min(costs)) for factor, costs in by_factor.items() if costs]
        for name, by_factor in growth["cpu_s"].items()
    }
    values = [cost for points in series.values() for _, cost in points]
    low, high = math.log(min(values) * 0.8), math.log(max(values) * 1.25)
    drawn = [_text(8, top, title, bold=True)]
    for number, (name, points) in enumerate(series.items()):
        placed = [
            (
                left + 250 * math.log2(factor),
                top + 10 + height * (1 - (math.log(cost) - low) / (high - low)),
                cost,
            )
            for factor, cost in points
        ]
        drawn.extend(_line(name, placed, below=number == 2))
    return drawn, top + height + GAP


def _line(name: str, placed: Sequence[tuple[float, float, float]], below: bool) -> list[str]:
    """Its costs stand above it, or below where another line is near."""
    colour = COLOURS.get(name, "#666")
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in placed)
    up = 16 if below else -5
    marks = [_text(x - 8, y + up, f"{cost:.3g} s") for x, y, cost in placed]
    last = placed[-1]
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        _text(last[0] + 34, last[1] + 4, name),
        *marks,
    ]


def _text(x: float, y: float, text: str, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{weight}>{escape(text)}</text>'
