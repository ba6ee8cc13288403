"""Records that Faust leaves out are read from the log itself.

Faust loses events in plain rebalances: its consumer goes on behind records that no agent has seen.
Here the group's committed offset is moved, which makes it do the same every time.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.identity import Scope, TableName, bucket_of
from firnline_domain.records.events import FilesChanged, PartitionChange
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.states import TableState
from firnline_local.processes.command import Command
from firnline_local.processes.process import run_process
from firnline_local.stack.parts import ReadyLine

from tests.kit.changes import delta
from tests.topics import forget

pytestmark = pytest.mark.stack

BUCKETS = 8
TOPIC = "file-changes"


@dataclass
class PlannerHarness:
    """A table, a planner that can be started, and what it has shown last."""

    kafka: str
    group: str
    command: Command
    log: Path
    table: TableName
    publisher: KafkaPublisher
    inbox: KafkaInbox
    counted: dict[TableName, int] = field(default_factory=dict)

    def of(self, table: TableName) -> PlannerHarness:
        """The same for another table."""
        return replace(self, table=table)

    def put(self, first: int, last: int) -> None:
        for snapshot in range(first, last + 1):
            self.publisher.publish(TOPIC, self.table.uuid, append(self.table, snapshot))
        self.publisher.flush()

    def until(self, files: int) -> None:
        self.until_all({self.table: files})

    def until_all(self, wanted: dict[TableName, int]) -> None:
        for _ in range(90):
            for one in self.inbox.poll(1.0):
                if isinstance(one.record, TableState):
                    self.counted[one.record.table] = one.record.holds.fragments.files
            found = {table: self.counted.get(table) for table in wanted}
            if found == wanted:
                return
        pytest.fail(f"{found} files counted, {wanted} are there")

    def skip(self, records: int) -> None:
        """Move the group forward, as if it had read so many records more."""
        place = TopicPartition(TOPIC, bucket_of(self.table.uuid, BUCKETS))
        consumer = Consumer({"bootstrap.servers": self.kafka, "group.id": self.group})
        [at] = consumer.committed([place], timeout=10)
        moved = TopicPartition(TOPIC, place.partition, at.offset + records)
        consumer.commit(offsets=[moved], asynchronous=False)
        consumer.close()

    @property
    def skips(self) -> int:
        """Of records of the table's partition. From 0 on it is retention that has taken them."""
        partition = f"partition={bucket_of(self.table.uuid, BUCKETS)} "
        found = self.said("action=skipped", f"topic={TOPIC} ", partition)
        return found - self.said("action=skipped", f"topic={TOPIC} ", partition, "start=0 ")

    def said(self, *words: str) -> int:
        lines = self.log.read_text().splitlines()
        return sum(all(word in line for word in words) for line in lines)


def append(table: TableName, snapshot: int) -> FilesChanged:
    part = PartitionChange(Scope(0, "[]"), FileTally(fragments=Tally(1, 1, 1)), FileTally())
    return delta(table, snapshot, 4_000_000_000_000, part, observed_at_ms=snapshot)


@pytest.fixture
def harness(kafka: str, tmp_path: Path) -> Iterator[PlannerHarness]:
    group = f"planner-{uuid.uuid4().hex[:8]}"
    log = tmp_path / "planner.log"
    line = ReadyLine(log)
    environment = {
        "FIRNLINE_KAFKA": kafka,
        "FIRNLINE_STATE_DIR": str(tmp_path / "state"),
        "FIRNLINE_PLANNER_APP": group,
        "FIRNLINE_PLANNER_DRIVER": "faust",  # only its consumer leaves records out
        "FIRNLINE_BUCKETS": str(BUCKETS),
    }
    command = Command(
        name="planner",
        argv=(sys.executable, "-m", "firnline_planner"),
        cwd=tmp_path,
        env={**os.environ, **environment},
        ready=line.is_logged,
        prepare=line.skip_earlier_lines,
    )
    publisher = KafkaPublisher(kafka, BUCKETS, "skipped")
    inbox = KafkaInbox(kafka, uuid.uuid4().hex, ["table-states"], publisher, Log("skipped"))
    table = TableName(str(uuid.uuid4()), ("db",), "t")
    yield PlannerHarness(kafka, group, command, log, table, publisher, inbox)
    inbox.close()


@pytest.mark.long
def test_records_left_out_come_before_the_next_one(harness: PlannerHarness) -> None:
    with run_process(harness.command, harness.log, timeout_s=120):
        harness.put(1, 5)
        harness.until(5)
    harness.put(6, 10)
    harness.skip(4)
    with run_process(harness.command, harness.log, timeout_s=120):
        harness.until(10)
    assert harness.skips == 1
    assert harness.said("action=restoring") == 0  # it stopped in order: its files were taken over


def test_records_left_out_at_the_end_are_found_without_another(harness: PlannerHarness) -> None:
    with run_process(harness.command, harness.log, timeout_s=120):
        harness.put(1, 5)
        harness.until(5)
    harness.put(6, 10)
    harness.skip(5)
    with run_process(harness.command, harness.log, timeout_s=120):
        harness.until(10)
    assert harness.skips == 1


def test_a_second_planner_joins_and_leaves_while_records_come(harness: PlannerHarness) -> None:
    """The rebalance in which Faust by itself lost events in 20 of 46 runs."""
    second = replace(
        harness.command,
        env={**harness.command.env, "FIRNLINE_STATE_DIR": str(harness.log.parent / "second")},
        ready=ReadyLine(harness.log.with_name("second.log")).is_logged,
    )
    others = [TableName(str(uuid.uuid4()), ("db",), f"other{n}") for n in range(16)]
    with run_process(harness.command, harness.log, timeout_s=120):
        for table in (*others, harness.table):
            harness.of(table).put(1, 10)
        with run_process(second, harness.log.with_name("second.log"), timeout_s=120):
            for table in (*others, harness.table):
                harness.of(table).put(11, 20)
            harness.until_all(dict.fromkeys((*others, harness.table), 20))
        for table in (*others, harness.table):
            harness.of(table).put(21, 25)
        harness.until_all(dict.fromkeys((*others, harness.table), 25))


@pytest.mark.long
def test_what_retention_has_taken_is_looked_for_once(harness: PlannerHarness) -> None:
    """With every tick, a consumer would be opened for each partition."""
    harness.put(1, 5)
    forget(harness.kafka, TOPIC)
    words = (
        "action=skipped",
        f"topic={TOPIC}",
        f"partition={bucket_of(harness.table.uuid, BUCKETS)}",
    )
    with run_process(harness.command, harness.log, timeout_s=120):
        deadline_s = time.monotonic() + 60
        while not harness.said(*words):
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        time.sleep(4.0)  # as many ticks
    assert harness.said(*words) == 1
