"""`make simulate TABLES=... DAYS=...`: Firnline and its peers over one fleet, in virtual time."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from firnline_domain.base.values import replace
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds

from bench.simulate import peers
from bench.simulate.figures import (
    Sums,
    added,
    course_of,
    figures_of,
    readers_of,
    sums_of,
    table_of,
    verdicts_of,
)
from bench.simulate.firnline import Firnline
from bench.simulate.parameters import MB, READERS, Parameters
from bench.simulate.world import System, World

RESULTS = Path(__file__).parents[1] / "results"
PEERS: dict[str, type[peers.Peer]] = {
    peer.name: peer
    for peer in (
        peers.Amoro,
        peers.HourlyConvert,
        peers.HourlyBinPack,
        peers.NightlyBinPack,
        peers.NightlyDeletes,
        peers.HourlyMse,
        peers.AutoComp,
    )
}
SYSTEMS = ("firnline", "firnline_heat", *PEERS)


def system_of(name: str, world: World, limits: Thresholds | None = None) -> System:
    """Whoever is called so, for that world. `_heat`: readers report their scans;
    `@firnline.rewrite.payback=0.5`: with that table property."""
    called, *given = name.split("@")
    if called in PEERS:
        return PEERS[called](world)
    if called not in SYSTEMS:
        raise SystemExit(f"no system is called {name}: {', '.join(SYSTEMS)}")
    limits = resolve_thresholds(dict(one.split("=", 1) for one in given), limits)
    limits = replace(limits, target_bytes=world.p.target_bytes)
    return Firnline(world, limits, heat=called.endswith("_heat"))


def simulated(name: str, p: Parameters, limits: Thresholds | None = None) -> Sums:
    """The sums of one system over one shard."""
    started = time.process_time()
    world = World(p, readings=READERS)
    world.run(system_of(name, world, limits))
    return sums_of(world, time.process_time() - started)


def main() -> None:
    """Print a table; keep the sums beside those of the same fleet that were there, so that a large
    fleet can be run by and by: SHARD=1/10, 2/10, ..."""
    given = _arguments()
    p = replace(
        Parameters(),
        tables=given.tables,
        days=given.days,
        seed=given.seed,
        target_bytes=given.target * MB,
    )
    path = RESULTS / f"simulate_{p.tables}x{p.days:g}_{given.target}_{p.seed}.json"
    found: dict[str, dict[str, Sums]] = json.loads(path.read_text()) if path.exists() else {}
    one, of = (int(part) for part in given.shard.split("/"))
    p = replace(p, first=p.tables * (one - 1) // of, last=p.tables * one // of)
    for name in filter(None, given.systems.split(",")):
        shards = {key: had for key, had in found.get(name, {}).items() if key.endswith(f"/{of}")}
        found[name] = {**shards, given.shard: simulated(name, p)}
        path.write_text(json.dumps(found, indent=1) + "\n")
        print(name, figures_of(found[name][given.shard], p.days)["simulator_cpu_s"], flush=True)
    figures = {name: figures_of(summed(had), p.days) for name, had in found.items()}
    figures = {name: figures[name] for name in SYSTEMS if name in figures} | figures
    print(f"{path}\n{table_of(figures)}\n\n{course_of(figures)}\n\n{verdicts_of(figures)}")
    print(f"\n{readers_of(figures)}")


def summed(shards: dict[str, Sums]) -> Sums:
    """All shards that were run."""
    first, *others = shards.values()
    for other in others:
        first = added(first, other)
    return first


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1_000)
    parser.add_argument("--days", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--target", type=int, default=128, help="MB")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="none: print what there is")
    parser.add_argument("--shard", default="1/1", help="k/n: the k-th n-th of the fleet")
    return parser.parse_args()


if __name__ == "__main__":
    main()
