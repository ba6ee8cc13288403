"""`make bench-rewrite PART=... ROUNDS=...`: measure, print, leave bench/results/PART.json."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.rewrite.parts import budget, growth, memory, production, reads, requests, tasks
from bench.rewrite.parts import main as compared
from bench.rewrite.sources import Arena, arena

RESULTS = Path(__file__).parents[1] / "results"
Run = Callable[[Arena, int, float], dict[str, Any]]


@dataclass(frozen=True)
class Part:
    """Something to measure; `rounds` is the most it takes of those asked for."""

    run: Run
    rounds: int
    scale: float = 1.0


PARTS = {
    "main": Part(compared.run, 99),
    "keys": Part(compared.run_composite, 2),
    "growth": Part(growth.run, 3),
    "tasks": Part(tasks.run, 1),
    "budget": Part(budget.run, 2),
    "shapes": Part(production.run, 1),
    "memory": Part(memory.run, 1),
    "requests": Part(requests.run, 1),
    "reads": Part(reads.run, 1, scale=0.5),
}


def main() -> None:
    given = _arguments()
    names = list(PARTS) if given.part == "all" else given.part.split(",")
    for name in names:
        part = PARTS[name]
        print(f"== {name}", flush=True)
        start = time.monotonic()
        with arena(given.folder) as place:
            count = max(1, min(given.rounds, part.rounds))
            body = part.run(place, count, given.scale * part.scale)
        seconds = round(time.monotonic() - start)
        body = {"part": name, **_where(), "scale": given.scale, "seconds": seconds, **body}
        given.results.mkdir(parents=True, exist_ok=True)
        (given.results / f"{name}.json").write_text(json.dumps(body, indent=1) + "\n")
        print(f"== {name} took {seconds} s", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="all", help=f"all, or some of {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of every table's rows")
    parser.add_argument("--folder", type=Path, required=True, help="tables are kept here")
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser.parse_args()


def _where() -> dict[str, Any]:
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
    main()
