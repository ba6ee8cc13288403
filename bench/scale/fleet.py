"""`make bench-fleet`: real tables under upserts and appends at Zipf paces, committed through two
gateways. How soon a commit is noticed, scheduled and healthy, what waits, and what each service
uses. Leaves bench/results/fleet.json and fleet.svg, and its table in the README beside them.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firnline_domain.records.orders import RewriteFiles
from firnline_iceberg.java.api import rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_local.processes.ports import LOOPBACK
from firnline_local.stack.stack import Stack
from prometheus_client import Metric
from pyiceberg.catalog.rest import RestCatalog

from bench.rewrite.parts.races import rank
from bench.rewrite.run import RESULTS, where
from bench.rewrite.trees import Watch, cpu_s
from bench.scale.fleet_report import write
from bench.scale.stack_readings import read_metrics, reading_records, sum_samples
from bench.scale.started_services import StartedServices
from bench.soak.ground import PARTS, Ground, ground
from bench.soak.writers import NAMESPACE, SCHEMA, Stream, Writer

EXPONENT = 1.0  # of the paces by rank
THREADS = 8  # of the writers; a commit waits for the catalog most of its time
SAMPLE_S = 10.0
DRAIN_S = 180.0  # at most, until all that is due is healthy
SETTLED = 3  # samples with as many records behind
LAG = "firnline_consumer_lag_records"  # with transaction markers, one or two for each partition
PROMISES = (
    "event_lag_seconds",
    "commit_to_order_seconds",
    "order_to_start_seconds",
    "order_to_commit_seconds",
    "commit_to_healthy_seconds",
)


@dataclass
class Writers:
    """One writer of each table; threads take the one that is due next."""

    writers: Sequence[Writer]
    per_second: float
    stop: threading.Event
    committed: Counter[str] = field(default_factory=Counter)
    newest: dict[str, float] = field(default_factory=dict)  # time of a table's last commit
    errors: list[BaseException] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)  # from it to the table's task, of each task
    late_s: float = 0.0  # of the last commit that began
    _scale: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _due: list[tuple[float, int]] = field(default_factory=list)
    _dice: random.Random = field(default_factory=lambda: random.Random(1))

    def start(self) -> list[threading.Thread]:
        now, ranks = time.monotonic(), range(len(self.writers))
        self._scale = self.per_second / sum((1 + rank) ** -EXPONENT for rank in ranks)
        self._due = [(now + self._gap_s(rank), rank) for rank in ranks]
        heapq.heapify(self._due)
        threads = [threading.Thread(target=self._run) for _ in range(THREADS)]
        for one in threads:
            one.start()
        return threads

    def note_task(self, record: Any) -> None:
        """Take the time of a task since its table's newest commit."""
        if isinstance(record, RewriteFiles) and record.table.name in self.newest:
            self.waits_s.append(time.time() - self.newest[record.table.name])

    def _gap_s(self, rank: int) -> float:
        return self._dice.expovariate(self._scale * (1 + rank) ** -EXPONENT)

    def _run(self) -> None:
        try:
            while not self.stop.is_set():
                with self._lock:
                    due, rank = heapq.heappop(self._due)
                if self.stop.wait(max(0.0, due - time.monotonic())):
                    return
                self.late_s = time.monotonic() - due
                one = self.writers[rank]
                one.commit()
                self.newest[one.name] = time.time()
                self.committed[one.stream.kind] += 1
                with self._lock:
                    next_s = max(due, time.monotonic() - 1.0) + self._gap_s(rank)
                    heapq.heappush(self._due, (next_s, rank))
        except BaseException as error:
            self.errors.append(error)
            self.stop.set()


def make_writers(made: Ground, uris: Sequence[str], tables: int, machine: Any) -> list[Writer]:
    """Make the tables, and a writer for each; they use the gateways in turn."""
    rest = RestCatalog("fleet", uri=uris[0])
    rest.create_namespace_if_not_exists(NAMESPACE)
    catalogs = [rest_catalog(machine, made.by_gateway.at_uri(uri)) for uri in uris]

    def create(number: int) -> Writer:
        stream = Stream(number)
        name = f"{stream.kind}_{number}"
        rest.create_table((*NAMESPACE, name), SCHEMA)
        return Writer(stream, name, catalogs[number % len(uris)], machine, made)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(create, range(tables)))


def histogram_quantile(pages: Sequence[Metric], name: str, share: float) -> float | None:
    """Return the upper bound of the bucket that holds the quantile; None without observations."""
    buckets = defaultdict[float, float](float)
    for family in pages:
        for sample in family.samples:
            if sample.name == f"firnline_{name}_bucket":
                buckets[float(sample.labels["le"])] += sample.value
    total = max(buckets.values(), default=0)
    reached = (bound for bound in sorted(buckets) if buckets[bound] >= share * total)
    return next(reached, None) if total else None


