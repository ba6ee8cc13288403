"""`make bench-policy`: an accelerated hour on the whole embedded stack, and beside Iceberg's action
once an hour; and what the simulator foretells of both."""

from __future__ import annotations

import argparse
import json
import os
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.base.values import to_plain
from firnline_domain.identity import TableName
from firnline_domain.records.events import RewriteCommitted
from firnline_iceberg.java.api import load_table, rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_local.servers.artifacts import iceberg_jar
from firnline_local.stack import stack as stacks
from firnline_local.stack.stack import Stack
from firnline_local.topics.topics import initial_buckets
from pyiceberg.catalog.rest import RestCatalog

from bench.policy.hours import (
    ALL,
    MINUTES,
    ROW_BYTES,
    STORIES,
    USUAL,
    Pair,
    Shape,
    accelerated,
    foretold,
    pairs,
)
from bench.policy.report import table_of
from bench.policy.told import Told
from bench.rewrite import local_files
from bench.rewrite.engines import STOCK, Failed, Running, started
from bench.rewrite.lake import NAMESPACE
from bench.rewrite.run import RESULTS, where
from bench.rewrite.trees import Watch
from bench.simulate.stories import Story
from tests.kit.lake.writer import TableWriter, described

PARTS = ("redis", "catalog", "kafka", "gateway", "enricher", "planner", "committer", "worker")
WORKING = ("worker", "committer")  # whose CPU a rewrite takes
HIT_SHARE = 0.7  # of upserts: their key is there
KEY_BYTES = 8
SCHEMA = pa.schema(
    pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
    for number, (name, kind) in enumerate(
        (("id", pa.int64()), ("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64())), 1
    )
)
FACTOR = 10.0  # an order's seconds are not accelerated: at 30 it takes minutes of the hour
BLANK = "blank"  # a table of a row: what a query costs before it reads anything
WARM = "warm"
WARMING = Story(WARM, 60, 100_000, 1, 1e6, 1, upserts=True)
WARM_REWRITES, WARM_COMMITS = 3, 5  # of Iceberg's action, with as many commits between them
REST_S = 8.0  # until what is under way has ended
READS = 4
WARM_S = 240.0


@dataclass
class Writer:
    """One story's commits."""

    story: Story
    name: str
    catalog: Any
    machine: Any
    dice: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    rows: int = 0
    sizes: Counter[str] = field(default_factory=Counter)  # of its files, rows, keys and deletes

    def begin(self) -> None:
        """The base."""
        if count := int(self.story.base_bytes / ROW_BYTES):
            self._commit([self._ids(count)], upserts=False)

    def commit(self) -> None:
        """As many rows as the story's commit has bytes, some of them of keys that are there."""
        each = int(self.story.commit_bytes / ROW_BYTES / self.story.files)
        if not self.story.upserts:
            self._commit([self._ids(each) for _ in range(self.story.files)], upserts=False)
            return
        old = int(each * HIT_SHARE)
        known = self.dice.choice(self.rows, old, replace=False)
        self._commit([np.concatenate([known, self._ids(each - old)])], upserts=True)

    def _ids(self, count: int) -> Any:
        self.rows += count
        return np.arange(self.rows - count, self.rows)

    def _commit(self, parts: Sequence[Any], upserts: bool) -> None:
        table = load_table(self.machine, self.catalog, TableName("", NAMESPACE, self.name))
        folder = table.location() + "/data"
        data = [self._data(folder, ids) for ids in parts]
        deletes = [self._deletes(folder, ids) for ids in parts] if upserts else []
        TableWriter(self.machine, lambda: table).row_delta(data, deletes)

    def _data(self, folder: str, ids: Any) -> str:
        numbers = {name: self.dice.integers(0, 1 << 60, len(ids)) for name in ("a", "b", "c")}
        return self._file(folder, pa.table({"id": ids, **numbers}, schema=SCHEMA))

    def _deletes(self, folder: str, ids: Any) -> str:
        rows = pa.table({"id": ids}, schema=pa.schema([SCHEMA.field("id")]))
        return self._file(folder, rows, content="equality-deletes", equality_ids=[1])

    def _file(self, folder: str, rows: pa.Table, content: str = "data", **more: Any) -> str:
        path = f"{folder}/{uuid.uuid4().hex}.parquet"
        place = Path("/" + path.removeprefix("file:").lstrip("/"))
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, place, compression="zstd", store_schema=False)
        size, groups = place.stat().st_size, pq.ParquetFile(place).metadata
        keys = sum(
            groups.row_group(at).column(0).total_compressed_size
            for at in range(groups.num_row_groups)
        )
        self.sizes.update({content: size, f"{content} rows": len(rows), f"{content} keys": keys})
        return described((0, "[]"), path, size, len(rows), content, **more)


def shape_of(writers: Sequence[Writer], told: Told, factor: float) -> Shape:
    """Of all that they wrote, and how long orders took."""
    total: Counter[str] = Counter()
    for writer in writers:
        total.update(writer.sizes)
    deleted = total["equality-deletes rows"]
    return Shape(
        row_bytes=total["data"] / total["data rows"],
        key_share=total["data keys"] / total["data"],
        delete_bytes=total["equality-deletes"] / deleted if deleted else USUAL.delete_bytes,
        order_s=told.order_s * factor,
        slowness=told.slowness,
        commit_bytes={
            writer.story.name: writer.sizes["data"] / MINUTES
            for writer in writers
            if not writer.story.base_bytes
        },
    )


def hour(stack: Stack, folder: Path, factor: float, maintained: bool) -> dict[str, Any]:
    """By Firnline where `maintained`, else by Iceberg's action at its end."""
    suffix = "ours" if maintained else "cron"
    names = {story.name: f"{story.name.replace(' ', '_')}_{suffix}" for story in STORIES}
    properties = {**accelerated(factor), "firnline.enabled": str(maintained).lower()}
    catalog = RestCatalog("bench", uri=stack.gateway_uri)
    catalog.create_namespace_if_not_exists(NAMESPACE)
    for name in (*names.values(), f"{BLANK}_{suffix}", f"{WARM}_{suffix}"):
        catalog.create_table((*NAMESPACE, name), SCHEMA, properties=properties)
    told = Told()
    reader = replace(STOCK, name="reader").having(options={"rewrite-all": "false"}, heap="2g")
    with (
        IcebergJvm(iceberg_jar()) as machine,
        started(reader, folder / suffix, uri=stack.gateway_uri) as spark,
        _events(stack, told) as drain,
    ):
        java = rest_catalog(machine.jvm, stack.gateway_uri)
        blank = Story(BLANK, 60, ROW_BYTES, 1, ROW_BYTES, 1)
        Writer(blank, f"{BLANK}_{suffix}", java, machine.jvm).begin()
        writers = [Writer(story, names[story.name], java, machine.jvm) for story in STORIES]
        for writer in writers:
            writer.begin()
        warming = Writer(WARMING, f"{WARM}_{suffix}", java, machine.jvm)
        if maintained:
            _warm(warming, drain, told)
        else:
            _warm_action(warming, spark)
        told.orders.clear()
        with _watched(stack, spark, maintained) as idle:
            drain(REST_S)
        began = time.monotonic()
        with _watched(stack, spark, maintained) as cpu:
            _write(writers, factor, drain)
            if not maintained:
                _bin_pack(spark, catalog, names.values(), told)
            drain(REST_S)
        idle_s = idle[0] / REST_S * (time.monotonic() - began)
        reads = _reads(spark, [*names.values(), f"{BLANK}_{suffix}"])
    base_s = reads[f"{BLANK}_{suffix}"]
    return {
        "actions": dict(told.actions),
        "orders": [to_plain(order) for order in told.orders],
        "idle_cpu_s": idle_s,
        "shape": to_plain(shape_of(writers, told, factor)),
        "figures": {
            **{
                story: {
                    "bytes_written": told.written[name],
                    "bytes_read": told.read[name],
                    "read_s": max(reads[name] - base_s, 0.0),
                }
                for story, name in names.items()
            },
            ALL: {"cpu_s": max(cpu[0] - idle_s, 0.0)},
        },
    }


def _warm(writer: Writer, drain: Any, told: Told) -> None:
    """Until the worker's session and the committer's JVM have done some rewrites."""
    deadline = time.monotonic() + WARM_S
    writer.begin()
    while told.actions[writer.name] < WARM_REWRITES:
        if time.monotonic() > deadline:
            raise Failed(f"no {WARM_REWRITES} rewrites within {WARM_S:g} s")
        writer.commit()
        drain(0.5)


def _warm_action(writer: Writer, spark: Running) -> None:
    writer.begin()
    for _ in range(WARM_REWRITES):
        for _ in range(WARM_COMMITS):
            writer.commit()
        spark.ask(600.0, table=writer.name)


def _write(writers: Sequence[Writer], factor: float, drain: Any) -> None:
    """A commit of each a minute. Whoever is late goes on at once. Between them what is told is
    taken: a consumer that does not poll for five minutes is put out of its group."""
    due = time.monotonic()
    for _ in range(MINUTES):
        for writer in writers:
            writer.commit()
        due = max(due + 60 / factor, time.monotonic())
        drain(max(0.0, due - time.monotonic()))


def _bin_pack(spark: Running, catalog: RestCatalog, names: Iterable[str], told: Told) -> None:
    """What it has read and written, by the summaries of its commits."""
    for name in names:
        spark.ask(600.0, table=name)
        for snapshot in catalog.load_table((*NAMESPACE, name)).snapshots():
            summary = snapshot.summary
            if summary is not None and summary.operation.value == "replace":
                told.written[name] += int(summary["added-files-size"] or 0)
                told.read[name] += int(summary["removed-files-size"] or 0)
                told.actions[name] += 1


@contextmanager
def _watched(stack: Stack, spark: Running, maintained: bool) -> Iterator[list[float]]:
    """CPU seconds of whoever rewrites, once the block is over."""
    pids = [stack.part_record(name).pid for name in WORKING] if maintained else [spark.pid]
    found: list[float] = []
    with ExitStack() as held:
        watches = [held.enter_context(Watch(pid)) for pid in pids if pid is not None]
        yield found
    found.append(sum(watch.usage.cpu_s for watch in watches))


@contextmanager
def _events(stack: Stack, told: Told) -> Iterator[Any]:
    publisher = KafkaPublisher(stack.kafka, initial_buckets(), "bench", signer=stack.signer)
    inbox = KafkaInbox(
        stack.kafka, f"bench-{uuid.uuid4()}", ["maintenance-events"], publisher, Log("bench")
    )

    def drain(seconds: float) -> None:
        end = time.monotonic() + seconds
        while (found := inbox.poll(0.05)) or time.monotonic() < end:
            for delivery in found:
                inbox.mark_done(delivery)
                if isinstance(delivery.record, RewriteCommitted):
                    told.take(delivery.record)

    try:
        yield drain
    finally:
        inbox.close()


def _reads(spark: Running, names: Sequence[str]) -> dict[str, float]:
    """CPU seconds of a scan: the least of some, when the compilers have done their work."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(READS):
        for name in names:
            with Watch(spark.pid) as watch:
                spark.ask(600.0, read=name)
            found[name].append(watch.usage.cpu_s)
    return {name: min(took[1:]) for name, took in found.items()}


def main() -> None:
    """Print the table; leave bench/results/policy_hour.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--factor", type=float, default=FACTOR)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    folder = given.folder.absolute() / f"hour-{int(time.time())}"
    os.environ |= local_files.environment(given.folder)
    body: dict[str, Any] = {**where(), "factor": given.factor, "systems": {}}
    found: list[Pair] = []
    with stacks.run_stack(folder / "state", only=PARTS) as stack:
        for system, maintained in (("firnline", True), ("bin_pack_hourly", False)):
            real = hour(stack, folder, given.factor, maintained)
            said = foretold(system, shape=Shape(**real["shape"]))
            body["systems"][system] = {**real, "foretold": said}
            found += pairs(system, real["figures"], said)
            print(table_of(found), flush=True)
    (given.results / "policy_hour.json").write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    main()
