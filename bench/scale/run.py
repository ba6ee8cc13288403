"""`make bench-scale`: waiting tasks on 1, 2 and 4 workers, each in a cgroup with a fixed share of a
core; then workers that come and are killed, and a planner that is killed. Leaves
bench/results/scale.json, and its table in the README beside it.

Needs root and cgroup v1. Servers, tables, planners and workers are real.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from firnline_local.stack.stack import run_stack
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from bench.rewrite.run import RESULTS, where
from bench.scale.report import write
from bench.scale.started_services import (
    LOOK_S,
    PATIENCE_S,
    Service,
    StartedServices,
    await_that,
    open_tasks,
)

PARTS = ("redis", "catalog", "kafka", "gateway", "enricher", "committer", "console")
PARTITIONS, FILES, ROWS = 10, 5, 20_000  # of a table, of a partition, of a file
SHARE = 0.4  # of a core: four workers and the services fit on two
WARM_TASKS = 20  # of each worker, whose JVM compiles meanwhile
YOUNG_TASKS = 80  # of each worker, that a hundred are for
PLANNED_TABLES = 32  # that become due right after a planner was killed
HOST_S = 15.0  # between two looks at how fast the host is
SETTLE_S = 20.0  # until a second planner has its part of the buckets
Sample = tuple[float, list[int], list[float]]  # when; tasks and CPU s of each worker so far
COLUMNS = ("p", "id", "a", "b")
SCHEMA = Schema(*(NestedField(number, name, LongType()) for number, name in enumerate(COLUMNS, 1)))
BY_P = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "p"))
PROPERTIES = {
    "firnline.rewrite.min-fragments": str(FILES),
    "firnline.rewrite.quiet-ms": "0",
    "firnline.rewrite.cool-down-ms": "0",
}


@dataclass(frozen=True)
class Scene:
    """A stack without workers and planners, and those that this benchmark starts."""

    catalog: RestCatalog
    services: StartedServices
    console_uri: str

    def open_tasks(self) -> int:
        return open_tasks(self.console_uri)

    def fill(self, namespace: str, tables: int, partitions: int, files: int) -> list[Table]:
        """Make tables of that many partitions of small files."""
        self.catalog.create_namespace(namespace)
        dice, found = np.random.default_rng(7), []
        for number in range(tables):
            named = f"{namespace}.t{number}"
            table = self.catalog.create_table(named, SCHEMA, partition_spec=BY_P,
                                              properties=PROPERTIES)  # fmt: skip
            for _ in range(files):
                append(table, partitions, dice)
            found.append(table)
        return found


def append(table: Table, partitions: int, dice: np.random.Generator) -> None:
    """One file of each partition."""
    rows = ROWS * partitions
    columns = {name: dice.integers(0, 1 << 60, rows) for name in COLUMNS[1:]}
    columns["p"] = np.repeat(np.arange(partitions), ROWS)
    table.append(pa.table(columns, schema=table.schema().as_arrow()))


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """All of it up but workers and planners."""
    with run_stack(folder / "stack", PARTS) as stack, ExitStack() as held:
        services = StartedServices(stack)
        held.callback(lambda: services.stop(list(services.running)))
        yield Scene(RestCatalog("lake", uri=stack.gateway_uri), services, stack.console_uri)


def drain(at: Scene, workers: int, tables: int) -> dict[str, Any]:
    """As many tasks as the tables have partitions wait; so many workers start and end them."""
    tasks = tables * PARTITIONS
    filled = at.fill(f"on_{workers}", tables, PARTITIONS, FILES)
    await_that(lambda: at.open_tasks() >= tasks, f"{tasks} waiting tasks")
    began_s = time.monotonic()
    made = at.services.start("worker", workers, SHARE)
    ready_s, ready_cpu_s = time.monotonic() - began_s, sum(one.cpu_s for one in made)
    samples, host_s = list[Sample](), [_additions_s()]
    while sum(done := [one.finished for one in made]) < tasks:
        samples.append((time.monotonic() - began_s, done, [one.cpu_s for one in made]))
        if samples[-1][0] > PATIENCE_S:
            raise TimeoutError(f"{sum(done)} of {tasks} tasks in {PATIENCE_S:g} s")
        time.sleep(LOOK_S)
        if samples[-1][0] > len(host_s) * HOST_S:
            host_s.append(_additions_s())
        for one in made:
            one.read_log()
    wall_s, cpu_s = time.monotonic() - began_s, sum(one.cpu_s for one in made)
    await_that(lambda: at.open_tasks() == 0, "the last commit")
    at.services.stop(made)
    warm = [one for one in samples if min(one[1]) >= WARM_TASKS and sum(one[1]) <= 0.9 * tasks]
    first, last = warm[0], warm[-1]
    done_warm, cpu_warm = sum(last[1]) - sum(first[1]), sum(last[2]) - sum(first[2])
    return {
        "workers": workers,
        "tasks": tasks,
        "wall_s": round(wall_s, 1),
        "ready_s": round(ready_s, 1),
        "cpu_s": round(cpu_s, 1),
        "start_cpu_s": round(ready_cpu_s, 1),
        "warm_tasks": done_warm,
        "warm_cpu_s": round(cpu_warm, 1),
        "warm_wall_s": round(last[0] - first[0], 1),
        "tasks_per_cpu_s": round(done_warm / cpu_warm, 3),
        "young_tasks_per_cpu_s": round(_young(samples, workers), 3),
        "host_s": round(statistics.fmean(host_s), 3),
        "by_worker": [one.finished for one in made],
        **committed_once(filled),
    }


def _additions_s() -> float:
    """CPU s that two million additions take in Python: neighbours make each of them dearer."""
    total, began_s = 0, time.thread_time()
    for number in range(2_000_000):
        total += number
    return time.thread_time() - began_s


def _young(samples: list[Sample], workers: int) -> float:
    """Tasks per CPU second of each worker from its 20th to its 80th task, when its JVM has compiled
    as much as every other's."""
    done = cpu_s = 0.0
    for number in range(workers):
        own = [(one[1][number], one[2][number]) for one in samples]
        inside = [one for one in own if WARM_TASKS <= one[0] <= YOUNG_TASKS]
        done += inside[-1][0] - inside[0][0]
        cpu_s += inside[-1][1] - inside[0][1]
    return done / cpu_s


