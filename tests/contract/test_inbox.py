"""One contract for publishing and reading, held by the twin in memory and by Kafka itself."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer
from firnline_adapters.kafka import MAX_MESSAGE_BYTES, KafkaInbox, KafkaPublisher
from firnline_adapters.logs import Log
from firnline_adapters.memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_domain.errors import PoisonousRecord, RetryLater
from firnline_domain.events import RewriteSkipped
from firnline_domain.identity import Scope, TableName, bucket_of
from firnline_domain.ports import Delivery, Inbox, Publisher
from firnline_domain.results import InputFile, Mode, RewriteFinished, RewriteGroup

BUCKETS = 8
TOPIC = "maintenance-events"


@dataclass
class Bus:
    """A publisher and a way to open inboxes of one fresh group."""

    publisher: Publisher
    open_inbox: Callable[[], Inbox]
    write_raw: Callable[[str, bytes], None]
    run: str  # marks this test's records on a shared broker


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.stack)])
def bus(request: pytest.FixtureRequest) -> Iterator[Bus]:
    run = uuid.uuid4().hex
    if request.param == "memory":
        broker = MemoryBroker(BUCKETS)

        def write_memory(key: str, value: bytes) -> None:
            broker.logs[TOPIC, bucket_of(key, BUCKETS)].append((key, value))

        yield Bus(
            MemoryPublisher(broker), lambda: MemoryInbox(broker, run, [TOPIC]), write_memory, run
        )
        return
    bootstrap: str = request.getfixturevalue("kafka")
    publisher = KafkaPublisher(bootstrap, BUCKETS, "contract")

    def write_kafka(key: str, value: bytes) -> None:
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce(TOPIC, value, key.encode(), partition=bucket_of(key, BUCKETS))
        producer.flush(10)

    yield Bus(
        publisher,
        lambda: KafkaInbox(bootstrap, run, [TOPIC], publisher, Log("contract")),
        write_kafka,
        run,
    )


def event(bus: Bus, number: int, table: str = "t") -> RewriteSkipped:
    name = TableName(f"{bus.run}-{table}", ("db",), table)
    return RewriteSkipped(f"task-{number}", name, "main", None, "nothing_to_do", number)


def put(bus: Bus, *events: RewriteSkipped) -> None:
    for one in events:
        bus.publisher.publish(TOPIC, one.table.uuid, one)
    bus.publisher.flush()


def take(bus: Bus, inbox: Inbox, wanted: int) -> list[Delivery]:
    """This test's deliveries; the broker is shared, so others' are dealt with and left out."""
    found: list[Delivery] = []
    for _ in range(60):
        for delivery in inbox.poll(0.5):
            if delivery.key is not None and delivery.key.startswith(bus.run):
                found.append(delivery)
            else:
                inbox.done(delivery)
        if len(found) >= wanted:
            break
    return found


def test_records_come_back_as_they_were_in_order_of_their_table(bus: Bus) -> None:
    sent = [event(bus, number) for number in range(20)]
    put(bus, *sent)
    inbox = bus.open_inbox()
    deliveries = take(bus, inbox, 20)
    assert [delivery.record for delivery in deliveries] == sent
    assert {delivery.partition for delivery in deliveries} == {
        bucket_of(sent[0].table.uuid, BUCKETS)
    }
    inbox.close()


def test_what_is_not_done_comes_again(bus: Bus) -> None:
    put(bus, *[event(bus, number) for number in range(5)])
    inbox = bus.open_inbox()
    first = take(bus, inbox, 5)
    for delivery in (first[0], first[1], first[3], first[4]):
        inbox.done(delivery)
    inbox.close()
    again = bus.open_inbox()
    assert [delivery.record.at_ms for delivery in take(bus, again, 3)] == [2, 3, 4]
    again.close()


def test_what_is_done_stays_done(bus: Bus) -> None:
    put(bus, event(bus, 0))
    inbox = bus.open_inbox()
    for delivery in take(bus, inbox, 1):
        inbox.done(delivery)
    inbox.close()
    put(bus, event(bus, 1))
    again = bus.open_inbox()
    assert [delivery.record.at_ms for delivery in take(bus, again, 1)] == [1]
    again.close()


def test_a_poisonous_record_does_not_block_its_partition(bus: Bus) -> None:
    before, after = event(bus, 1), event(bus, 2)
    put(bus, before)
    bus.write_raw(before.table.uuid, b"not avro at all")
    put(bus, after)
    inbox = bus.open_inbox()
    deliveries = take(bus, inbox, 2)
    assert [delivery.record for delivery in deliveries] == [before, after]
    for delivery in deliveries:
        inbox.done(delivery)
    inbox.close()
    again = bus.open_inbox()
    assert take_nothing(bus, again)
    again.close()


def take_nothing(bus: Bus, inbox: Inbox) -> bool:
    """True if a marker sent now is the first of ours that arrives."""
    marker = event(bus, 99)
    put(bus, marker)
    return [delivery.record for delivery in take(bus, inbox, 1)] == [marker]


def test_a_full_partition_is_read_on_when_it_is_not_full_any_more(bus: Bus) -> None:
    """And keeps its order; others are read meanwhile."""
    full = bucket_of(event(bus, 0).table.uuid, BUCKETS)
    other = next(name for name in "abcdefgh" if bucket_of(f"{bus.run}-{name}", BUCKETS) != full)
    put(bus, event(bus, 0), event(bus, 0, other))
    inbox = bus.open_inbox()
    take(bus, inbox, 2)
    inbox.poll(0.1, {(TOPIC, full)})
    put(bus, *[event(bus, number) for number in (1, 2)], event(bus, 1, other))
    found: list[Delivery] = []
    for _ in range(20):
        found += [one for one in inbox.poll(0.2, {(TOPIC, full)}) if one.partition == full]
    assert found == []
    assert [one.record.at_ms for one in take(bus, inbox, 2)] == [1, 2]
    inbox.close()


class Unreachable(KafkaPublisher):
    """A publisher whose broker went away."""

    def flush(self, timeout_s: float = 30.0) -> None:
        raise RetryLater("no broker")


@pytest.mark.stack
def test_a_partition_that_another_member_takes_is_told_of(kafka: str) -> None:
    run = uuid.uuid4().hex
    publisher = KafkaPublisher(kafka, BUCKETS, "contract")
    first, second = (KafkaInbox(kafka, run, [TOPIC], publisher, Log("contract")) for _ in "ab")
    moved: set[tuple[str, int]] = set()
    deadline = time.monotonic() + 60
    while not moved and time.monotonic() < deadline:
        for inbox in (first, second):
            inbox.poll(0.1, {(TOPIC, number) for number in range(BUCKETS)})
            moved |= set(inbox.moved())
    assert 0 < len(moved) < BUCKETS
    assert [*first.moved(), *second.moved()] == []  # told once
    first.close()
    second.close()


@pytest.mark.stack
def test_an_inbox_leaves_its_group_though_its_last_commit_fails(kafka: str) -> None:
    """The next reader need not wait for the end of a session, nor the process at its end."""
    run = uuid.uuid4().hex
    publisher = KafkaPublisher(kafka, BUCKETS, "contract")
    broken = Unreachable(kafka, BUCKETS, "contract")
    inbox = KafkaInbox(kafka, run, [TOPIC], broken, Log("contract"))
    bus = Bus(publisher, lambda: inbox, lambda *_: None, run)
    put(bus, event(bus, 0))
    for delivery in take(bus, inbox, 1):
        inbox.done(delivery)
    with pytest.raises(RetryLater):
        inbox.close()
    with pytest.raises(RuntimeError, match="closed"):
        inbox.poll(0.1)


@pytest.mark.stack
def test_a_result_of_very_many_files_arrives(kafka: str) -> None:
    """A table that nobody looked after: 200,000 files are 28 MB, and a fifth of that on its way."""
    table = TableName(str(uuid.uuid4()), ("db",), "t")
    place = f"s3://lake/db.db/t-{table.uuid}/data/day=2026-11-22"
    paths = [f"{place}/{number:05d}-1-{uuid.uuid4()}-00001.parquet" for number in range(200_000)]
    group = RewriteGroup(tuple(InputFile(path, 5, 50, 9_000) for path in paths), (), 0, 0, 0)
    sent = RewriteFinished(
        "task", table, "main", Scope(0, "[]"), 1, "w", Mode.NATIVE, 1, 5, 0, (group,), (), None,
        1, 2, 3, 4,
    )  # fmt: skip
    publisher = KafkaPublisher(kafka, BUCKETS, "contract")
    publisher.publish("task-results", table.uuid, sent)
    publisher.flush()
    inbox = KafkaInbox(kafka, uuid.uuid4().hex, ["task-results"], publisher, Log("contract"))
    found: list[Delivery] = []
    deadline = time.monotonic() + 60
    while not found and time.monotonic() < deadline:
        found = [one for one in inbox.poll(1.0) if one.key == table.uuid]
    assert [one.record for one in found] == [sent]
    inbox.close()


@pytest.mark.stack
def test_what_the_broker_will_never_take_is_said_once(kafka: str) -> None:
    publisher = KafkaPublisher(kafka, BUCKETS, "contract")
    table = TableName(str(uuid.uuid4()), ("db",), "t")
    noise = random.Random(1).randbytes(6 * MAX_MESSAGE_BYTES // 4).hex()  # halves when compressed
    publisher.publish(TOPIC, table.uuid, RewriteSkipped("t", table, "main", None, noise, 1))
    with pytest.raises(PoisonousRecord) as caught:
        publisher.flush()
    assert caught.value.reason == "too_large"
    publisher.publish(TOPIC, table.uuid, RewriteSkipped("t", table, "main", None, "small", 1))
    publisher.flush()


@pytest.mark.stack
def test_each_thread_is_told_of_its_own_records(kafka: str) -> None:
    """Else another task's result would count as sent."""
    publisher = KafkaPublisher(kafka, BUCKETS, "contract")
    table = TableName(str(uuid.uuid4()), ("db",), "t")
    noise = random.Random(1).randbytes(6 * MAX_MESSAGE_BYTES // 4).hex()
    with ThreadPoolExecutor(1) as other:
        too_large = RewriteSkipped("t", table, "main", None, noise, 1)
        other.submit(publisher.publish, TOPIC, table.uuid, too_large).result()
        publisher.publish(TOPIC, table.uuid, RewriteSkipped("t", table, "main", None, "small", 1))
        publisher.flush()
        with pytest.raises(PoisonousRecord):
            other.submit(publisher.flush).result()
