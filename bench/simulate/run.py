"""`make simulate TABLES=... DAYS=...`: Firnline and its peers over one fleet, in virtual time."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from firnline_domain.thresholds import Thresholds

from bench.simulate.figures import figures_of, table_of
from bench.simulate.firnline import Firnline
from bench.simulate.parameters import Parameters
from bench.simulate.peers import Amoro, Cron, HourlyMse
from bench.simulate.world import System, World

RESULTS = Path(__file__).parents[1] / "results"
SYSTEMS = ("firnline", "cron", "hourly_mse", "amoro")


def system_of(name: str, world: World) -> System:
    """Whoever is called so, for that world."""
    if name == Firnline.name:
        return Firnline(world, Thresholds(target_bytes=world.p.target_bytes))
    return {peer.name: peer for peer in (Cron, HourlyMse, Amoro)}[name](world)


def simulated(name: str, p: Parameters) -> dict[str, Any]:
    """The figures of one system."""
    started = time.process_time()
    world = World(p)
    world.run(system_of(name, world))
    return figures_of(name, world, time.process_time() - started)


def main() -> None:
    """Print a table; leave bench/results/simulate_<tables>.json, with what was there of others."""
    given = _arguments()
    p = replace(Parameters(), tables=given.tables, days=given.days, seed=given.seed)
    path = RESULTS / f"simulate_{given.tables}x{given.days:g}.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    found = known.get("systems", {}) if known.get("seed") == given.seed else {}
    for name in given.systems.split(","):
        found[name] = simulated(name, p)
        print(json.dumps({k: v for k, v in found[name].items() if k != "samples"}), flush=True)
    body = {"tables": p.tables, "days": p.days, "seed": p.seed, "systems": found}
    path.write_text(json.dumps(body, indent=1) + "\n")
    print(table_of(found))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1_000)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    return parser.parse_args()


if __name__ == "__main__":
    main()
