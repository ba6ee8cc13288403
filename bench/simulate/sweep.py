"""`make simulate-sweep`: which assumption changes the conclusion? One at a time."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from firnline_domain.settings.thresholds import Thresholds
from firnline_domain.values import replace

from bench.simulate.figures import figures_of, shown
from bench.simulate.parameters import MB, Kind, Parameters
from bench.simulate.run import RESULTS, simulated

OURS = ("firnline", "firnline_heat")
PEERS = ("hourly_mse", "amoro")
Change = Callable[[Parameters], Parameters]
ENOUGH = 0.5  # of a peer's GB-hours, with no more read amplification


def reading(**values: float) -> Change:
    """Other readers."""
    return lambda p: replace(p, reading=replace(p.reading, **values))


def kinds(change: Callable[[Kind], Kind]) -> Change:
    """Other tables."""
    return lambda p: replace(p, kinds=tuple(change(kind) for kind in p.kinds))


def each(**values: Any) -> Change:
    """Another value of one parameter."""
    return lambda p: replace(p, **values)


CHANGES: dict[str, Change] = {
    "as published": lambda p: p,
    "opening a file: 2 ms": reading(open_s=0.002),
    "opening a file: 50 ms": reading(open_s=0.05),
    "loading a delete: 0.4 us": reading(delete_s_per_record=4e-7),
    "loading a delete: 6.4 us": reading(delete_s_per_record=6.4e-6),
    "scanning: 400 MB/s": reading(scan_s_per_byte=2.5e-9),
    "scanning: 25 MB/s": reading(scan_s_per_byte=4e-8),
    "a quarter of the reads": kinds(lambda k: replace(k, reads_per_hour=k.reads_per_hour / 4)),
    "four times the reads": kinds(lambda k: replace(k, reads_per_hour=k.reads_per_hour * 4)),
    "no upserts": kinds(lambda k: replace(k, upserts=0.0)),
    "twice the upserts": kinds(lambda k: replace(k, upserts=min(k.upserts * 2, 1.0))),
    "target 512 MB": each(target_bytes=512 * MB),
    "largest table 20 TB": each(largest_bytes=20_000 * 1024.0 * MB),
    "sizes alike (Zipf 0.5)": each(zipf=0.5),
    "upserts hit 20 %": each(hit_share=0.2),
    "keys are 40 % of the bytes": each(key_share=0.4),
    "no fixed cost of a task": lambda p: replace(p, costs=replace(p.costs, fixed_s=0.05)),
    "fixed cost of 10 s": lambda p: replace(p, costs=replace(p.costs, fixed_s=10.0)),
}
SETTINGS = {
    "payback 0.25": Thresholds(payback=0.25),
    "payback 1": Thresholds(payback=1.0),
    "reads-per-hour 1": Thresholds(reads_per_hour=1.0),
    "reads-per-hour 4": Thresholds(reads_per_hour=4.0),
    "cheap-bytes 0": Thresholds(cheap_bytes=0),
    "cheap-bytes 64 MB": Thresholds(cheap_bytes=64 * MB),
    "min-fragments 16": Thresholds(min_fragments=16),
}


def swept(p: Parameters) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    """Per change: the figures of all systems. Settings are Firnline's alone."""
    base: dict[str, dict[str, Any]] = {}
    for what, change in CHANGES.items():
        changed = change(p)
        found = {name: _figures(name, changed, None) for name in (*OURS, *PEERS)}
        base = base or found
        yield what, found
    for what, limits in SETTINGS.items():
        peers = {name: base[name] for name in PEERS}
        yield what, {name: _figures(name, p, limits) for name in OURS} | peers


def _figures(name: str, p: Parameters, limits: Thresholds | None) -> dict[str, Any]:
    figures = figures_of(simulated(name, p, limits), p.days)
    return {key: value for key, value in figures.items() if key not in ("samples", "orders")}


def line_of(what: str, found: dict[str, dict[str, Any]]) -> str:
    """GB-hours and read amplification of everyone; `yes` where ours has at most half of a peer's
    GB-hours at no more amplification."""
    cells = [f"{shown(one['gb_hours'])} / {one['amplification']:.2f}" for one in found.values()]
    for name in OURS:
        kept = [peer for peer in PEERS if holds(found[name], found[peer])]
        cells.append("yes" if len(kept) == len(PEERS) else ", ".join(kept) or "no")
    return f"| {what} | " + " | ".join(cells) + " |"


def holds(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Whether the bar is met against one peer."""
    spent = ours["gb_hours"] <= ENOUGH * theirs["gb_hours"]
    return bool(spent and ours["amplification"] <= theirs["amplification"])


def main() -> None:
    """Print a line per change as it comes; leave bench/results/simulate_sweep.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--days", type=float, default=2.0)
    parser.add_argument("--file", type=Path, default=RESULTS / "simulate_sweep.json")
    given = parser.parse_args()
    p = replace(Parameters(), tables=given.tables, days=given.days)
    body: dict[str, Any] = {"tables": p.tables, "days": p.days, "changes": {}}
    for what, found in swept(p):
        print(line_of(what, found), flush=True)
        body["changes"][what] = found
        given.file.write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    main()
