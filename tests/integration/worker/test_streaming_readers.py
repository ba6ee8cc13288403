"""Spark Structured Streaming and a streaming read of Flink with `firnline.streaming-readers`:
rewrites and expiry never stop the query, and it has each appended row once. Without the property it
can stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from firnline_committer.commit.committer import Committer
from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import replace
from firnline_domain.errors import TaskRefused
from firnline_domain.policy.table_action.registry import TABLE_ACTIONS
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.table.catalog_client import Tables
from firnline_worker.rewrite.rewriter import Rewriter
from firnline_worker.spark.java_api import JavaTables, SparkJvm
from firnline_worker.table_actions.archive_partitions import Archiver
from firnline_worker.table_actions.compute_statistics import StatisticsComputer
from firnline_worker.table_actions.create_tags import TagCreator
from firnline_worker.table_actions.expire_partitions import PartitionExpirer
from firnline_worker.table_actions.expire_snapshots import Expirer
from firnline_worker.table_actions.remove_dangling_deletes import DanglingDeleteRemover
from firnline_worker.table_actions.remove_orphans import OrphanRemover
from firnline_worker.table_actions.rewrite_manifests import ManifestRewriter
from firnline_worker.table_actions.upgrade_format import FormatUpgrader
from pyspark.errors import StreamingQueryException

from tests.integration.worker.lab import Lab, now_ms
from tests.kit.expiries import expire
from tests.kit.flink import FlinkSql, Job, flink_sql
from tests.meddling import Meddler

pytestmark = [pytest.mark.spark, pytest.mark.stack]
PROPERTY = "firnline.streaming-readers"
SETTINGS = {
    "firnline.sort": "at",
    "firnline.sort.max-depth": "2",
    "firnline.statistics": "all",
    "firnline.tags.create": "daily-{date}",
    "firnline.format-version": "3",
    "firnline.format-version.writer-hours": "0",
}
REWRITES = ("sort", "compact", "full", "merge")
NO_ROWS = ("rewrite_manifests", "remove_dangling_deletes", "upgrade_format")
NO_SNAPSHOT = ("compute_statistics", "create_tags", "expire", "remove_orphans")
REMOVALS = {  # of rows, which the owner has set
    "expire_partitions": "firnline.partitions.ttl-hours",
    "archive_partitions": "firnline.archive.after-hours",
}
assert {*NO_ROWS, *NO_SNAPSHOT, *REMOVALS} == {*TABLE_ACTIONS}
CHECKPOINT_S = 1.0  # of Flink, which hands out rows with each
ROWS_S = 300.0  # until Flink has brought them
FROM_THE_FIRST = (
    "'streaming'='true', 'monitor-interval'='1s', "
    "'starting-strategy'='INCREMENTAL_FROM_EARLIEST_SNAPSHOT'"
)


@dataclass
class Stream:
    """A query that goes on until the test ends; it skips what upserts bring, as its owner says."""

    lab: Lab
    appended: list[int] = field(default_factory=list)
    query: Any = None
    catalog: str = "lake"

    def fill(self, **properties: str) -> None:
        """A table of several files, the first with an old row."""
        self.lab.create("id BIGINT NOT NULL, at STRING", **properties)
        self.append(days_ago=40)
        for _ in range(5):
            self.append()

    def append(self, days_ago: int = 0, rows: int = 1) -> None:
        """Add a file of so many rows, of which the first is so old."""
        first = len(self.appended) + 1
        age = f"make_interval(0, 0, 0, if(id = {first}, {days_ago}, 0))"
        day = f"date_format(current_timestamp() - {age}, 'yyyy-MM-dd')"
        made = range(first, first + rows)
        found = f"SELECT /*+ COALESCE(1) */ id, {day} FROM range({made.start}, {made.stop})"
        self.lab.sql(f"INSERT INTO {{t}} {found}")
        self.appended += made

    def upsert(self, number: int) -> None:
        self.lab.equality_delete(["id"], f"({number})", f"({number}, '2999-01-01')")

    def start(self, **options: str) -> None:
        given = {"streaming-skip-overwrite-snapshots": "true", **options}
        read = self.lab.spark.readStream.format("iceberg").options(**given)
        frame = read.load(f"{self.catalog}.{self.lab.namespace}.t").select("id")
        self.query = frame.writeStream.format("memory").queryName(self.lab.namespace).start()

    def read(self) -> list[int]:
        """The rows that it has brought. Raises StreamingQueryException if it has stopped."""
        self.query.processAllAvailable()
        return sorted(row[0] for row in self.lab.spark.table(self.lab.namespace).collect())

    def operations(self) -> dict[int, str]:
        """Of all snapshots but the writers', in order, by id."""
        return {
            one.snapshot_id: one.summary.operation.value
            for one in self.lab.table().snapshots
            if one.summary and "firnline.version" in one.summary.additional_properties
        }


