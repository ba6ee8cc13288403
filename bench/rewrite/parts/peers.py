"""Firnline, Sail and Trino in turn, each in a process tree of its own: the first rewrite after its
start, the same again, and a small table whose keys have NULLs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from firnline_local.servers.artifacts import BadArtifact, RepositoryAway

from bench.rewrite import javas, trino
from bench.rewrite.benchmark_runs import BenchmarkRun, arriving
from bench.rewrite.engines import FIRNLINE, SAIL, TRINO, Engine, Failed, Running
from bench.rewrite.figures import Bar
from bench.rewrite.pairs import (
    Rounds,
    cpu,
    cpu_and_commit,
    in_turn,
    line,
    peak,
    ratio,
    summary,
    wall_and_commit,
)
from bench.rewrite.shapes import MAIN, NULLS
from bench.rewrite.sources import Arena, Source

PACKAGES = Path(sys.prefix, "peers")  # where `make bench-rewrite PEERS=1` installs Sail
INSTALL = "make bench-rewrite PEERS=1 installs it"
FIRST, WARM, NULL_KEYS = "first", "warm", "nulls"
KINDS = (FIRST, WARM, NULL_KEYS)  # in this order, in one process tree


@dataclass
class Tally:
    """What was found, by kind of run and engine; why others were not run, or failed."""

    found: dict[str, Rounds]
    absent: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def run(place: Arena, count: int, scale: float) -> dict[str, Any]:
    """A peer that cannot run, fails or gives other rows is told of; Firnline has to be right."""
    origin, nulls = place.source(MAIN.scaled(scale)), place.source(NULLS)
    who, absent = present()
    tally = Tally({kind: {one.name: [] for one in who} for kind in KINDS}, absent)
    for name, why in absent.items():
        print(f"       {name:>13}: not run: {why}", flush=True)
    for one in in_turn(who, count):
        if one.name not in tally.failed:
            _visit(place, one, (origin, origin, nulls), tally)
    judged = bars(tally)
    for bar in judged:
        print(bar, flush=True)
    return {
        "table": origin.described(),
        "nulls_table": nulls.described(),
        "summary": {kind: summary(found) for kind, found in tally.found.items()},
        "absent": tally.absent,
        "failed": tally.failed,
        "bars": [bar.as_json() for bar in judged],
        "runs": {
            kind: {name: [asdict(one) for one in runs] for name, runs in found.items()}
            for kind, found in tally.found.items()
        },
    }


def present() -> tuple[list[Engine], dict[str, str]]:
    """Who can be run here, and why the others cannot."""
    who, absent = [FIRNLINE], {}
    if (PACKAGES / "pysail").is_dir():
        who.append(SAIL.having(packages=str(PACKAGES)))
    else:
        absent[SAIL.name] = INSTALL
    java = javas.oldest_from(trino.JAVA, javas.homes())
    if java is None:
        absent[TRINO.name] = f"needs Java {trino.JAVA} or newer: set JAVA_HOME to one"
        return who, absent
    try:
        who.append(TRINO.having(java=str(java), home=str(trino.installed())))
    except (BadArtifact, RepositoryAway) as error:
        absent[TRINO.name] = str(error)
    return who, absent


def _visit(place: Arena, who: Engine, sources: Sequence[Source], tally: Tally) -> None:
    """One process tree for all kinds of runs, in their order."""
    ours = who.name == FIRNLINE.name
    try:
        with arriving(place, who, strict=ours) as visitor:
            print(f" start {told(visitor.running)}", flush=True)
            for kind, source in zip(KINDS, sources, strict=True):
                made = visitor.run(source)
                tally.found[kind][who.name].append(made)
                print(f"{kind:>6} {line(made)}", flush=True)
    except (Failed, AssertionError) as error:
        if ours:
            raise
        tally.failed[who.name] = str(error)
        print(f"       {who.name:>13}: FAILED: {error}", flush=True)


def told(running: Running) -> str:
    """What its start cost, in the columns of a run."""
    return f"{running.name:>13}: wall {running.start_s:7.2f} s  CPU {running.start_cpu_s:7.2f} s"


def bars(tally: Tally) -> list[Bar]:
    """Ours against each peer that came to the end of every round with the right rows."""
    found = [bar for name in (SAIL.name, TRINO.name) for bar in _against(tally, name, WARM)]
    return [*found, *_against(tally, TRINO.name, FIRST)]


def _against(tally: Tally, name: str, kind: str) -> list[Bar]:
    ours, theirs = tally.found[kind][FIRNLINE.name], tally.found[kind].get(name, [])
    if not comparable(ours, theirs):
        return []
    told = f"against {name.capitalize()}, {kind}"
    return [
        ratio(f"wall with the commit {told}", None, ours, theirs, wall_and_commit),
        ratio(f"CPU with the commit {told}", None, ours, theirs, cpu_and_commit),
        ratio(f"CPU without the commit {told}", None, ours, theirs, cpu),
        ratio(f"peak PSS {told}", None, ours, theirs, peak),
    ]


def comparable(ours: Sequence[BenchmarkRun], theirs: Sequence[BenchmarkRun]) -> bool:
    """Wrong rows have no price."""
    return len(ours) == len(theirs) > 0 and all(one.same_rows for one in theirs)
