"""Records and schemas that ended services in each of their lives, on Kafka itself."""

from __future__ import annotations

import os
import time
import uuid

import pytest
from confluent_kafka import Producer
from firnline_adapters.kafka.client import Header, KafkaInbox, KafkaPublisher
from firnline_adapters.kafka.poison_records import MAX_DEATHS, KafkaMarks, StartMark, StartMarks
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.signing import signer_here
from firnline_domain.identity import TableName, bucket_of
from firnline_domain.records.events import RewriteSkipped
from firnline_schemas import codec

BUCKETS = 8
TOPIC = "maintenance-events"
SIGNER = signer_here()


@pytest.mark.stack
def test_odd_schemas_and_records_of_unknown_ones_hold_nobody(kafka: str) -> None:
    """An entry of `schemas` that is none, below the fingerprint of a record that came; and many
    records whose fingerprints nobody knows. A new client for each would take a minute."""
    mark, key = os.urandom(8), uuid.uuid4().hex
    producer = Producer({"bootstrap.servers": kafka})
    place = (TOPIC, bucket_of(key, BUCKETS))
    for value in (b"{}", b"[]", b"5", b"no JSON"):
        producer.produce("schemas", value, mark.hex().encode(), partition=0)
    for number in range(300):
        value = codec.MARKER + (mark if number < 100 else os.urandom(8)) + b"x"
        signed = list[Header](SIGNER.sign_headers(*place, key.encode(), value))
        producer.produce(TOPIC, value, key.encode(), partition=place[1], headers=signed)
    producer.flush(10)
    publisher = KafkaPublisher(kafka, BUCKETS, "contract")
    true = RewriteSkipped("task", TableName(key, ("db",), "t"), "main", None, "none", 1)
    publisher.publish(TOPIC, key, true)
    publisher.flush()
    inbox = KafkaInbox(kafka, uuid.uuid4().hex, [TOPIC], publisher, Log("contract"))
    found: list[str | None] = []
    began = time.monotonic()
    while key not in found and time.monotonic() - began < 60:
        found += [one.key for one in inbox.poll(0.5)]
    inbox.close()
    assert key in found
    assert time.monotonic() - began < 30


@pytest.mark.stack
def test_a_record_that_ends_three_processes_goes_aside(kafka: str) -> None:
    """Each life has a client of its own, and no disk."""
    group, key = uuid.uuid4().hex, uuid.uuid4().hex
    publisher = KafkaPublisher(kafka, BUCKETS, "contract")
    table = TableName(key, ("db",), "t")
    for number in range(4):
        record = RewriteSkipped(f"task-{number}", table, "main", None, "none", number)
        publisher.publish(TOPIC, key, record)
    publisher.flush()
    done, aside, lives = list[str](), list[str](), 0
    while "task-3" not in done:
        lives += 1
        assert lives <= MAX_DEATHS + 2
        starts = StartMarks(KafkaMarks(kafka, group))
        inbox = KafkaInbox(kafka, group, [TOPIC], publisher, Log("contract"), starts=starts)
        deadline, died = time.monotonic() + 40, False
        while not died and "task-3" not in done and time.monotonic() < deadline:
            for delivery in inbox.poll(0.2):
                if delivery.key == key and delivery.record.task_id == "task-2":
                    if delivery.deaths < MAX_DEATHS:
                        died = True
                        break
                    aside.append(delivery.record.task_id)
                elif delivery.key == key:
                    done.append(delivery.record.task_id)
                inbox.mark_done(delivery)
            if not died:
                inbox.commit()
        inbox.close(died)
    assert aside == ["task-2"]
    assert {"task-0", "task-1", "task-3"} == set(done)
    marks = KafkaMarks(kafka, group).read([(TOPIC, one) for one in range(BUCKETS)])
    assert set(marks.values()) == {StartMark()}  # the last life has ended in order
