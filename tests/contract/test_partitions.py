"""Timer-write hazard (H16) and partitioner hazard (H17): every producer says the partition itself,
and time comes as records.

Each producer writes to a real broker, once as it is and once without its partition: then the
client's own partitioner decides. That of librdkafka hashes the key as `bucket_of` does, so it is
right for a key that is a table's uuid and wrong for all others, for a table that has moved, and for
what everybody is to be told; that of aiokafka, under Faust, is another hash.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition
from firnline_adapters.kafka import client as adapters
from firnline_adapters.kafka.client import KafkaPublisher
from firnline_adapters.kafka_admin.replication import Replication
from firnline_adapters.observability.logs import Log
from firnline_adapters.policy_file import PolicyFile
from firnline_adapters.records.codec import RecordCodec
from firnline_cli.__main__ import main
from firnline_domain.identity import bucket_of
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.bucket.inputs import TICKS, InputReader
from firnline_planner.drivers.faust import driver as faust_driver
from firnline_planner.drivers.faust.driver import FaustDriver, FaustStore, faust_app
from firnline_planner.drivers.kafka import changelog
from firnline_planner.drivers.kafka.clients import KafkaClients
from firnline_planner.drivers.kafka.transactions import KafkaTransactions, Send, StepBatch
from firnline_planner.settings import PlannerSettings
from firnline_planner.state.effects import TABLE_STATES, Output

from tests.examples import make

pytestmark = pytest.mark.stack
BUCKETS = 8
PLACED = pytest.mark.parametrize("placed", [True, False])


class Unplaced:
    """A librdkafka producer that is told no partition."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def produce(self, topic: str, value: Any, key: Any, partition: int = -1, **more: Any) -> None:
        self._producer.produce(topic, value, key, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)


Ends = dict[int, int]
Arrived = Callable[[int], list[int]]


@pytest.fixture
def arrivals(kafka: str) -> Iterator[Callable[[str], Arrived]]:
    """`arrived = arrivals(topic)`; later `arrived(n)`: partitions of the next n records."""
    opened: list[Consumer] = []

    def of(topic: str) -> Arrived:
        settings = {"bootstrap.servers": kafka, "group.id": uuid.uuid4().hex}
        consumer = Consumer({**settings, "isolation.level": "read_committed"})
        opened.append(consumer)
        places = [TopicPartition(topic, number) for number in range(BUCKETS)]
        ends = {p.partition: consumer.get_watermark_offsets(p, timeout=10)[1] for p in places}
        consumer.assign([TopicPartition(topic, number, end) for number, end in ends.items()])

        def arrived(count: int) -> list[int]:
            found: list[int] = []
            deadline = time.monotonic() + 30
            while len(found) < count and time.monotonic() < deadline:
                message = consumer.poll(0.5)
                if message is not None and not message.error():
                    found.append(message.partition() or 0)
            return sorted(found)

        return arrived

    yield of
    for consumer in opened:
        consumer.close()


def table_of(bucket: int, nth: int = 0) -> str:
    """A table's uuid whose hash says that bucket. Not by chance: of random ones the other hash says
    the same bucket now and then (of three keys once in 512 runs)."""
    uuids = (str(uuid.UUID(int=number)) for number in count())
    return next(islice((one for one in uuids if bucket_of(one, 8) == bucket), nth, None))


class Moved:
    """Every table is in bucket 5."""

    def bucket_of_table(self, _: str) -> int:
        return 5


@PLACED
def test_h17_gateway_and_enricher_write_to_where_a_table_has_moved(
    kafka: str, arrivals: Any, placed: bool
) -> None:
    arrived = arrivals("table-commits")
    publisher = KafkaPublisher(kafka, BUCKETS, "h17", Moved())
    if not placed:
        publisher._producer = Unplaced(publisher._producer)
    publisher.publish("table-commits", table_of(2), make("table_committed/upsert"))
    publisher.flush()
    assert arrived(1) == ([5] if placed else [2])


