"""A table that a writer appends to several times a second, and a quiet one beside it, on
the whole embedded stack with the machine kept busy: how often our commits come through, how much of
what was rewritten they take, how many small files there are, and how long the quiet table waits."""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.records.events import RewriteCommitted, RewriteConflicted
from firnline_domain.records.parts.summaries import TASK_ID
from firnline_domain.records.parts.tallies import DEFAULT_TARGET_BYTES, FRAGMENTS_IN_TARGET
from firnline_domain.records.results import RewriteFinished, TaskFailed
from firnline_iceberg.scan.planning import live_files
from firnline_iceberg.table.catalog_client import Tables
from firnline_local.processes.command import Command
from firnline_local.processes.process import Process, run_process
from firnline_local.stack import stack as stacks
from firnline_local.stack.stack import Stack
from firnline_local.topics.topics import initial_buckets
from pyiceberg.catalog.rest import RestCatalog

from bench.rewrite import stream_side
from bench.rewrite.engines import Failed
from bench.rewrite.figures import Bar, figure
from bench.rewrite.lake import NAMESPACE
from bench.rewrite.pace import Ended, Rewritten, longest_gap_s, share, waits_s
from bench.rewrite.sources import Arena
from bench.rewrite.stream_side import FAILED, LANDED, ROWS, SCHEMA, UNKNOWN
from bench.rewrite.trees import Usage, Watch

HOT, QUIET = "hot", "quiet"
QUIET_RATE = 0.5
PARTS = ("redis", "catalog", "kafka", "gateway", "enricher", "planner", "committer", "worker")
# A commit's metadata has every snapshot: who commits so often has old ones expired.
PROPERTIES = {
    "history.expire.max-snapshot-age-ms": "30000",
    "firnline.expire.enabled": "true",
    "firnline.expire.min-interval-ms": "20000",
    "firnline.rewrite.min-fragments": "8",
    "firnline.rewrite.quiet-ms": "0",
    "firnline.rewrite.cool-down-ms": "2000",
    "firnline.commit.max-per-hour": "0",
}
EVERY_S = 1.0  # between two looks at the catalog
GAP_S, MISSED, SMALL, FAILURES = 30.0, 0.05, 60.0, 0.01  # the bars
SMALL_BYTES = DEFAULT_TARGET_BYTES // FRAGMENTS_IN_TARGET
WARM_S = 240.0
LATE_S = 5.0  # records of the last moments are read for so long


@dataclass(frozen=True)
class Load:
    """How much goes on: appends a second of all writers together, minutes, and whether a process
    that does nothing else takes a core. Several writers lose races against each other, too."""

    rate: float = 5.0
    writers: int = 1
    minutes: float = 10.0
    busy: bool = True


@dataclass
class Seen:
    """What the looks at one table have found: its small files, and our commits' times by id."""

    small: list[int] = field(default_factory=list)
    ours: dict[int, int] = field(default_factory=dict)

    def take(self, metadata: dict[str, Any]) -> None:
        """A table's metadata, as the catalog answers. Raises Failed where a file is not small."""
        head = None
        for snapshot in metadata.get("snapshots", ()):
            if TASK_ID in snapshot["summary"]:
                self.ours[snapshot["snapshot-id"]] = snapshot["timestamp-ms"]
            if snapshot["snapshot-id"] == metadata.get("current-snapshot-id"):
                head = snapshot["summary"]
        if head is None:
            self.small.append(0)
            return
        if int(head["total-files-size"]) >= SMALL_BYTES:
            raise Failed("the table has grown so large that not all of its files need be small")
        self.small.append(int(head["total-data-files"]))


@dataclass
class Told:
    """What the topics have said of one table's rewrites."""

    results: list[Rewritten] = field(default_factory=list)
    ends: list[Ended] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    def take(self, record: Any) -> None:
        match record:
            case RewriteFinished():
                size = sum(file.bytes for group in record.groups for file in group.outputs)
                self.results.append(
                    Rewritten(record.task_id, record.attempt, size, record.finished_at_ms)
                )
            case RewriteCommitted():
                self.ends.append(
                    Ended(record.task_id, record.committed_at_ms, True, record.bytes_lost)
                )
            case RewriteConflicted():
                self.refused[record.reason] += 1
                self.ends.append(Ended(record.task_id, record.conflicted_at_ms, False))
            case TaskFailed():
                self.refused[record.reason] += 1


