"""A planner by each of its drivers, given records and asked for what it sent."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
from confluent_kafka import Producer
from firnline_adapters.in_memory import MemoryBroker, MemoryPublisher
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import RecordCodec, encode_record
from firnline_adapters.records.record_sizes import COMPRESSION
from firnline_adapters.records.signing import signer_here
from firnline_domain.identity import Scope, TableName, bucket_of
from firnline_domain.records.events import (
    DeadLettered,
    FilesChanged,
    PartitionChange,
    TickPassed,
)
from firnline_domain.records.orders import (
    SizeWorkers,
)
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.states import TableState
from firnline_domain.settings.thresholds import Thresholds
from firnline_local.processes.command import Command
from firnline_local.processes.process import run_process
from firnline_local.stack.parts import ReadyLine
from firnline_planner.bucket.inputs import InputReader
from firnline_planner.drivers.faust.driver import FaustStore
from firnline_planner.state.stores import MAX_VALUE_BYTES

from tests.kit.changes import delta
from tests.kit.memory_driver import MemoryDriver

BUCKETS = 8
OUTPUTS = (
    "rewrite-tasks",
    "rewrite-tasks-heavy",
    "resync-requests",
    "table-states",
    "worker-directives",
    "dead-letters",
)
SETTINGS = {"firnline.rewrite.quiet-ms": "0", "firnline.rewrite.cool-down-ms": "0"}
SCOPE = Scope(0, '["a"]')
SIGNER = signer_here()
PATIENCE = 90  # looks; a look at Kafka takes up to a second


class Drive(Protocol):
    """A planner at work, at a time of its own. `max_value_bytes`: of one entry of its state."""

    max_value_bytes: int

    @property
    def now_ms(self) -> int: ...

    def put(self, topic: str, record: Any) -> None: ...

    def put_raw(self, topic: str, table_key: str, value: bytes, signer: Any = SIGNER) -> None: ...

    def tell_all(self, topic: str, record: Any) -> None: ...

    def look(self) -> list[tuple[int, Any]]:
        """(partition, record) of everything that it has sent so far."""


class InMemory:
    """The twin; a look lets a second pass."""

    max_value_bytes = MAX_VALUE_BYTES

    def __init__(self) -> None:
        self.now_ms = 4_000_000_000_000
        self.broker = MemoryBroker(BUCKETS)
        self.publisher = MemoryPublisher(self.broker, signer=SIGNER)
        reader = InputReader(RecordCodec(), Log("planner"), SIGNER)
        self.driver = MemoryDriver(self.broker, reader, Thresholds(), lambda: self.now_ms)
        self.seen: list[tuple[int, Any]] = []
        self.decoded: Counter[tuple[str, int]] = Counter()

    def put(self, topic: str, record: Any) -> None:
        self.publisher.publish(topic, record.table.uuid, record)

    def put_raw(self, topic: str, table_key: str, value: bytes, signer: Any = SIGNER) -> None:
        place = bucket_of(table_key, BUCKETS)
        headers = signer.sign_headers(topic, place, table_key.encode(), value)
        self.broker.append(topic, place, table_key, value, headers)

    def tell_all(self, topic: str, record: Any) -> None:
        self.publisher.broadcast(topic, "fleet", record)

    def look(self) -> list[tuple[int, Any]]:
        self.driver.run()
        self.now_ms += 1_000
        for bucket in range(BUCKETS):
            tick = encode_record(TickPassed(bucket, self.now_ms))
            headers = SIGNER.sign_headers("ticks", bucket, str(bucket).encode(), tick)
            self.broker.append("ticks", bucket, str(bucket), tick, headers)
        self.driver.run()
        for (topic, partition), log in self.broker.logs.items():
            if topic in OUTPUTS:
                known = self.decoded[topic, partition]
                self.seen += [(partition, RecordCodec().decode(value)) for _, value in log[known:]]
                self.decoded[topic, partition] = len(log)
        return self.seen


class OverKafka:
    """A planner in a process of its own; it makes its own time."""

    def __init__(self, bootstrap: str, max_value_bytes: int) -> None:
        self.max_value_bytes = max_value_bytes
        self.publisher = KafkaPublisher(bootstrap, BUCKETS, "contract")
        large = {**COMPRESSION, "message.max.bytes": 32 * 1024 * 1024}
        self.raw = Producer({"bootstrap.servers": bootstrap, **large})
        group = f"contract-{uuid.uuid4().hex}"
        self.inbox = KafkaInbox(bootstrap, group, OUTPUTS, self.publisher, Log("contract"))
        self.seen: list[tuple[int, Any]] = []

    @property
    def now_ms(self) -> int:
        return int(time.time() * 1_000)

    def put(self, topic: str, record: Any) -> None:
        self.publisher.publish(topic, record.table.uuid, record)
        self.publisher.flush()

    def put_raw(self, topic: str, table_key: str, value: bytes, signer: Any = SIGNER) -> None:
        place, key = bucket_of(table_key, BUCKETS), table_key.encode()
        headers = signer.sign_headers(topic, place, key, value)
        self.raw.produce(topic, value, key, partition=place, headers=headers)
        self.raw.flush(10)

    def tell_all(self, topic: str, record: Any) -> None:
        self.publisher.broadcast(topic, "fleet", record)
        self.publisher.flush()

    def look(self) -> list[tuple[int, Any]]:
        self.seen.extend((one.partition, one.record) for one in self.inbox.poll(1.0))
        return self.seen


@contextmanager
def over_kafka(driver: str, kafka: str, home: Path) -> Iterator[OverKafka]:
    line = ReadyLine(home / "planner.log")
    environment = {
        "FIRNLINE_KAFKA": kafka,
        "FIRNLINE_STATE_DIR": str(home / "state"),
        "FIRNLINE_PLANNER_APP": f"planner-{uuid.uuid4().hex[:8]}",
        "FIRNLINE_PLANNER_DRIVER": driver,
        "FIRNLINE_BUCKETS": str(BUCKETS),
    }
    command = Command(
        name="planner",
        argv=(sys.executable, "-m", "firnline_planner"),
        cwd=home,
        env={**os.environ, **environment},
        ready=line.is_logged,
        prepare=line.skip_earlier_lines,
    )
    with run_process(command, home / "planner.log", timeout_s=120):
        is_faust = driver == "faust"
        driven = OverKafka(kafka, FaustStore.max_value_bytes if is_faust else MAX_VALUE_BYTES)
        yield driven
        driven.inbox.close()


def change(table: TableName, snapshot: int, added: int = 1, **more: Any) -> FilesChanged:
    tally = FileTally(fragments=Tally(added, added, added))
    part = PartitionChange(SCOPE, tally, FileTally())
    values = {"settings": SETTINGS, "observed_at_ms": snapshot, **more}
    return delta(table, snapshot, 4_000_000_000_000, part, **values)


def until(
    drive: Drive, table: TableName, wanted: Callable[[list[tuple[int, Any]]], bool]
) -> list[tuple[int, Any]]:
    """What was sent about the table, once it is as wanted."""
    for _ in range(PATIENCE):
        found = [one for one in drive.look() if about(one[1], table)]
        if wanted(found):
            return found
    pytest.fail(f"not within {PATIENCE} looks: {found}")


def about(record: Any, table: TableName) -> bool:
    if isinstance(record, DeadLettered):
        return record.key == table.uuid.encode()
    if isinstance(record, SizeWorkers):
        return record.bucket == bucket_of(table.uuid, BUCKETS)
    return bool(record.table.uuid == table.uuid)


def of(kind: type, found: list[tuple[int, Any]]) -> list[Any]:
    return [record for _, record in found if isinstance(record, kind)]


def shown(found: list[tuple[int, Any]], head: int) -> bool:
    states = of(TableState, found)
    return bool(states) and states[-1].head_snapshot_id == head