class Stopped(Exception):
    """Flink's query has stopped."""


@dataclass
class FlinkStream(Stream):
    """The same by Flink, whose streaming read takes up appends alone."""

    flink: FlinkSql | None = None
    brought: list[int] = field(default_factory=list)

    def start(self, **_: str) -> None:
        assert self.flink is not None
        table = f"lake.{self.lab.namespace}.t"
        found = self.flink.execute(f"SELECT id FROM {table} /*+ OPTIONS({FROM_THE_FIRST}) */")
        self.query = Job(found.getJobClient().get())
        threading.Thread(target=self._take, args=(found.collect(),), daemon=True).start()

    def _take(self, rows: Any) -> None:
        while rows.hasNext():
            self.brought.append(rows.next().getField(0))

    def read(self) -> list[int]:
        """Return the rows, when there are as many as were appended. Raises Stopped."""
        end = time.monotonic() + ROWS_S
        while len(self.brought) < len(self.appended) and time.monotonic() < end:
            time.sleep(0.2)
            if self.query.status == "FAILED":
                raise Stopped(self.query.read_failure())
        return sorted(self.brought)


@contextmanager
def flink_stream(lab: Lab, catalog_uri: str, folder: Path) -> Iterator[FlinkStream]:
    with flink_sql({"lake": catalog_uri}, folder / "flink.log", CHECKPOINT_S) as flink:
        made = FlinkStream(lab, flink=flink)
        yield made
        if made.query is not None:
            made.query.cancel()


@pytest.fixture
def stream(lab: Lab) -> Iterator[Stream]:
    made = Stream(lab)
    yield made
    if made.query is not None:
        made.query.stop()


@pytest.fixture
def act(
    lab: Lab,
    tables: Tables,
    java: JavaTables,
    catalog_uri: str,
    rewritten: Callable[..., RewriteFinished],
) -> Callable[[str], Any]:
    """Carries out an action as a worker does, with the commit of a rewrite."""

    commits = JavaCommits(SparkJvm(lab.spark), catalog_uri)
    given = {"ttl_h": 240.0, "archive_h": 240.0, "columns": 1.0, "wanted_version": 3.0}
    given |= {"all_columns": 1.0, "partitions": 0.0, "min_change": 0.0}
    given |= {"min_age_h": 72.0, "quarantine_h": 168.0}

    def tag(order: TableOrder) -> Any:
        tomorrow = now_ms() + DAY_MS
        creator = TagCreator(tables, "w1", lambda: tomorrow, lambda _: {"the storage": tomorrow})
        return creator.create(replace(order, ordered_at_ms=tomorrow, deadline_ms=tomorrow + 5))

    actions: dict[str, Callable[[TableOrder], Any]] = {
        "rewrite_manifests": ManifestRewriter(tables, java, "w1", now_ms).rewrite,
        "remove_dangling_deletes": DanglingDeleteRemover(tables, commits, "w1", now_ms).remove,
        "upgrade_format": FormatUpgrader(tables, java, "w1", now_ms).upgrade,
        "compute_statistics": StatisticsComputer(tables, java, "w1", now_ms).compute,
        "create_tags": tag,
        "remove_orphans": OrphanRemover(tables, "w1", now_ms).remove,
        "expire_partitions": PartitionExpirer(tables, commits, "w1", now_ms).expire,
        "archive_partitions": Archiver(tables, commits, "w1", now_ms).archive,
    }

    def run(action: str) -> Any:
        at_ms = now_ms()
        if action == "expire":
            expirer = Expirer(tables, java, lambda _: (), "w1", now_ms)
            return expirer.expire(expire("e1", lab.name, at_ms, at_ms, agreed=True))
        if action in REWRITES:
            return rewritten(action=action, min_dead_ratio=1.0 if action == "sort" else 0.0)
        task = f"{lab.namespace}-{action}"
        order = TableOrder(task, lab.name, action, "requested", 1, 1, at_ms, at_ms + DAY_MS, given)
        return actions[action](order)

    return run


def test_a_stream_goes_on_beside_rewrites_and_expiry(
    stream: Stream, act: Callable[[str], Any], rewriter: Rewriter, lab: Lab
) -> None:
    stream.fill(**{PROPERTY: "true"})
    stream.start()
    assert stream.read() == stream.appended
    stream.upsert(3)
    with pytest.raises(TaskRefused) as refused:
        rewriter.rewrite(replace(lab.order(), action="convert", min_dead_ratio=1.0), lambda _: None)
    assert (refused.value.reason, refused.value.retryable) == ("streaming_readers", True)
    stream.append()
    assert stream.read() == stream.appended
    act("compact")
    assert act("expire").expired > 0  # the reader has read all: what it stands on is old
    assert stream.read() == stream.appended
    stream.append()
    assert stream.read() == stream.appended
    assert [*stream.operations().values()] == ["replace"]


