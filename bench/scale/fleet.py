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
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.records.orders import RewriteFiles
from firnline_iceberg.java.api import rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_local.processes.ports import LOOPBACK
from firnline_local.stack.stack import Stack
from firnline_local.topics.topics import initial_buckets
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from pyiceberg.catalog.rest import RestCatalog

from bench.rewrite.run import RESULTS, where
from bench.rewrite.trees import Watch, cpu_s
from bench.scale.fleet_report import write
from bench.scale.started_services import StartedServices
from bench.soak.ground import PARTS, Ground, ground
from bench.soak.writers import NAMESPACE, SCHEMA, Stream, Writer

EXPONENT = 1.0  # of the paces by rank
THREADS = 8  # of the writers; a commit waits for the catalog most of its time
SAMPLE_S = 10.0
DRAIN_S = 180.0  # at most, until all that is due is healthy
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


@contextmanager
def reading_tasks(stack: Stack, newest: Mapping[str, float]) -> Iterator[list[float]]:
    """Seconds from the newest commit of a table to its task, of each task as it comes."""
    publisher = KafkaPublisher(stack.kafka, initial_buckets(), "bench", signer=stack.signer)
    group = f"bench-{uuid.uuid4()}"
    inbox = KafkaInbox(stack.kafka, group, ["rewrite-tasks"], publisher, Log("bench"))
    waits, over = list[float](), threading.Event()

    def read() -> None:
        while not over.is_set():
            for delivery in inbox.poll(0.02):
                record = delivery.record
                if isinstance(record, RewriteFiles) and record.table.name in newest:
                    waits.append(time.time() - newest[record.table.name])
                inbox.mark_done(delivery)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield waits
    finally:
        over.set()
        thread.join()
        inbox.close()


def make_writers(made: Ground, uris: Sequence[str], tables: int, machine: Any) -> list[Writer]:
    """Make the tables, and a writer for each; they use the gateways in turn."""
    rest = RestCatalog("fleet", uri=uris[0])
    rest.create_namespace_if_not_exists(NAMESPACE)
    catalogs = [rest_catalog(machine, made.by_gateway.at_uri(uri)) for uri in uris]
    found = []
    for number in range(tables):
        stream = Stream(number)
        name = f"{stream.kind}_{number}"
        rest.create_table((*NAMESPACE, name), SCHEMA)
        found.append(Writer(stream, name, catalogs[number % len(uris)], machine, made))
    return found


def read_metrics(port: int) -> list[Metric]:
    page = requests.get(f"http://{LOOPBACK}:{port}/metrics", timeout=30).text
    return list(text_string_to_metric_families(page))


def sum_lag(pages: Sequence[Metric]) -> float:
    """Return the records that a service has not read; transaction markers count, one or two for
    each partition."""
    return sum(
        sample.value
        for family in pages
        for sample in family.samples
        if sample.name == "firnline_consumer_lag_records"
    )


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


def quantile(values: Sequence[float], share: float) -> float | None:
    ordered = sorted(values)
    return round(ordered[int(share * (len(ordered) - 1))], 2) if ordered else None


@dataclass
class Services:
    """All services and servers of the run by name: process ids, and ports of metrics."""

    pids: Mapping[str, int]
    ports: Mapping[str, int]

    def sample(self, at_s: float) -> dict[str, Any]:
        memory = {name: sum(Watch(pid).pss().values()) for name, pid in self.pids.items()}
        lag = {name: sum_lag(read_metrics(port)) for name, port in self.ports.items()}
        return {
            "at_s": round(at_s, 1),
            "cpu_s": {name: round(cpu_s(pid), 2) for name, pid in self.pids.items()},
            "memory_mb": {name: round(size / 1e6, 1) for name, size in memory.items()},
            "lag": {name: value for name, value in lag.items() if value},
        }


def list_services(stack: Stack, started: StartedServices) -> Services:
    parts, ports = stack.record.parts, stack.record.ports
    pids = {name: one.pid for name, one in parts.items() if one.pid is not None}
    metrics = {name: ports[f"{name}-metrics"] for name in parts if f"{name}-metrics" in ports}
    for one in started.running:
        pids[one.name] = one.process.pid
        metrics[one.name] = next(port for key, port in one.ports.items() if "metrics" in key)
    return Services(pids, metrics)


def run_fleet(made: Ground, tables: int, minutes: float, per_second: float) -> dict[str, Any]:
    started, stop = StartedServices(made.running), threading.Event()
    (second,) = started.start("gateway")
    try:
        services = list_services(made.running, started)
        uris = [made.by_gateway.uri, f"http://{LOOPBACK}:{second.ports['gateway']}"]
        with IcebergJvm(made.class_path, 512 << 20) as machine:
            writers = Writers(make_writers(made, uris, tables, machine.jvm), per_second, stop)
            with reading_tasks(made.running, writers.newest) as waits:
                return observe(services, writers, waits, minutes)
    finally:
        stop.set()
        started.stop(list(started.running))


def observe(
    services: Services, writers: Writers, waits: list[float], minutes: float
) -> dict[str, Any]:
    """Sample all services while the writers commit, and until what they left is healthy."""
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
    idle = sum(samples[0]["lag"].values())
    while time.monotonic() < begun + written_s + DRAIN_S:
        time.sleep(SAMPLE_S)
        samples.append(services.sample(time.monotonic() - begun))
        if sum(samples[-1]["lag"].values()) <= idle:
            break
    pages = [one for port in services.ports.values() for one in read_metrics(port)]
    return {
        "commits": dict(writers.committed),
        "commits_per_second": round(writers.committed.total() / written_s, 1),
        "tasks": len(waits),
        "newest_commit_to_task_s": {"p50": quantile(waits, 0.5), "p99": quantile(waits, 0.99)},
        "promises_s": {
            name: {f"p{share * 100:g}": histogram_quantile(pages, name, share)
                   for share in (0.5, 0.99)}
            for name in PROMISES
        },
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
