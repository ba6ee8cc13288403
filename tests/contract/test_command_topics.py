"""What commands read of topics: the broker and its twin."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from firnline_adapters.in_memory import MemoryBroker
from firnline_adapters.records.codec import encode_record
from firnline_adapters.records.signing import signer_here
from firnline_cli.shared.topic_reader import BrokerTopics, KafkaTopics
from firnline_cli.shared.topic_reader_memory import MemoryTopics
from firnline_domain.identity import MAIN, TableName, bucket_of
from firnline_domain.records.orders import ResyncTable

TOPIC = "resync-requests"


class Memory:
    """The twin's side: a broker of 8 buckets."""

    def __init__(self) -> None:
        self.broker = MemoryBroker(8)
        self.topics: BrokerTopics = MemoryTopics(self.broker)

    def tombstone(self, key: str) -> None:
        self.broker.logs[TOPIC, 0].append((key, b""))

    def deal_with(self, group: str, partition: int) -> None:
        place = (group, TOPIC, partition)
        self.broker.committed[place] = len(self.broker.logs[TOPIC, partition])


class Kafka:
    """A real broker, whose topics other tests write to as well."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.topics: BrokerTopics = KafkaTopics(bootstrap, signer_here())

    def tombstone(self, key: str) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        producer.produce(TOPIC, None, key.encode(), partition=0)
        producer.flush(30)

    def deal_with(self, group: str, partition: int) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=10)
        done = TopicPartition(TOPIC, partition, end)
        consumer.commit(offsets=[done], asynchronous=False)
        consumer.close()


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.stack)])
def broker(request: pytest.FixtureRequest) -> Memory | Kafka:
    if request.param == "memory":
        return Memory()
    return Kafka(request.getfixturevalue("kafka"))


def request_of(number: int) -> ResyncTable:
    table = TableName(str(uuid.uuid4()), ("db",), f"t{number}")
    return ResyncTable(table, MAIN, None, None, "adopted", int(time.time() * 1000))


def test_everything_is_told_once_then_what_came_since(broker: Memory | Kafka) -> None:
    first, second = request_of(1), request_of(2)
    ours = {first.table.uuid, second.table.uuid}
    found: list[tuple[str, Any]] = []

    def read() -> list[Any]:
        found[:] = broker.topics.new_records(TOPIC, ours.__contains__)
        return [record for _, record in found]

    broker.topics.send(TOPIC, first.table.uuid, first)
    assert read() == [first]
    assert read() == []
    broker.topics.send(TOPIC, second.table.uuid, second)
    broker.tombstone(second.table.uuid)
    assert sorted(read(), key=str) == [None, second]
    assert {key for key, _ in found} == {second.table.uuid}


def test_what_a_group_has_not_dealt_with(broker: Memory | Kafka) -> None:
    group = uuid.uuid4().hex
    sent = request_of(1)

    def unread() -> int:
        return broker.topics.count_unread(TOPIC, group)

    before = unread()  # of a group that was never there: all
    broker.topics.send(TOPIC, sent.table.uuid, sent)
    assert unread() == before + 1
    for partition in range(8):
        broker.deal_with(group, partition)
    assert unread() == 0
    broker.topics.send(TOPIC, sent.table.uuid, sent)
    assert unread() == 1
    broker.deal_with(group, bucket_of(sent.table.uuid, 8))
    assert unread() == 0


@pytest.mark.stack
def test_what_was_written_in_transactions_is_read_to_its_end(kafka: str) -> None:
    """As the planner's own driver does; the last offsets of its topics are then no records."""
    group, ours = uuid.uuid4().hex, request_of(1)
    for partition in range(8):
        Kafka(kafka).deal_with(group, partition)
    topics = KafkaTopics(kafka, signer_here())
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    for kept in (True, False):
        producer.begin_transaction()
        for partition in range(8):
            value = encode_record(ours) if kept else b"never to be seen"
            producer.produce(TOPIC, value, ours.table.uuid.encode(), partition=partition)
        producer.flush(30)
        producer.commit_transaction(30) if kept else producer.abort_transaction(30)
        found = [record for _, record in topics.new_records(TOPIC, ours.table.uuid.__eq__)]
        assert found == ([ours] * 8 if kept else [])
        assert topics.count_unread(TOPIC, group) == 8