def committed_once(tables: list[Table]) -> dict[str, int]:
    """How many partitions have one file, were rewritten twice, or have other rows than before."""
    found = Counter[str]()
    for table in tables:
        table.refresh()
        files = table.inspect.data_files().select(["partition", "record_count"]).to_pylist()
        counts = Counter(one["partition"]["p"] for one in files)
        rewrites = [
            one.summary
            for one in table.snapshots()
            if one.summary is not None and one.summary.operation.value == "replace"
        ]
        added = sum(int(one["added-data-files"] or 0) for one in rewrites)
        found["healthy"] += sum(count == 1 for count in counts.values())
        found["rewritten_twice"] += max(added - len(counts), 0)
        rows = sum(one["record_count"] for one in files)
        found["wrong_rows"] += rows != PARTITIONS * FILES * ROWS
    return {name: found[name] for name in ("healthy", "rewritten_twice", "wrong_rows")}


def churn(at: Scene, tables: int) -> dict[str, Any]:
    """Two workers begin; two more come; one is killed in the middle and one near the end, and
    another comes."""
    tasks = tables * PARTITIONS
    filled = at.fill("churn", tables, PARTITIONS, FILES)
    await_that(lambda: at.open_tasks() >= tasks, f"{tasks} waiting tasks")
    made, dead = at.services.start("worker", 2, SHARE), list[Service]()
    kills = list[tuple[Service, float]]()

    def done() -> int:
        for one in made:
            one.read_log()
        return len({t.task for one in made for t in one.tasks if t.action == "task_finished"})

    for share, step in ((0.15, "add"), (0.4, "kill"), (0.7, "add"), (0.85, "kill"), (1.0, "")):
        while done() < share * tasks:
            time.sleep(LOOK_S)
        alive = [one for one in made if one not in dead]
        if step == "add":
            made += at.services.start("worker", 2 if share < 0.5 else 1, SHARE)
        elif step == "kill":
            victim = max(alive, key=lambda one: len(one.unfinished))
            kills.append((victim, victim.kill()))
            victim.read_log()
            dead.append(victim)
    await_that(lambda: at.open_tasks() == 0, "the last commit")
    done()
    found = [_taken_over(victim, at_s, made) for victim, at_s in kills]
    at.services.stop(made)
    return {"tasks": tasks, "kills": found, **committed_once(filled)}


def _taken_over(victim: Service, at_s: float, workers: list[Service]) -> dict[str, Any]:
    """`first_s`: from the kill until another worker began a task of the tables that it worked on;
    `running_s`: until each of the tasks that it ran had begun again, behind those that waited."""
    later = [
        line
        for one in workers
        if one is not victim
        for line in one.tasks
        if line.action == "task_started" and line.at_s > at_s
    ]
    running = victim.unfinished
    # Of its other tables some had moved to another worker before.
    tables = {one.table for one in victim.tasks if one.task in running}
    again = {
        task: min((one.at_s - at_s for one in later if one.task == task), default=None)
        for task in running
    }
    first = min((one.at_s - at_s for one in later if one.table in tables), default=None)
    begun = [one for one in again.values() if one is not None]
    return {
        "running": len(running),
        "first_s": None if first is None else round(first, 1),
        "running_s": [round(one, 1) for one in sorted(begun)],
    }


def planner_takeover(at: Scene) -> dict[str, Any]:
    """Of two planners one is killed; then a commit makes a table of every bucket due. From the kill
    to the last of their tasks."""
    (dying,) = [one for one in at.services.running if one.name.startswith("planner")]
    filled = at.fill("planned", PLANNED_TABLES, 1, FILES - 1)
    (heir,) = at.services.start("planner")
    time.sleep(SETTLE_S)
    assert at.open_tasks() == 0
    killed_s = dying.kill()
    dice = np.random.default_rng(8)
    for one in filled:
        append(one, 1, dice)
    committed_s = time.time() - killed_s
    await_that(lambda: at.open_tasks() >= PLANNED_TABLES, "the tasks of all buckets")
    seconds = time.time() - killed_s
    assert heir.process.exit_code() is None
    return {"tables": PLANNED_TABLES, "commits_s": round(committed_s, 1),
            "last_task_s": round(seconds, 1)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=40)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--parts", default="drain,churn,planner")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    parts = given.parts.split(",")
    body: dict[str, Any] = {**where(), "share": SHARE, "drains": []}
    with tempfile.TemporaryDirectory(prefix="firnline-scale-") as folder, scene(Path(folder)) as at:
        at.services.start("planner")
        for workers in given.workers.split(",") if "drain" in parts else ():
            body["drains"].append(drain(at, int(workers), given.tables))
            print(body["drains"][-1], flush=True)
        if "churn" in parts:
            body["churn"] = churn(at, given.tables)
            print(body["churn"], flush=True)
        if "planner" in parts:
            body["planner"] = planner_takeover(at)
            print(body["planner"], flush=True)
    (given.results / "scale.json").write_text(json.dumps(body, indent=1) + "\n")
    write(body, given.results / "README.md")


if __name__ == "__main__":
    main()