def run(place: Arena, _count: int, _scale: float, load: Load = Load()) -> dict[str, Any]:
    """Raises Failed where rows are not the right ones in the end."""
    folder = place.work("streams")
    with stacks.run_stack(folder / "state", only=PARTS) as stack:
        _make(stack.gateway_uri)
        seen, told = {HOT: Seen(), QUIET: Seen()}, {HOT: Told(), QUIET: Told()}
        with _records(stack, told) as drain, ExitStack() as writers:
            writers.enter_context(_writing(stack, folder, QUIET, QUIET_RATE))
            _warm(drain, told[QUIET])
            if load.busy:
                writers.enter_context(run_process(_busy(folder), folder / "busy.log"))
            for number in range(load.writers):
                rate = load.rate / load.writers
                writers.enter_context(_writing(stack, folder, HOT, rate, number))
            pid = stack.record.pid
            assert pid is not None
            begin_ms = _now_ms()
            with Watch(pid) as watch:
                for _ in _looks(load.minutes * 60):
                    for name, one in seen.items():
                        one.take(_metadata(stack, name))
                    drain(0.0)
            end_ms = _now_ms()
            writers.close()
            for name, one in seen.items():
                one.take(_metadata(stack, name))
            drain(LATE_S)
        books = {name: _book(folder, name) for name in seen}
        for name, book in books.items():
            _check(stack, name, book)
    found = body(load, (begin_ms, end_ms), seen, told, books, watch.usage)
    for bar in found["bars"]:
        print(bar, flush=True)
    print({name: value for name, value in found["stream"].items() if name != "small"}, flush=True)
    return {**found, "bars": [bar.as_json() for bar in found["bars"]]}


def _make(uri: str) -> None:
    catalog = RestCatalog("bench", uri=uri)
    catalog.create_namespace(NAMESPACE)
    for name in (HOT, QUIET):
        catalog.create_table((*NAMESPACE, name), SCHEMA, properties=PROPERTIES)


def _writing(
    stack: Stack, folder: Path, name: str, rate: float, number: int = 0
) -> AbstractContextManager[Process]:
    book = folder / f"{name}-{number}.jsonl"
    side = stream_side.command(stack.gateway_uri, name, rate, book, number)
    return run_process(side, folder / f"{name}-{number}.log")


def _warm(drain: Callable[[float], None], told: Told) -> None:
    """Return when the worker's session and the committer's JVM have done their first rewrite."""
    deadline = time.monotonic() + WARM_S
    while not told.ends:
        if time.monotonic() > deadline:
            raise Failed(f"no rewrite of the quiet table within {WARM_S:g} s")
        drain(EVERY_S)


def _busy(folder: Path) -> Command:
    """Takes a core, or what the others leave it of one."""
    spin = "while True: pass"
    return Command("busy", (sys.executable, "-c", spin), folder, lambda: True)


def _looks(seconds: float) -> Iterator[None]:
    due = time.monotonic()
    end = due + seconds
    while due < end:
        time.sleep(max(0.0, due - time.monotonic()))
        yield
        due = max(due + EVERY_S, time.monotonic())
    time.sleep(max(0.0, end - time.monotonic()))


def _metadata(stack: Stack, name: str) -> dict[str, Any]:
    """From the catalog itself, so that nobody's commit waits for our look."""
    where = f"{stack.catalog_uri}/v1/namespaces/{NAMESPACE[0]}/tables/{name}"
    with urlopen(where, timeout=60) as answer:
        return dict(json.load(answer)["metadata"])


@contextmanager
def _records(stack: Stack, told: dict[str, Told]) -> Iterator[Callable[[float], None]]:
    """Takes in, when it is called, what has come, and goes on for some seconds."""
    publisher = KafkaPublisher(stack.kafka, initial_buckets(), "bench", signer=stack.signer)
    topics = ["task-results", "maintenance-events"]
    inbox = KafkaInbox(stack.kafka, f"bench-{uuid.uuid4()}", topics, publisher, Log("bench"))

    def drain(seconds: float) -> None:
        end = time.monotonic() + seconds
        while (found := inbox.poll(0.05)) or time.monotonic() < end:
            for delivery in found:
                inbox.mark_done(delivery)
                if (one := told.get(delivery.record.table.name)) is not None:
                    one.take(delivery.record)

    try:
        yield drain
    finally:
        inbox.close()


def _book(folder: Path, name: str) -> list[dict[str, Any]]:
    """Of all of a table's writers."""
    return [
        json.loads(line)
        for path in sorted(folder.glob(f"{name}-*.jsonl"))
        for line in path.read_text().splitlines()
    ]