@dataclass
class Services:
    """All services and servers of the run by name: process ids, and ports of metrics. `root`: their
    state directories."""

    pids: Mapping[str, int]
    ports: Mapping[str, int]
    root: Path

    def sample(self, at_s: float) -> dict[str, Any]:
        memory = {name: sum(Watch(pid).pss().values()) for name, pid in self.pids.items()}
        lag = {name: sum_samples(read_metrics(port), LAG) for name, port in self.ports.items()}
        return {
            "at_s": round(at_s, 1),
            "cpu_s": {name: round(cpu_s(pid), 2) for name, pid in self.pids.items()},
            "memory_mb": {name: round(size / 1e6, 1) for name, size in memory.items()},
            "lag": {name: value for name, value in lag.items() if value},
        }

    def sample_until_settled(self, begun: float) -> list[dict[str, Any]]:
        """Sample until no service reads on: what is left behind are transaction markers."""
        samples, end = list[dict[str, Any]](), time.monotonic() + DRAIN_S
        while time.monotonic() < end:
            time.sleep(SAMPLE_S)
            samples.append(self.sample(time.monotonic() - begun))
            last = samples[-SETTLED:]
            if len(last) == SETTLED and len({sum(one["lag"].values()) for one in last}) == 1:
                break
        return samples

    def measure_topics(self) -> dict[str, int]:
        """Return the bytes of each topic's records."""
        sizes = Counter[str]()
        for segment in (self.root / "kafka/data").glob("*/*.log"):
            sizes[segment.parent.name.rpartition("-")[0]] += segment.stat().st_size
        return dict(sizes)

    def measure_disk(self) -> dict[str, int]:
        """Return the bytes that each service's state directory takes."""
        files = {name: (self.root / name).rglob("*") for name in self.pids}
        return {
            name: sum(one.stat().st_blocks * 512 for one in found if one.is_file())
            for name, found in files.items()
        }


def list_services(stack: Stack, started: StartedServices) -> Services:
    parts, ports = stack.record.parts, stack.record.ports
    pids = {name: one.pid for name, one in parts.items() if one.pid is not None}
    metrics = {name: ports[f"{name}-metrics"] for name in parts if f"{name}-metrics" in ports}
    for one in started.running:
        pids[one.name] = one.process.pid
        metrics[one.name] = next(port for key, port in one.ports.items() if "metrics" in key)
    return Services(pids, metrics, stack.state.root)


def run_fleet(made: Ground, tables: int, minutes: float, per_second: float) -> dict[str, Any]:
    started, stop = StartedServices(made.running), threading.Event()
    (second,) = started.start("gateway")
    try:
        services = list_services(made.running, started)
        uris = [made.by_gateway.uri, f"http://{LOOPBACK}:{second.ports['gateway']}"]
        with IcebergJvm(made.class_path, 512 << 20) as machine:
            writers = Writers(make_writers(made, uris, tables, machine.jvm), per_second, stop)
            with reading_records(made.running, ["rewrite-tasks"], writers.note_task):
                return observe(services, writers, minutes)
    finally:
        stop.set()
        started.stop(list(started.running))


def observe(services: Services, writers: Writers, minutes: float) -> dict[str, Any]:
    """Sample all services while the writers commit, and until what they left is healthy."""
    services.sample_until_settled(time.monotonic())
    created = services.measure_topics()
    begun, samples = time.monotonic(), [services.sample(0.0)]
    threads = writers.start()
    while not writers.stop.is_set() and time.monotonic() - begun < minutes * 60:
        time.sleep(SAMPLE_S)
        commits, late_s = writers.committed.total(), round(writers.late_s, 2)
        found = services.sample(time.monotonic() - begun)
        samples.append({**found, "commits": commits, "late_s": late_s})
        print(samples[-1], flush=True)
    writers.stop.set()
    for one in threads:
        one.join()
    written_s = time.monotonic() - begun
    if writers.errors:
        raise writers.errors[0]
    samples += services.sample_until_settled(begun)
    pages = [one for port in services.ports.values() for one in read_metrics(port)]
    return {
        "commits": dict(writers.committed),
        "commits_per_second": round(writers.committed.total() / written_s, 1),
        "tasks": len(writers.waits_s),
        "newest_commit_to_task_s": {
            name: rank(writers.waits_s, share) if writers.waits_s else None
            for name, share in (("p50", 0.5), ("p99", 0.99))
        },
        "promises_s": {
            name: {f"p{share * 100:g}": histogram_quantile(pages, name, share)
                   for share in (0.5, 0.99)}
            for name in PROMISES
        },
        "topic_bytes": {"created": created, "written": services.measure_topics()},
        "disk_bytes": services.measure_disk(),
        "samples": samples,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=2_000)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--per-second", type=float, default=50.0)
    parser.add_argument("--parts", default=",".join(PARTS), help="of the stack, for a profile")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    asked = {"tables": given.tables, "minutes": given.minutes, "asked_per_second": given.per_second}
    body: dict[str, Any] = {**where(), **asked}
    with (
        tempfile.TemporaryDirectory(prefix="firnline-fleet-") as folder,
        ground("files", Path(folder), tuple(given.parts.split(","))) as made,
    ):
        body |= run_fleet(made, given.tables, given.minutes, given.per_second)
    (given.results / "fleet.json").write_text(json.dumps(body, indent=1) + "\n")
    write(body, given.results)


if __name__ == "__main__":
    main()
