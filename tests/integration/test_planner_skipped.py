"""Records that Faust leaves out are read from the log itself.

Faust loses events in plain rebalances: its consumer goes on behind records that no agent has seen.
Here the group's committed offset is moved, which makes it do the same every time.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from firnline_adapters.kafka import KafkaInbox, KafkaPublisher
from firnline_adapters.logs import Log
from firnline_domain.events import ChangeKind, FilesChanged, PartitionChange
from firnline_domain.identity import Scope, TableName, bucket_of
from firnline_domain.states import TableState
from firnline_domain.tallies import FileTally, Tally
from firnline_local.command import Command
from firnline_local.parts import ReadyLine
from firnline_local.process import serving

pytestmark = pytest.mark.stack

BUCKETS = 8
TOPIC = "file-changes"


@dataclass
class Bench:
    """A table, a planner that can be started, and what it has shown last."""

    kafka: str
    group: str
    command: Command
    log: Path
    table: TableName
    publisher: KafkaPublisher
    inbox: KafkaInbox
    files: int = -1

    def put(self, first: int, last: int) -> None:
        for snapshot in range(first, last + 1):
            self.publisher.publish(TOPIC, self.table.uuid, append(self.table, snapshot))
        self.publisher.flush()

    def until(self, files: int) -> None:
        for _ in range(90):
            for one in self.inbox.poll(1.0):
                if isinstance(one.record, TableState) and one.record.table == self.table:
                    self.files = one.record.holds.fragments.files
            if self.files == files:
                return
        pytest.fail(f"{self.files} files counted, {files} are there")

    def skip(self, records: int) -> None:
        """Move the group forward, as if it had read so many records more."""
        place = TopicPartition(TOPIC, bucket_of(self.table.uuid, BUCKETS))
        consumer = Consumer({"bootstrap.servers": self.kafka, "group.id": self.group})
        [at] = consumer.committed([place], timeout=10)
        moved = TopicPartition(TOPIC, place.partition, at.offset + records)
        consumer.commit(offsets=[moved], asynchronous=False)
        consumer.close()

    def skips_said(self) -> int:
        return self.log.read_text().count("action=skipped")


def append(table: TableName, snapshot: int) -> FilesChanged:
    tally = FileTally(fragments=Tally(1, 1, 1))
    return FilesChanged(
        event_id=f"e{snapshot}",
        table=table,
        ref="main",
        kind=ChangeKind.DELTA,
        snapshot_id=snapshot,
        parent_snapshot_id=snapshot - 1 or None,
        sequence_number=snapshot,
        timestamp_ms=1_800_000_000_000,
        operation="append",
        partitions=(PartitionChange(Scope(0, "[]"), tally, FileTally()),),
        format_version=2,
        observed_at_ms=snapshot,
    )


@pytest.fixture
def bench(kafka: str, tmp_path: Path) -> Iterator[Bench]:
    group = f"planner-{uuid.uuid4().hex[:8]}"
    log = tmp_path / "planner.log"
    line = ReadyLine(log)
    environment = {
        "FIRNLINE_KAFKA": kafka,
        "FIRNLINE_STATE_DIR": str(tmp_path / "state"),
        "FIRNLINE_PLANNER_APP": group,
        "FIRNLINE_BUCKETS": str(BUCKETS),
    }
    command = Command(
        name="planner",
        argv=(sys.executable, "-m", "firnline_planner"),
        cwd=tmp_path,
        env={**os.environ, **environment},
        ready=line.seen,
        prepare=line.mark,
    )
    publisher = KafkaPublisher(kafka, BUCKETS, "skipped")
    inbox = KafkaInbox(kafka, uuid.uuid4().hex, ["table-states"], publisher, Log("skipped"))
    table = TableName(str(uuid.uuid4()), ("db",), "t")
    yield Bench(kafka, group, command, log, table, publisher, inbox)
    inbox.close()


def test_records_left_out_come_before_the_next_one(bench: Bench) -> None:
    with serving(bench.command, bench.log, timeout_s=120):
        bench.put(1, 5)
        bench.until(5)
    bench.put(6, 10)
    bench.skip(4)
    with serving(bench.command, bench.log, timeout_s=120):
        bench.until(10)
    assert bench.skips_said() == 1


def test_records_left_out_at_the_end_are_found_without_another(bench: Bench) -> None:
    with serving(bench.command, bench.log, timeout_s=120):
        bench.put(1, 5)
        bench.until(5)
    bench.put(6, 10)
    bench.skip(5)
    with serving(bench.command, bench.log, timeout_s=120):
        bench.until(10)
    assert bench.skips_said() == 1
