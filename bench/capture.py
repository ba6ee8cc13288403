"""How soon a commit becomes a task, by how it is noticed: `make bench-capture CAPTURE=postgres`.

Prints, as JSON: seconds from the snapshot's own time (before the catalog has accepted it) to its
event and to its task on their topics, one table for each commit, with the load that the host had;
with a listener its calls to the catalog in the busiest minute, too.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from firnline_domain.records.events import TableChange, TableCommitted
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.settings.thresholds import Thresholds
from firnline_local.stack.parts import CAPTURES, parts_with
from firnline_local.stack.stack import Stack, run_stack
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from bench.scale.stack_readings import read_metrics, reading_records, sum_samples

SCHEMA = pa.schema([("id", pa.int64())])
UNMEASURED = {"committer", "worker", "console"}  # parts behind the task
PACE_S = 0.5  # from one measured commit to the next
LOOK_S = 1.0
MINUTE_S = 60.0
WAIT_S = 600.0


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--capture", choices=CAPTURES, default="postgres")
    asked.add_argument("--tables", type=int, default=200)
    asked.add_argument("--commits", type=int, default=200, help="that are measured")
    given = asked.parse_args()
    parts = tuple(one for one in parts_with(given.capture) if one not in UNMEASURED)
    with tempfile.TemporaryDirectory() as folder, run_stack(Path(folder) / "s", parts) as stack:
        found = measure_tables(stack, given.tables, min(given.commits, given.tables))
    result = {"capture": given.capture, "tables": given.tables, **found}
    print(json.dumps({**result, "load_of_host": round(os.getloadavg()[1], 1)}, indent=2))


@dataclass
class Arrivals:
    """When each snapshot's event and each table's first files and task were read, in seconds of the
    epoch."""

    filled: dict[str, float] = field(default_factory=dict)
    events: dict[int, float] = field(default_factory=dict)
    tasks: dict[str, float] = field(default_factory=dict)

    def take(self, record: Any) -> None:
        now = time.time()
        if isinstance(record, TableCommitted):
            for one in record.snapshots:
                self.events.setdefault(one.snapshot_id, now)
            if record.snapshots or record.change is TableChange.REGISTERED:
                self.filled.setdefault(record.table.name, now)
        elif isinstance(record, RewriteFiles):
            self.tasks.setdefault(record.table.name, now)


@dataclass
class CatalogCalls:
    """The listener's calls to the catalog, as its metrics count them; none without a listener."""

    stack: Stack
    seen: list[tuple[float, float]] = field(default_factory=list)  # time, calls until then

    def look(self) -> None:
        port = self.stack.record.ports.get("listener-metrics")
        if port is None or "listener" not in self.stack.record.parts:
            return
        calls = sum_samples(read_metrics(port), "firnline_catalog_seconds_count")
        self.seen.append((time.monotonic(), calls))

    def in_busiest_minute(self) -> float:
        return max(
            (
                calls - before
                for at, calls in self.seen
                for earlier, before in self.seen
                if 0 <= at - earlier <= MINUTE_S
            ),
            default=0.0,
        )


def measure_tables(stack: Stack, tables: int, commits: int) -> dict[str, float]:
    """Commit to some of the tables what makes each due, at one pace, whether or not the commits
    before were noticed."""
    catalog = RestCatalog("lake", uri=stack.gateway_uri)
    catalog.create_namespace("bench")
    arrivals = Arrivals()
    with reading_records(stack, ["table-commits", "rewrite-tasks"], arrivals.take):
        filled = [fill_table(catalog, number) for number in range(tables)]
        calls = CatalogCalls(stack)
        await_keys(arrivals.filled, {one.name()[-1] for one in filled}, calls)
        chosen = random.Random(1).sample(filled, commits)
        calls.look()
        committed = dict[str, tuple[int, float]]()
        for one in chosen:
            one.append(pa.table({"id": [-1]}, schema=SCHEMA))
            committed[one.name()[-1]] = snapshot_of(one)
            calls.look()
            time.sleep(PACE_S)
        await_keys(arrivals.events, {snapshot_id for snapshot_id, _ in committed.values()}, calls)
        await_keys(arrivals.tasks, set(committed), calls)
    noticed = [arrivals.events[snapshot_id] - at for snapshot_id, at in committed.values()]
    ordered = [arrivals.tasks[name] - at for name, (_, at) in committed.items()]
    return {
        "commits": commits,
        **describe_waits("commit_to_event", noticed),
        **describe_waits("commit_to_task", ordered),
        "calls_in_busiest_minute": calls.in_busiest_minute(),
    }


def await_keys(found: Mapping[Any, float], keys: Set[Any], calls: CatalogCalls) -> None:
    """Wait until all keys are found. Raises TimeoutError."""
    deadline = time.monotonic() + WAIT_S
    while missing := keys - found.keys():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(missing)} of {len(keys)} were not noticed in {WAIT_S:g} s")
        time.sleep(LOOK_S)
        calls.look()


def fill_table(catalog: RestCatalog, number: int) -> Table:
    """Make a table that a further file makes due."""
    properties = {"firnline.rewrite.quiet-ms": "0"}
    table: Table = catalog.create_table(f"bench.t{number}", SCHEMA, properties=properties)
    with table.transaction() as change:
        for value in range(Thresholds().min_fragments - 1):
            change.append(pa.table({"id": [value]}, schema=SCHEMA))
    return table


def snapshot_of(table: Table) -> tuple[int, float]:
    """Return the id of the newest snapshot and its time in seconds."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id, snapshot.timestamp_ms / 1000


def describe_waits(name: str, waits: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(waits, n=100, method="inclusive")
    shown = {"p50": cuts[49], "p99": cuts[98], "longest": max(waits)}
    return {f"{name}_{key}_s": round(value, 3) for key, value in shown.items()}


if __name__ == "__main__":
    main()
