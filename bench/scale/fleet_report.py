"""bench/results/fleet.json into the README beside it, between its two markers, and into a plot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from bench.rewrite.markdown import replace_section, table
from bench.soak.report import HIGH, draw_panel

RESULTS = Path(__file__).parents[1] / "results"
WIDTH, GAP, LEFT = 760, 50, 50
COLOURS = (
    *("#1a7f5a", "#b3541e", "#2b5fa8", "#8a2f8a", "#c8a000"),
    *("#00a0b0", "#e0408a", "#777", "#000"),
)
Body = Mapping[str, Any]


def main() -> None:
    """Rewrite the page's generated section."""
    write(json.loads((RESULTS / "fleet.json").read_text()))


def write(body: Body, folder: Path = RESULTS) -> None:
    replace_section(folder / "README.md", "fleet", describe_fleet(body))
    (folder / "fleet.svg").write_text(draw_fleet(body["samples"]))


def describe_fleet(body: Body) -> str:
    """Return the generated section."""
    begin = (
        f"Taken {body['taken_at']} at {body['commit']} on {body['machine']}, load before it "
        f"{body['load_before']:.1f}. {body['tables']:,} tables, {body['minutes']:g} minutes, "
        f"{body['commits_per_second']:g} commits a second ({body['asked_per_second']:g} asked), "
        f"{body['tasks']:,} rewrites."
    )
    promises = {"newest_commit_to_task_seconds": body["newest_commit_to_task_s"]}
    promises |= body["promises_s"]
    waits = table(
        ("seconds", "p50", "p99"),
        ([name.removesuffix("_seconds"), _number(one["p50"]), _number(one["p99"])]
         for name, one in promises.items()),
    )  # fmt: skip
    last = [one for one in body["samples"] if "commits" in one][-1]
    commits = last["commits"]
    used = table(
        ("service", "CPU ms for each commit", "peak memory, MB", "most records behind"),
        (
            [
                name,
                f"{(cpu - body['samples'][0]['cpu_s'][name]) / commits * 1000:.1f}",
                f"{max(one['memory_mb'][name] for one in body['samples']):,.0f}",
                f"{max(one['lag'].get(name, 0) for one in body['samples']):,.0f}",
            ]
            for name, cpu in sorted(last["cpu_s"].items())
        ),
    )
    note = "All rows but the first are upper bounds of histogram buckets."
    return "\n\n".join([begin, waits, note, used, "![CPU, memory and lag](fleet.svg)"])


def _number(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:g}"


def draw_fleet(samples: Sequence[Body]) -> str:
    """Return three panels as SVG: cores, memory and records behind, by service."""
    names = sorted(samples[0]["cpu_s"])
    pairs = list(pairwise(samples))
    cores = {
        name: [
            (later["at_s"], (later["cpu_s"][name] - one["cpu_s"][name])
             / max(later["at_s"] - one["at_s"], 0.1))
            for one, later in pairs
        ]
        for name in names
    }  # fmt: skip
    memory = {name: [(one["at_s"], one["memory_mb"][name]) for one in samples] for name in names}
    lag = {name: [(one["at_s"], one["lag"].get(name, 0.0)) for one in samples] for name in names}
    panels = {"cores": cores, "memory, MB": memory, "records behind": lag}
    height = 60 + (HIGH + GAP) * len(panels)
    drawn = [
        f'<text x="{LEFT + 75 * at}" y="16" fill="{COLOURS[at]}">{escape(name)}</text>'
        for at, name in enumerate(names)
    ]
    for number, (label, by_name) in enumerate(panels.items()):
        lines = list(zip(COLOURS, by_name.values(), strict=False))
        drawn += draw_panel(label, lines, LEFT, 60 + number * (HIGH + GAP), WIDTH - 2 * LEFT)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *drawn, "</svg>\n"])


if __name__ == "__main__":
    main()