def test_without_the_property_an_expiry_stops_it(stream: Stream, act: Callable[[str], Any]) -> None:
    stream.fill()
    stream.start()
    assert stream.read() == stream.appended
    act("compact")
    act("expire")
    with pytest.raises(StreamingQueryException, match="the snapshot was expired or removed"):
        stream.read()


@pytest.mark.long
def test_without_the_property_a_conversion_stops_it(
    stream: Stream, rewriter: Rewriter, committer: Committer, lab: Lab
) -> None:
    stream.fill(**{"write.target-file-size-bytes": "1000"})
    lab.sql("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, '2026-01-01' FROM range(100, 900)")
    stream.appended += range(100, 900)  # of one larger file
    stream.start()
    assert stream.read() == stream.appended
    stream.upsert(300)
    order = replace(lab.order(), action="convert", min_dead_ratio=1.0)
    committer.commit_all([rewriter.rewrite(order, lambda _: None)])
    assert [*stream.operations().values()][-1] == "delete"
    with pytest.raises(StreamingQueryException, match="Cannot process delete snapshot"):
        stream.read()


@pytest.mark.long
@pytest.mark.parametrize(("action", "name"), REMOVALS.items())
def test_a_stream_skips_the_removal_of_rows_or_stops(
    stream: Stream, act: Callable[[str], Any], action: str, name: str
) -> None:
    stream.fill(**{name: "240", "firnline.partitions.column": "at", PROPERTY: "true"})
    stream.start(**{"streaming-skip-delete-snapshots": "true"})
    assert stream.read() == stream.appended
    act(action)
    stream.append()
    assert stream.read() == stream.appended
    assert "delete" in stream.operations().values()
    stream.query.stop()
    stream.start()
    with pytest.raises(StreamingQueryException, match="Cannot process delete snapshot"):
        stream.read()


@pytest.mark.long
def test_no_request_tells_of_a_stream(stream: Stream, meddler: Meddler) -> None:
    """A batch read sends a report, and a stream loads the table: so does whoever looks at it."""
    conf, stream.catalog = stream.lab.spark.conf, f"m{meddler.server_address[1]}"
    settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "rest", ".uri": meddler.uri}
    for key, value in {**settings, ".cache-enabled": "false"}.items():
        conf.set(f"spark.sql.catalog.{stream.catalog}{key}", value)

    def reports() -> int:
        time.sleep(1.0)  # they are sent aside
        return sum(path.endswith("/metrics") for _, path in meddler.calls)

    stream.fill()
    stream.start()
    assert stream.read() == stream.appended
    stream.append()
    assert stream.read() == stream.appended
    assert reports() == 0
    assert stream.lab.spark.table(f"{stream.catalog}.{stream.lab.namespace}.t").count() > 0
    assert reports() == 1


def act_in_turn(stream: Stream, act: Callable[[str], Any]) -> Iterator[str]:
    """Fill a table and carry out every action, each after upserts and an append. Yield what has
    been done: a reader has to have read the append, because only it keeps its place."""
    stream.fill(**SETTINGS, **{PROPERTY: "true"})
    for _ in range(3):
        stream.append(days_ago=40, rows=2)  # files that overlap by the key of the sort
    for number, action in enumerate((*REWRITES, *NO_ROWS, *NO_SNAPSHOT), 1_000):
        stream.upsert(1)
        stream.upsert(number)  # no older file can have it
        stream.append()
        yield f"append before {action}"
        before = stream.operations().keys()
        act(action)
        made = [one for key, one in stream.operations().items() if key not in before]
        assert bool(made) == (action not in NO_SNAPSHOT), action
        assert made == (["append"] if action == "upgrade_format" else ["replace"] * len(made))
        yield action


@pytest.mark.long
def test_no_action_stops_a_stream(stream: Stream, act: Callable[[str], Any]) -> None:
    for done in act_in_turn(stream, act):
        if stream.query is None:
            stream.start()
        assert stream.read() == stream.appended, done


@pytest.mark.long
@pytest.mark.timeout(1200)  # Flink needs as much again as Spark, and the host may have other work
def test_no_action_stops_a_stream_of_flink(
    lab: Lab, act: Callable[[str], Any], catalog_uri: str, tmp_path: Path
) -> None:
    with flink_stream(lab, catalog_uri, tmp_path) as stream:
        for done in act_in_turn(stream, act):
            if stream.query is None:
                stream.start()
            assert stream.read() == stream.appended, done
        assert stream.query.status == "RUNNING"
