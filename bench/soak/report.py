"""bench/results/soak.md, and its plot: each measure over time, with Firnline and without."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from bench.soak.samples import MEASURES, UNITS

RESULTS = Path(__file__).parents[1] / "results"
WAYS = {"gateway": "through the gateway", "direct": "past it"}
WIDTH, PANEL, HIGH, LEFT, GAP = 780, 340, 130, 40, 44
COLOURS = {"with": "#1a7f5a", "without": "#b3541e"}
LABELS = {"with": "with Firnline", "without": "without"}
STORES = {"s3": "an S3 server", "files": "local files"}
Samples = Mapping[str, Sequence[Mapping[str, float]]]
Lines = Sequence[tuple[str, Sequence[tuple[float, float]]]]  # by colour: seconds and values
MAINTAINERS = {"with": "Firnline", "without": "nobody", "action": "Iceberg's actions"}


def write(body: Mapping[str, Any], folder: Path = RESULTS) -> None:
    """The plot, and the table between its marks."""
    (folder / "soak.svg").write_text(svg(body["samples"]))
    _put(folder, "soak", table_of(body))


def write_mix(body: Mapping[str, Any], folder: Path = RESULTS) -> None:
    """The tables of five engines between their marks."""
    _put(folder, "engines", mix_tables_of(body))


def _put(folder: Path, mark: str, tables: str) -> None:
    page = folder / "soak.md"
    head, rest = page.read_text().split(f"<!-- {mark} -->")
    _, tail = rest.split(f"<!-- /{mark} -->")
    page.write_text(f"{head}<!-- {mark} -->\n{tables}\n<!-- /{mark} -->{tail}")


def mix_tables_of(body: Mapping[str, Any]) -> str:
    """Failed statements of each engine by way and by what maintains its tables; then the
    tables."""
    books = body["engines"]
    sides = list(dict.fromkeys((one["system"], one["way"]) for one in books))
    heads = [f"{MAINTAINERS[system]}, {WAYS[way]}" for system, way in sides]
    lines = [
        f"| statements that failed | {' | '.join(heads)} |",
        "| --- |" + " ---: |" * len(heads),
    ]
    for engine in dict.fromkeys(one["engine"] for one in books):
        some = [one for one in books if one["engine"] == engine]
        lines.append(f"| {engine} | {' | '.join(_failed(some, sides))} |")
    lines += [f"| all | {' | '.join(_failed(books, sides))} |", ""]
    lines += [
        f"| per table | {' | '.join(MAINTAINERS.values())} |",
        "| --- |" + " ---: |" * len(MAINTAINERS),
    ]
    samples = {one["system"]: one for one in body["samples"]}
    for key, label in MEASURES.items():
        values = [_number(samples[one][key] / UNITS.get(key, 1)) for one in MAINTAINERS]
        lines.append(f"| {label} | {' | '.join(values)} |")
    wrong = [f"{one['engine']} {one['way']}" for one in books if not one["rows_right"]]
    lines += [
        "",
        f"{len(books)} tables on {STORES[body['store']]}, {body['minutes']:g} minutes, times "
        f"{body['factor']:g} times shorter. Tables with wrong rows: {', '.join(wrong) or 'none'}. "
        f"Iceberg's actions: {body['actions'].get('done', 0)} done, "
        f"{body['actions'].get('failed', 0)} failed.",
    ]
    return "\n".join(lines)


def _failed(books: Sequence[Mapping[str, Any]], sides: Sequence[tuple[str, str]]) -> list[str]:
    """Of each side, as `failed of tried`."""
    found = []
    for side in sides:
        some = [one for one in books if (one["system"], one["way"]) == side]
        failed, tried = (sum(one[key] for one in some) for key in ("failed", "statements"))
        found.append(f"{failed} of {tried:,}")
    return found


def table_of(body: Mapping[str, Any]) -> str:
    """Each measure at a third of the time, at two thirds and at its end."""
    samples: Samples = body["samples"]
    count = len(samples["with"])
    at = [max(count * part // 3 - 1, 0) for part in (1, 2, 3)]
    minutes = [f"{samples['with'][one]['at_s'] / 60:.0f} min" for one in at]
    heads = [f"{LABELS[system]}, {one}" for system in ("with", "without") for one in minutes]
    lines = [f"| per table | {' | '.join(heads)} |", "| --- |" + " ---: |" * len(heads)]
    for key, label in MEASURES.items():
        values = [
            _number(_smooth(samples[system], key, one) / UNITS.get(key, 1))
            for system in ("with", "without")
            for one in at
        ]
        lines.append(f"| {label} | {' | '.join(values)} |")
    written, cpu = body["writers"], body["cpu_s"]
    theirs = written["with"]["commits"] - written["with"]["refused"]
    lines += [
        "",
        f"{body['pairs']} pairs of tables on {STORES[body['store']]}, {body['minutes']:g} minutes, "
        f"times {body['factor']:g} times shorter. "
        f"Writers: {written['with']['commits']:,} commits to the tables with Firnline "
        f"({written['with']['refused']} deletes refused, their file was replaced), "
        f"{written['without']['commits']:,} to those without; Firnline: "
        f"{body['maintenance']['commits'] - theirs:,}. "
        f"CPU of its services: "
        + ", ".join(f"{name} {seconds:,.0f} s" for name, seconds in cpu.items()) + ".",
    ]  # fmt: skip
    return "\n".join(lines)


def _smooth(samples: Sequence[Mapping[str, float]], key: str, at: int) -> float:
    """With the two samples before: a rewrite takes all fragments at once."""
    some = samples[max(at - 2, 0) : at + 1]
    return sum(one[key] for one in some) / len(some)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def svg(samples: Samples) -> str:
    """Two panels side by side."""
    height = 50 + (HIGH + GAP) * ((len(MEASURES) + 1) // 2)
    drawn = []
    for number, system in enumerate(COLOURS):
        x = LEFT + number * 140
        drawn.append(f'<circle cx="{x}" cy="20" r="5" fill="{COLOURS[system]}"/>')
        drawn.append(_text(x + 10, 24, LABELS[system]))
    for number, (key, label) in enumerate(MEASURES.items()):
        left = LEFT + (number % 2) * (PANEL + 50)
        unit = UNITS.get(key, 1)
        lines = [
            (colour, [(one["at_s"], one[key] / unit) for one in samples[system]])
            for system, colour in COLOURS.items()
        ]
        drawn += draw_panel(label, lines, left, 50 + (number // 2) * (HIGH + GAP), PANEL)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *drawn, "</svg>\n"])


def draw_panel(label: str, lines: Lines, left: int, top: int, width: int) -> list[str]:
    """Return a panel as SVG: a line of each colour through points of seconds and values."""
    points = [point for _, some in lines for point in some]
    most = max(value for _, value in points) or 1.0
    last = max(at_s for at_s, _ in points) or 1.0
    drawn = [
        _text(left, top - 6, f"{label} (to {_number(most)}; {last / 60:.0f} min)"),
        f'<rect x="{left}" y="{top}" width="{width}" height="{HIGH}" fill="none" stroke="#ccc"/>',
    ]
    for colour, some in lines:
        path = " ".join(
            f"{left + width * at_s / last:.1f},{top + HIGH * (1 - value / most):.1f}"
            for at_s, value in some
        )
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return drawn


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x}" y="{y}">{escape(text)}</text>'


if __name__ == "__main__":
    found = Path(__file__).parents[1] / "results" / "soak.json"
    write(json.loads(found.read_text()))
