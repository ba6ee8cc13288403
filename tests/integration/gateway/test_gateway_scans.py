"""Iceberg's Java client tells of its scans, the gateway of the tables that they were of."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from firnline_adapters.records.codec import RecordCodec
from firnline_domain.advice.sorting import quote_names
from firnline_domain.base.values import replace
from firnline_domain.identity import Scope, TableName, bucket_of
from firnline_domain.records.events import (
    ChangeKind,
    FilesChanged,
    FilteredBy,
    PartitionChange,
    PartitionClock,
    ScannedRange,
    TableLayout,
    TableScanned,
    TickPassed,
)
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.states import TableReads, TableState
from firnline_domain.settings.thresholds import Thresholds
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.java.api import load_table, rest_catalog
from firnline_planner.bucket.bucket import PlannerBucket
from pyiceberg.catalog.rest import RestCatalog
from pyspark.sql import SparkSession

from tests.kit.memory_store import MemoryStore

from .conftest import BUCKETS, WAIT_S

pytestmark = [pytest.mark.stack, pytest.mark.spark]

CATALOGS = "spark.sql.catalog."
MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def readers(spark: SparkSession, gateway_uri: str) -> SparkSession:
    """The session with two more catalogs: `loud` reports its scans as all do, `quiet` is that of
    our workers."""
    catalogs = CatalogConnection("quiet", {"uri": gateway_uri}).spark_settings() | {
        f"{CATALOGS}loud{name}": value
        for name, value in {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "rest",
            ".uri": gateway_uri,
            ".cache-enabled": "false",
        }.items()
    }
    for name, value in catalogs.items():
        spark.conf.set(name, value)
    return spark


class Scans:
    """What stands on `table-scans` of the tables of one namespace."""

    def __init__(self, kafka: str, namespace: str) -> None:
        self._codec = RecordCodec()
        self._namespace = namespace
        self._consumer = Consumer({"bootstrap.servers": kafka, "group.id": uuid.uuid4().hex})
        self._consumer.assign(
            [TopicPartition("table-scans", p, OFFSET_BEGINNING) for p in range(BUCKETS)]
        )
        self.all: list[TableScanned] = []

    def until(self, done: Callable[[int, int], bool]) -> list[TableScanned]:
        """Read until so many scans of so many files are as wanted."""
        deadline = time.monotonic() + WAIT_S
        while not done(sum(x.scans for x in self.all), sum(x.data_files for x in self.all)):
            assert time.monotonic() < deadline, f"only {self.all}"
            self._read()
        return self.all

    def _read(self) -> None:
        for message in self._consumer.consume(1000, 0.5):
            event = self._codec.decode(message.value())
            if event.table.namespace == (self._namespace,):
                assert message.partition() == bucket_of(event.table.uuid, BUCKETS)
                self.all.append(event)

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def scans(kafka: str, gateway_uri: str, namespace: str) -> Iterator[Scans]:
    found = Scans(kafka, namespace)
    yield found
    found.close()


@pytest.fixture
def table(readers: SparkSession, namespace: str) -> str:
    """Name of a table of four partitions with a file each; written through `quiet`."""
    name = f"{namespace}.t"
    readers.sql(
        f"CREATE TABLE quiet.{name} (id BIGINT, part BIGINT) USING iceberg PARTITIONED BY (part)"
    )
    rows = ", ".join(f"({row}, {row % 4})" for row in range(8))
    readers.sql(f"INSERT INTO quiet.{name} SELECT /*+ COALESCE(1) */ * FROM VALUES {rows}")
    return name


def counted_rate(event: TableScanned) -> TableReads:
    """What a planner makes of readers that do the same every minute of half an hour."""
    bucket, now_ms = PlannerBucket(MemoryStore(), Thresholds()), event.to_ms
    tally = FileTally(fragments=Tally(4, 8, 4_000))
    part = PartitionChange(Scope(0, "[]"), tally, FileTally())
    bucket.handle(
        FilesChanged(
            "e", event.table, "main", ChangeKind.DELTA, 1, None, 1, now_ms, "append", (part,), 2
        ),
        now_ms,
    )
    bucket.commit()
    for _ in range(32):
        bucket.handle(replace(event, to_ms=now_ms), now_ms)
        bucket.commit()
        now_ms += MINUTE_MS
    outputs = bucket.handle(TickPassed(0, now_ms), now_ms).outputs
    [state] = [one.record for one in outputs if isinstance(one.record, TableState)]
    assert state.reads is not None
    return state.reads


def planned(jvm: Any, uri: str, table: TableName) -> int:
    """Files of a scan through a catalog as our committers have it."""
    with closing(load_table(jvm, rest_catalog(jvm, uri), table).newScan().planFiles()) as tasks:
        files, found = tasks.iterator(), 0
        while files.hasNext():
            files.next()
            found += 1
    return found


def test_scans_of_others_are_counted_and_ours_are_not(
    readers: SparkSession,
    lake: RestCatalog,
    gateway_uri: str,
    table: str,
    namespace: str,
    scans: Scans,
) -> None:
    for _ in range(3):
        assert len(readers.sql(f"SELECT * FROM quiet.{table}").collect()) == 8
    assert planned(readers._jvm, gateway_uri, TableName("", (namespace,), "t")) == 4
    assert len(readers.sql(f"SELECT * FROM loud.{table} WHERE part = 1").collect()) == 2
    [first] = scans.until(lambda found, files: found == 1)
    table_key = str(lake.load_table(table).metadata.table_uuid)
    assert first.table == TableName(table_key, (namespace,), "t")
    assert first.data_files == 1
    assert first.from_ms < first.to_ms
    for _ in range(3):
        assert len(readers.sql(f"SELECT * FROM loud.{table}").collect()) == 8
    scans.until(lambda found, files: (found, files) == (4, 1 + 3 * 4))

    reads = counted_rate(first)
    assert reads.reported == pytest.approx(60 / 4, rel=0.05)  # a quarter of it, once a minute
    assert reads.in_force == pytest.approx(60 / 4, rel=0.2)


def test_what_readers_filter_by_is_told_beside_the_order_of_their_table(
    readers: SparkSession, table: str, namespace: str, scans: Scans
) -> None:
    assert len(readers.sql(f"SELECT * FROM loud.{table} WHERE id = 5").collect()) == 1
    [event] = scans.until(lambda found, files: found == 1)
    assert event.filtered == (FilteredBy("id", 1, 3),)  # in one of four, all ids are below
    assert event.layout == TableLayout((), ("part",))

    # What advice quotes is what Spark's SQL takes, and has the name that reports and orders have.
    other, column, by = f"{namespace}.u", "a`b.x", quote_names("a`b", "x")
    readers.sql(
        f"CREATE TABLE quiet.{other} ({quote_names('a`b')} STRUCT<x: BIGINT>) USING iceberg"
    )
    readers.sql(f"ALTER TABLE quiet.{quote_names(*other.split('.'))} WRITE ORDERED BY {by}")
    readers.sql(f"INSERT INTO quiet.{other} SELECT named_struct('x', 5)")
    assert len(readers.sql(f"SELECT * FROM loud.{other} WHERE {by} > 4").collect()) == 1
    *_, event = scans.until(lambda found, files: found == 2)
    assert event.filtered == (FilteredBy(column, 1, 1),)
    assert event.layout == TableLayout((column,), ())


def test_a_filter_by_time_tells_which_partitions_it_reaches(
    readers: SparkSession, namespace: str, scans: Scans
) -> None:
    """Iceberg's client tells no values: a timestamp by full hours from now, later by full days."""
    readers.conf.set("spark.sql.session.timeZone", "UTC")
    name = f"{namespace}.d"
    readers.sql(
        f"CREATE TABLE quiet.{name} (id BIGINT, ts TIMESTAMP) USING iceberg"
        " PARTITIONED BY (bucket(2, id), days(ts))"
    )
    days = "SELECT /*+ COALESCE(1) */ 1L, current_date() - CAST(id AS INT) FROM range(10)"
    readers.sql(f"INSERT INTO quiet.{name} {days}")
    for wanted in (
        "ts >= current_date()",
        "ts >= current_date() - INTERVAL 6 DAYS AND ts < current_date()",
        "id = 1",
        "true",
    ):
        readers.sql(f"SELECT * FROM loud.{name} WHERE {wanted}").collect()
    events = scans.until(lambda found, files: found == 4)
    known = {(one.youngest, one.oldest): one for event in events for one in event.ranges}
    assert known == {
        (None, 0): ScannedRange(None, 0, 1, 1),
        (1, 6): ScannedRange(1, 6, 1, 6),
    }
    assert {event.layout and event.layout.clock for event in events} == {
        PartitionClock(0, 1, "day", "ts")
    }
