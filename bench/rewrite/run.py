"""`make bench-rewrite PART=... ROUNDS=...`: measure, print, leave bench/results/PART.json."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.rewrite import local_files
from bench.rewrite.engines import Failed
from bench.rewrite.parts import (
    budget,
    cluster,
    growth,
    head,
    memory,
    peers,
    prices,
    production,
    races,
    reads,
    requests,
    statements,
    streams,
    tasks,
)
from bench.rewrite.parts import main as compared
from bench.rewrite.sources import arena

RESULTS = Path(__file__).parents[1] / "results"
Run = Callable[..., dict[str, Any]]  # of an Arena, rounds, a scale and the part's options


@dataclass(frozen=True)
class Part:
    """Something to measure; `rounds` is the most it takes when everything is measured, `options`
    what else `run` is told."""

    run: Run
    rounds: int = 1
    scale: float = 1.0
    options: Callable[[argparse.Namespace], dict[str, Any]] = lambda _: {}


def _load(given: argparse.Namespace) -> dict[str, Any]:
    return {"load": streams.Load(given.rate, given.writers, given.minutes, given.busy)}


def _sides(given: argparse.Namespace) -> dict[str, Any]:
    return {"sides": cluster.Sides(tuple(given.sides.split(",")), given.limit_minutes * 60)}


PARTS = {
    "main": Part(compared.run, 99),
    "keys": Part(compared.run_composite),
    "growth": Part(growth.run, 3),
    "tasks": Part(tasks.run),
    "budget": Part(budget.run),
    "memory": Part(memory.run),
    "reads": Part(reads.run, scale=0.5),
    "shapes": Part(production.run, scale=0.5),
    "requests": Part(requests.run),
    "races": Part(races.run),
    "statements": Part(statements.run),
    "streams": Part(streams.run, options=_load),
    "head": Part(head.run),
    "prices": Part(prices.run),
    "peers": Part(peers.run, 3),
    "cluster": Part(cluster.run, options=_sides),
    "cluster_large": Part(cluster.run, scale=cluster.LARGE, options=_sides),
}
PEERS = "peers"  # left out of `all`, because it fetches what nothing else needs
CLUSTERS = ("cluster", "cluster_large")  # left out of `all`, because they need root and Go


def main() -> int:
    """1 where a part did not come to its end; the others are measured all the same."""
    given = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # engines are ended on the way
    names = chosen(given.part, given.peers)
    os.environ |= local_files.environment(given.folder)
    failed = 0
    for name in names:
        most = PARTS[name].rounds if len(names) > 1 else given.rounds
        try:
            _measure(name, given, max(1, min(given.rounds, most)))
        except (Failed, AssertionError) as error:
            print(f"== {name} failed: {error}", flush=True)
            failed = 1
    return failed


def chosen(given: str, with_peers: bool) -> list[str]:
    """Names of parts. Raises SystemExit with a sentence for an unknown one."""
    names = (
        [name for name in PARTS if name not in (PEERS, *CLUSTERS)]
        if given == "all"
        else given.split(",")
    )
    if unknown := sorted(set(names) - set(PARTS)):
        raise SystemExit(f"no part {', '.join(unknown)}; there are all, {', '.join(PARTS)}")
    return [*names, PEERS] if with_peers and PEERS not in names else names


def _measure(name: str, given: argparse.Namespace, count: int) -> None:
    print(f"== {name}", flush=True)
    part, start = PARTS[name], time.monotonic()
    about = {"part": name, **where(), "scale": given.scale * part.scale, "rounds": count}
    with arena(given.folder) as place:
        body = part.run(place, count, given.scale * part.scale, **part.options(given))
    seconds = round(time.monotonic() - start)
    given.results.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**about, "seconds": seconds, **body}, indent=1)
    (given.results / f"{name}.json").write_text(text + "\n")
    print(f"== {name} took {seconds} s", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="all", help=f"all, or some of {', '.join(PARTS)}")
    parser.add_argument("--peers", action="store_true", help="Sail and Trino too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of every table's rows")
    told = streams.Load()
    parser.add_argument("--rate", type=float, default=told.rate, help="streams: appends a second")
    parser.add_argument("--writers", type=int, default=told.writers, help="streams: that share it")
    parser.add_argument("--minutes", type=float, default=told.minutes, help="streams: how long")
    parser.add_argument("--busy", action=argparse.BooleanOptionalAction, default=told.busy,
                        help="streams: beside a process that takes a core")  # fmt: skip
    sides = cluster.Sides()
    parser.add_argument("--sides", default=",".join(sides.names), help="cluster: who, in turn")
    parser.add_argument("--limit-minutes", type=float, default=sides.limit_s / 60,
                        help="cluster: of a side")  # fmt: skip
    parser.add_argument("--folder", type=Path, required=True, help="tables are kept here")
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser.parse_args()


def where() -> dict[str, Any]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "taken_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "machine": f"{os.cpu_count()} x {_cpu_model()}, {platform.system()} {platform.release()}",
        "load_before": os.getloadavg()[0],
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    sys.exit(main())
