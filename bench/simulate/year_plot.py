"""The years as one SVG: a row per table, a dot per system, on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from xml.sax.saxutils import escape

WIDTH, ROW, LABEL, TOP, PANEL = 1_000, 22, 230, 70, 350
COLOURS = {
    "firnline": "#1a7f5a",
    "firnline_heat": "#7ccba2",
    "amoro": "#b3541e",
    "hourly_convert": "#3b6fb6",
    "nightly_deletes": "#8a8f98",
}
PANELS = (("cpu_hours", "CPU hours of maintenance", 0.0), ("read_amplification", "reads - 1", 1.0))
LEAST = 1e-3

Figures = Mapping[str, Mapping[str, float]]


def svg(found: Mapping[str, Figures]) -> str:
    """Of each system, its figures by story."""
    stories = [
        story
        for story in next(iter(found.values()))
        if all(story in figures for figures in found.values())
    ]
    height = TOP + ROW * len(stories) + 20
    drawn = [_text(LABEL, 20, "A year of maintenance", bold=True)]
    for number, name in enumerate(found):
        x = LABEL + number * 140
        drawn.append(f'<circle cx="{x}" cy="36" r="5" fill="{COLOURS.get(name, "#666")}"/>')
        drawn.append(_text(x + 9, 40, name))
    for row, story in enumerate(stories):
        drawn.append(_text(8, TOP + row * ROW + 4, story))
    for place, (key, title, less) in enumerate(PANELS):
        left = LABEL + place * (PANEL + 30)
        drawn += _panel(found, stories, key, title, less, left)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *drawn, "</svg>\n"])


def _panel(
    found: Mapping[str, Figures], stories: list[str], key: str, title: str, less: float, left: int
) -> list[str]:
    values = {
        (name, story): max(figures[story][key] - less, LEAST)
        for name, figures in found.items()
        for story in stories
    }
    low = math.floor(math.log10(min(values.values())))
    high = max(math.ceil(math.log10(max(values.values()))), low + 1)
    scale = PANEL / (high - low)
    drawn = [_text(left, 58, title)]
    bottom = TOP + ROW * len(stories)
    for power in range(low, high + 1):
        x = left + (power - low) * scale
        drawn.append(f'<line x1="{x:.0f}" y1="{TOP - 8}" x2="{x:.0f}" y2="{bottom - 8}" '
                     'stroke="#ddd"/>')  # fmt: skip
        drawn.append(_text(x - 8, bottom + 8, f"{10.0**power:g}"))
    for (name, story), value in values.items():
        x = left + (math.log10(value) - low) * scale
        y = TOP + stories.index(story) * ROW
        colour = COLOURS.get(name, "#666")
        drawn.append(
            f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{colour}" fill-opacity="0.8">'
            f"<title>{escape(f'{story}, {name}: {value + less:.3g}')}</title></circle>"
        )
    return drawn


def _text(x: float, y: float, text: str, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.0f}" y="{y:.0f}"{weight}>{escape(text)}</text>'
