"""Copies what people have paused from one number of partitions to another.

At any moment all pauses are in one of two topics: `operator-orders`, or `operator-orders-moving`,
which is read first. A pause that is copied twice is the same pause.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic
from firnline_adapters.kafka import Header
from firnline_adapters.records import RecordCodec
from firnline_adapters.schema_topic import SchemaTopic
from firnline_adapters.signing import signer_here
from firnline_domain.errors import PoisonousRecord
from firnline_domain.identity import bucket_of
from firnline_domain.records.orders import PauseMaintenance, ResumeMaintenance
from firnline_domain.records.pauses import FLEET, FLEET_PARTITION
from firnline_domain.records.pauses import TOPIC as ORDERS

from firnline_local.consumer_groups import LOOK_S, answered
from firnline_local.topics import REPLICAS, TIMEOUT_S

MOVING = "operator-orders-moving"
KEPT = {"retention.ms": "-1", "cleanup.policy": "delete"}
Switched = list[tuple[str, bytes, bool]]  # key, record, pulled


class PausesNotCopied(RuntimeError):
    """The broker did not give or take a record; nothing is lost, try again."""


def set_aside(admin: AdminClient, bootstrap: str) -> None:
    """All of `operator-orders` that is a switch is in the other topic, too."""
    if MOVING not in admin.list_topics(timeout=TIMEOUT_S).topics:
        for made in admin.create_topics([NewTopic(MOVING, 1, REPLICAS, config=KEPT)]).values():
            made.result(TIMEOUT_S)
    while True:
        ends = _ends(bootstrap)
        _write(bootstrap, MOVING, [(key, value, [0]) for key, value, _ in _read(bootstrap, ORDERS)])
        if _ends(bootstrap) == ends:  # else somebody has switched meanwhile
            return


def put_back(bootstrap: str, buckets: int) -> None:
    """What was pulled when it was set aside, and of which nothing newer has been said."""
    said = {key for key, _, _ in _read(bootstrap, ORDERS)}
    pulled = _pulled(_read(bootstrap, MOVING))
    records = [
        (key, value, range(buckets) if key == FLEET else [bucket_of(key, buckets)])
        for key, value in pulled.items()
        if key not in said
    ]
    _write(bootstrap, ORDERS, records)


def _pulled(switched: Switched) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    for key, value, pulled in switched:
        found.pop(key, None)
        if pulled:
            found[key] = value
    return found


def _ends(bootstrap: str) -> dict[int, int]:
    consumer = _consumer(bootstrap)
    try:
        return {one: _marks(consumer, ORDERS, one)[1] for one in _partitions(consumer, ORDERS)}
    finally:
        consumer.close()


def _read(bootstrap: str, topic: str) -> Switched:
    """A key's records in their order: it is in one partition. The fleet's are in every one."""
    codec, consumer = RecordCodec(SchemaTopic(bootstrap).find), _consumer(bootstrap)
    signer = signer_here()
    found: Switched = []
    try:
        for number in _partitions(consumer, topic):
            for message in _records(consumer, topic, number):
                key, value = (message.key() or b"").decode(), message.value() or b""
                if key == FLEET and number != FLEET_PARTITION:
                    continue
                with suppress(PoisonousRecord):  # or not signed by the fleet
                    signer.verify(topic, number, key, value, message.headers())
                    order = codec.decode(value)
                    if isinstance(order, PauseMaintenance | ResumeMaintenance):
                        found.append((key, value, isinstance(order, PauseMaintenance)))
    finally:
        consumer.close()
    return found


def _consumer(bootstrap: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": "rebucket"})


def _partitions(consumer: Consumer, topic: str) -> list[int]:
    return sorted(consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)


def _marks(consumer: Consumer, topic: str, number: int) -> tuple[int, int]:
    place = TopicPartition(topic, number)
    marks = partial(consumer.get_watermark_offsets, place, timeout=TIMEOUT_S)
    start, end = answered(marks)
    return start, end


def _records(consumer: Consumer, topic: str, number: int) -> Iterator[Message]:
    start, end = _marks(consumer, topic, number)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING)])
    deadline = time.monotonic() + TIMEOUT_S
    while start < end:
        if time.monotonic() > deadline:
            raise PausesNotCopied(f"{topic} could not be read within {TIMEOUT_S:.0f} s")
        for message in consumer.consume(500, LOOK_S):
            if message.error() is None:
                start = (message.offset() or 0) + 1
                yield message


def _write(bootstrap: str, topic: str, records: list[tuple[str, bytes, list[int] | range]]) -> None:
    """Return when the broker has them all."""
    failed: list[KafkaException] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(KafkaException(error))

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    signer = signer_here()
    for key, value, places in records:
        for place in places:
            headers = list[Header](signer.headers(topic, place, key.encode(), value))
            producer.produce(topic, value, key, place, on_delivery=on_delivery, headers=headers)
    if (left := producer.flush(TIMEOUT_S)) or failed:
        raise PausesNotCopied(f"{topic}: {left + len(failed)} records were not taken: {failed[:1]}")