def _check(stack: Stack, name: str, book: Sequence[dict[str, Any]]) -> None:
    """Each append that landed is there, whole and once. Raises Failed."""
    rows = RestCatalog("bench", uri=stack.catalog_uri).load_table((*NAMESPACE, name)).scan()
    counts = Counter(rows.to_arrow()["append"].to_pylist())
    landed = {one["append"] for one in book if one["outcome"] == LANDED}
    doubtful = {one["append"] for one in book if one["outcome"] == UNKNOWN}
    if missing := landed - set(counts):
        raise Failed(f"{name}: {len(missing)} appends are gone, {min(missing)} among them")
    if wrong := [one for one, rows in counts.items() if rows != ROWS]:
        raise Failed(f"{name}: {len(wrong)} appends have not {ROWS} rows, {min(wrong)} among them")
    if more := set(counts) - landed - doubtful:
        raise Failed(f"{name}: {len(more)} appends that failed are there, {min(more)} among them")
    table = Tables(stack.catalog_uri).load_named(NAMESPACE, name)
    files = len(live_files(table, table.head_id("main")).data)
    summary = table.head("main").summary
    if summary is None or summary["total-data-files"] != str(files):
        raise Failed(f"{name}: {files} files are live, its summary says {summary}")


def body(
    load: Load,
    span: tuple[int, int],
    seen: dict[str, Seen],
    told: dict[str, Told],
    books: dict[str, list[dict[str, Any]]],
    usage: Usage,
) -> dict[str, Any]:
    """What lies within the span (begin and end in ms); what was before, when the stack was warmed,
    is left out."""
    begin_ms, end_ms = span
    seconds = (end_ms - begin_ms) / 1000
    results = {
        name: [result for result in one.results if result.finished_ms >= begin_ms]
        for name, one in told.items()
    }
    within = [at for at in seen[HOT].ours.values() if begin_ms <= at <= end_ms]
    taken = share(results[HOT], told[HOT].ends, end_ms, int(GAP_S * 1000))
    waits = {name: waits_s(results[name], one.ends, end_ms) for name, one in told.items()}
    writers = {
        name: _writer([one for one in book if begin_ms <= one["at_ms"] <= end_ms], seconds)
        for name, book in books.items()
    }
    stream = {
        "rate": load.rate,
        "writer_processes": load.writers,
        "minutes": round(seconds / 60, 2),
        "busy": load.busy,
        "properties": PROPERTIES,
        "commits": len(within),
        "commits_s": [round((at - begin_ms) / 1000, 1) for at in sorted(within)],
        "rewritten_bytes": taken.rewritten,
        "committed_bytes": taken.committed,
        "young_bytes": taken.young,
        "refused": {name: dict(one.refused) for name, one in told.items()},
        "writers": writers,
        "waits_s": {name: sorted(round(one, 2) for one in found) for name, found in waits.items()},
        "small": seen[HOT].small,
        "cpu_s": round(usage.cpu_s, 1),
        "cpu_by": usage.cpu_by,
        "pss_peak": usage.pss_peak,
        "pss_by": usage.pss_by,
    }
    gap = longest_gap_s(begin_ms, within, end_ms)
    bars = [
        Bar("longest time without a commit of ours, s", GAP_S, figure([gap])),
        Bar("share of rewritten bytes that no commit took", MISSED, figure([taken.missed])),
        Bar("small files, most at any time", SMALL, figure([max(seen[HOT].small)])),
        Bar("share of the appends that failed", FAILURES, figure([writers[HOT]["failed_share"]])),
    ]
    if waits[QUIET]:
        bars.append(Bar("a result's wait for its commit, quiet table, s", None,
                        figure(waits[QUIET])))  # fmt: skip
    return {"stream": stream, "bars": bars}


def _writer(book: Sequence[dict[str, Any]], seconds: float) -> dict[str, Any]:
    outcomes = Counter(one["outcome"] for one in book)
    took = sorted(one["took_s"] for one in book) or [0.0]
    return {
        "a_second": round(outcomes[LANDED] / seconds, 2),
        "landed": outcomes[LANDED],
        "failed": outcomes[FAILED],
        "unknown": outcomes[UNKNOWN],
        "failed_share": (outcomes[FAILED] + outcomes[UNKNOWN]) / max(1, len(book)),
        "append_s": {"median": took[len(took) // 2], "p99": took[int(0.99 * (len(took) - 1))]},
        "failures": sorted({one["why"][:120] for one in book if one["why"]})[:5],
    }


def _now_ms() -> int:
    return int(time.time() * 1000)
