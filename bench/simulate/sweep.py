"""`make simulate-sweep`: which assumption changes the conclusion? One at a time."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from firnline_domain.base.values import replace
from firnline_domain.settings.thresholds import Thresholds

from bench.simulate.figures import shown
from bench.simulate.parameters import MB, READERS, Kind, Parameters
from bench.simulate.run import RESULTS, system_of
from bench.simulate.world import World

OURS = {"firnline": 0.6, "firnline_heat": 0.5}  # of a peer's GB-hours, at the most
PEERS = ("amoro", "hourly_convert")
Change = Callable[[Parameters], Parameters]
Found = dict[str, dict[str, float]]  # by system: GB-hours and read amplification


def kinds(change: Callable[[Kind], Kind]) -> Change:
    """Other tables."""
    return lambda p: replace(p, kinds=tuple(change(kind) for kind in p.kinds))


def each(**values: Any) -> Change:
    """Another value of one parameter."""
    return lambda p: replace(p, **values)


PUBLISHED = "as published"
CHANGES: dict[str, Change] = {
    "target 512 MB": each(target_bytes=512 * MB),
    "a quarter of the reads": kinds(lambda k: replace(k, reads_per_hour=k.reads_per_hour / 4)),
    "four times the reads": kinds(lambda k: replace(k, reads_per_hour=k.reads_per_hour * 4)),
    "no equality deletes": kinds(lambda k: replace(k, upserts=0.0)),
    "twice the upserts": kinds(lambda k: replace(k, upserts=min(k.upserts * 2, 1.0))),
    "no table by day": kinds(lambda k: replace(k, by_day=0.0)),
    "keys of the last hours alone": each(recent_share=1.0),
    "keys of any age alone": each(recent_share=0.0),
    "sizes alike (Zipf 0.5)": each(zipf=0.5, largest_bytes=200 * 1024.0 * MB),
    "keys are 40 % of the bytes": each(key_share=0.4),
    "files cost a rewrite nothing": lambda p: replace(
        p, costs=replace(p.costs, open_s=0.0, convert_s=0.0)
    ),
    "fixed cost of a task: 10 s": lambda p: replace(p, costs=replace(p.costs, fixed_s=10.0)),
    "a tenth of the workers": each(workers_per_table=1 / 400),
}
SETTINGS = {
    "payback 0.25": Thresholds(payback=0.25),
    "payback 1": Thresholds(payback=1.0),
    "reads-per-hour 8": Thresholds(reads_per_hour=8.0),
}


def figures(name: str, p: Parameters, limits: Thresholds | None = None) -> dict[str, Found]:
    """Of one run: by reading, the figures of its system."""
    world = World(p, readings=READERS)
    world.run(system_of(name, world, limits))
    spent = world.ledger.gb_hours
    return {
        what: {name: {"gb_hours": spent, "amplification": readers.amplification}}
        for what, readers in {PUBLISHED: world.readers, **world.readers_by}.items()
    }


def swept(p: Parameters) -> Iterator[tuple[str, Found]]:
    """Per change: the figures of all systems. Settings are Firnline's alone."""
    first = {what: dict[str, Any]() for what in (PUBLISHED, *READERS)}
    for name in (*OURS, *PEERS):
        for what, found in figures(name, p).items():
            first[what] |= found
    yield from first.items()
    for what, change in CHANGES.items():
        changed: Found = {}
        for name in (*OURS, *PEERS):
            changed |= figures(name, change(p))[PUBLISHED]
        yield what, changed
    peers = {name: first[PUBLISHED][name] for name in PEERS}
    for what, limits in SETTINGS.items():
        ours: Found = {}
        for name in OURS:
            ours |= figures(name, p, limits)[PUBLISHED]
        yield what, ours | peers


def line_of(what: str, found: Found) -> str:
    """GB-hours and read amplification of everyone; then whom each of ours has beaten by its bar."""
    cells = [f"{shown(one['gb_hours'])} / {one['amplification']:.2f}" for one in found.values()]
    for name, most in OURS.items():
        kept = [peer for peer in PEERS if holds(found[name], found[peer], most)]
        cells.append("yes" if len(kept) == len(PEERS) else ", ".join(kept) or "no")
    return f"| {what} | " + " | ".join(cells) + " |"


def holds(ours: dict[str, float], theirs: dict[str, float], most: float) -> bool:
    """Whether the bar is met against one peer: at most that part of its GB-hours, at no more
    amplification."""
    spent = ours["gb_hours"] <= most * theirs["gb_hours"]
    return bool(spent and ours["amplification"] <= theirs["amplification"])


def main() -> None:
    """Print a line per change as it comes; leave bench/results/simulate_sweep.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--days", type=float, default=3.0)
    parser.add_argument("--file", type=Path, default=RESULTS / "simulate_sweep.json")
    given = parser.parse_args()
    p = replace(Parameters(), tables=given.tables, days=given.days, warm_days=1.0)
    body: dict[str, Any] = {"tables": p.tables, "days": p.days, "changes": {}}
    names = (*OURS, *PEERS)
    meets = (f"{name} meets {most:.0%}" for name, most in OURS.items())
    print("| what | " + " | ".join((*names, *meets)) + " |")
    print("| --- |" + " --- |" * (len(names) + len(OURS)))
    for what, found in swept(p):
        print(line_of(what, found), flush=True)
        body["changes"][what] = found
        given.file.write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    main()