@PLACED
def test_h17_the_cli_tells_every_bucket_of_a_pause(
    kafka: str, arrivals: Any, placed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = arrivals("operator-orders")
    if not placed:
        producer = adapters.Producer
        monkeypatch.setattr(adapters, "Producer", lambda *a, **k: Unplaced(producer(*a, **k)))
    words = ["pause", "--fleet", "--reason", "h17", "--kafka", kafka]
    done = CliRunner().invoke(main, words)
    monkeypatch.undo()
    assert CliRunner().invoke(main, ["resume", "--fleet", "--kafka", kafka]).exit_code == 0
    assert done.exit_code == 0, done.output
    paused = arrived(2 * BUCKETS)  # with the resumption, which is right
    assert (paused == sorted([*range(BUCKETS)] * 2)) is placed


@PLACED
def test_h17_the_planners_transaction_keeps_what_is_of_a_table_in_its_bucket(
    kafka: str, arrivals: Any, placed: bool
) -> None:
    """States are by table and ref: a hash of that key is another one."""
    arrived, table = arrivals(TABLE_STATES), table_of(2)
    clients = KafkaClients(kafka, f"planner-{uuid.uuid4().hex[:8]}")
    consumer = clients.create_consumer()
    consumer.subscribe(["file-changes"])
    deadline = time.monotonic() + 30
    while not consumer.memberid() and time.monotonic() < deadline:
        consumer.poll(0.2)
    log = changelog.open_changelog(
        clients, f"firnline-{clients.app}-state", BUCKETS, Replication(1, 1)
    )
    producer: Any = clients.create_producer(uuid.uuid4().hex)
    transactions = KafkaTransactions(
        producer if placed else Unplaced(producer), consumer, log.topic
    )
    refs = [f"{table}/{ref}" for ref in ("main", "audit", "next")]
    sends = [Send(TABLE_STATES, 2, key.encode(), b"state", []) for key in refs]
    transactions.commit(StepBatch(sends=sends))
    assert (arrived(3) == [2, 2, 2]) is placed
    consumer.close()


def driver_at(kafka: str, folder: Path) -> FaustDriver:
    settings = PlannerSettings(
        kafka=kafka, state_dir=str(folder), app=f"h17-{uuid.uuid4().hex[:8]}"
    )
    app, log = faust_app(settings, folder), Log("planner")
    reader = InputReader(RecordCodec(), log)
    policies = PolicyFile(None, log)
    return FaustDriver(
        app, settings, reader, Thresholds(), policies, log, lambda _: pytest.fail("stopped")
    )


class UnplacedFaust(faust_driver.AIOKafkaProducer):
    """aiokafka's, told no partition: it hashes by murmur2."""

    async def send(self, topic: str, value: Any, key: Any, partition: int, **more: Any) -> Any:
        return await super().send(topic, value, key, **more)


@PLACED
def test_h17_fausts_producer_hashes_otherwise(
    kafka: str, arrivals: Any, placed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not placed:
        monkeypatch.setattr(faust_driver, "AIOKafkaProducer", UnplacedFaust)
    arrived = arrivals("rewrite-tasks")

    async def sent() -> None:
        driver = driver_at(kafka, tmp_path)
        order = make("rewrite_files/compact")
        tables = [table_of(3, nth) for nth in range(4)]
        await driver._send_outputs([Output("rewrite-tasks", table, order) for table in tables], 3)
        assert driver._producer is not None
        await driver._producer.stop()

    asyncio.run(sent())
    assert (arrived(4) == [3, 3, 3, 3]) is placed


# ---- timer-write hazard (H16)


def test_h16_a_faust_table_takes_no_writes_from_a_timer(tmp_path: Path) -> None:
    """What a tick that was no record would come to: nothing of that moment is kept."""

    async def timer() -> None:
        driver = driver_at("localhost:9", tmp_path)
        FaustStore(driver._faust.state, 0).put(b"looked-at", b"now")

    with pytest.raises(TypeError, match="outside of stream iteration"):
        asyncio.run(timer())


def test_h16_time_is_a_record_in_every_partition_that_a_worker_owns(
    kafka: str, arrivals: Any, tmp_path: Path
) -> None:
    arrived = arrivals(TICKS)

    async def timer() -> None:
        driver = driver_at(kafka, tmp_path)
        owned = [SimpleNamespace(topic=TICKS, partition=number) for number in range(BUCKETS)]
        consumer = SimpleNamespace(assignment=lambda: owned)
        state = {"rebalancing": False, "in_recovery": False, "consumer": consumer}
        driver._faust = SimpleNamespace(app=SimpleNamespace(**state))
        await driver._send_ticks()
        assert driver._producer is not None
        await driver._producer.stop()

    asyncio.run(timer())
    assert arrived(BUCKETS) == [*range(BUCKETS)]
