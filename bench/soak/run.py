"""`make soak`: pairs of tables under the same writers on the whole embedded stack; Firnline looks
after one of each pair. Samples both, leaves bench/results/soak.json, and soak.md beside it with its
plot."""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from firnline_iceberg.java.api import rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.table.catalog_client import Tables
from pyiceberg.catalog.rest import RestCatalog

from bench.policy.hours import accelerated
from bench.rewrite.run import RESULTS, where
from bench.rewrite.trees import cpu_s
from bench.soak.ground import PARTS, STORES, Ground, ground
from bench.soak.mix import CAPTURED, mix_writers
from bench.soak.report import write, write_mix
from bench.soak.samples import Sampler, plain
from bench.soak.writers import NAMESPACE, SCHEMA, Clockwork, Stream, Writer

SYSTEMS = ("with", "without")
WRITERS = 2  # threads of each system
FACTOR = 20.0  # minutes pass as if they were so many: rewrites, expiry and manifests wait less
EVERY_S = 15.0


def properties(factor: float) -> dict[str, str]:
    """What the owner of a table would say, with all times so many times shorter: half an hour of
    retention, ten minutes between expiries."""
    return {
        **accelerated(factor),
        "firnline.expire.enabled": "true",  # nothing is announced a day before
        "firnline.retain.hours": f"{0.5 / factor:g}",
        "firnline.expire.min-interval-ms": str(round(600_000 / factor)),
        "firnline.manifests.min-interval-ms": str(round(3_600_000 / factor)),
        "firnline.manifests.min-count": "20",
        "firnline.metadata.previous-versions-max": "10",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--tables", type=int, default=50, help="half of them without Firnline")
    parser.add_argument("--factor", type=float, default=FACTOR)
    parser.add_argument("--store", choices=STORES, default="s3")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--writers", choices=("plain", "engines"), default="plain")
    given = parser.parse_args()
    streams = [Stream(number) for number in range(max(given.tables // 2, 1))]
    mixed = given.writers == "engines"
    folder = given.folder.absolute() / f"soak-{int(time.time())}"
    body: dict[str, Any] = {
        **where(), "minutes": given.minutes, "factor": given.factor,
        "store": "files" if mixed else given.store, "properties": properties(given.factor),
    }  # fmt: skip
    folder.mkdir(parents=True)
    with ground(body["store"], folder, CAPTURED if mixed else PARTS) as made:
        if mixed:
            body |= mix_writers(made, given.minutes, properties(given.factor), folder)
        else:
            body |= {"pairs": len(streams)} | soak(made, streams, given.minutes, given.factor)
        body["cpu_s"] = {
            name: round(cpu_s(one.pid), 1)
            for name, one in made.running.record.parts.items()
            if one.pid is not None
        }
    name = "soak_engines.json" if mixed else "soak.json"
    (given.results / name).write_text(json.dumps(body, indent=1) + "\n")
    (write_mix if mixed else write)(body, given.results)


def soak(made: Ground, streams: Sequence[Stream], minutes: float, factor: float) -> dict[str, Any]:
    """What was seen of each system."""
    rest = RestCatalog("soak", **made.by_gateway.pyiceberg_properties())
    rest.create_namespace_if_not_exists(NAMESPACE)
    stop = threading.Event()
    found: dict[str, list[dict[str, float]]] = {system: [] for system in SYSTEMS}
    with ExitStack() as held:
        machines = {one: held.enter_context(IcebergJvm(made.class_path)) for one in SYSTEMS}
        planner = held.enter_context(IcebergJvm(made.class_path, 128 << 20))
        clocks, tables = {}, Tables(made.direct)
        for system in SYSTEMS:
            more = {"firnline.enabled": "true" if system == "with" else "false"}
            for stream in streams:
                named = (*NAMESPACE, f"{stream.name}_{system}")
                rest.create_table(named, SCHEMA, properties={**properties(factor), **more})
            machine = machines[system].jvm
            java = rest_catalog(machine, made.by_gateway)
            writers = [Writer(one, f"{one.name}_{system}", java, machine, made) for one in streams]
            for writer in writers:
                writer.commit()
            clocks[system] = Clockwork(writers, stop)
        java = rest_catalog(planner.jvm, made.direct)
        sampler = Sampler(tables, java, planner.jvm, planner.pid, made.path)
        threads = [one for clock in clocks.values() for one in clock.start(WRITERS)]
        for thread in threads:
            held.callback(thread.join)
        held.callback(stop.set)
        begun = time.monotonic()
        while (at_s := time.monotonic() - begun) < minutes * 60 and not stop.is_set():
            for system in SYSTEMS:
                rows = {one.name: one.live for one in clocks[system].writers}
                sample = plain(sampler.sample(rows, at_s))
                found[system].append(sample)
                print(system, sample, flush=True)
            stop.wait(max(0.0, at_s + EVERY_S - (time.monotonic() - begun)))
        for clock in clocks.values():
            if clock.errors:
                raise clock.errors[0]
        written = {name: _written(clock.writers) for name, clock in clocks.items()}
        done = _maintenance(tables, [f"{one.name}_with" for one in streams])
    return {"samples": found, "writers": written, "maintenance": done}


def _written(writers: Sequence[Writer]) -> dict[str, int]:
    total = Counter[str]()
    for one in writers:
        total.update({"commits": one.commits, "refused": one.refused})
    return dict(total)


def _maintenance(tables: Tables, names: Sequence[str]) -> dict[str, int]:
    """Our snapshots among those that are retained, and what has expired, by the numbers of
    commits."""
    total = Counter[str]()
    for name in names:
        table = tables.load_named(NAMESPACE, name)
        total["retained"] += len(table.snapshots)
        total["commits"] += table.last_sequence_number
    return dict(total)


if __name__ == "__main__":
    main()
