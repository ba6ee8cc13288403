"""Reads topics for a command: whole, from the beginning, and then what is added."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Protocol

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from firnline_adapters.kafka.client import MAX_MESSAGE_BYTES, KafkaPublisher
from firnline_adapters.kafka.connection import Kafka, client_config, reader_group
from firnline_adapters.kafka.questions import ask_broker
from firnline_adapters.kafka.schema_topic import SchemaTopic
from firnline_adapters.records.codec import RecordCodec
from firnline_adapters.records.signing import RecordSigner
from firnline_domain.errors import PoisonousRecord, RetryLater

from firnline_cli.shared.fleet import homes_of

READ_S = 30.0  # for the next record, where there are more
COUNTED = 1_000  # records or less that a group has before it are counted, more are reckoned
AT_ONCE = 500
Wanted = Callable[[str], bool]


class BrokerTopics(Protocol):
    """The broker's operations that a command needs; the in-memory twin is in
    `topic_reader_memory`."""

    def new_records(self, topic: str, wanted: Wanted) -> Iterator[tuple[str, Any]]:
        """Yield keys and records that are in the topic by now and were not returned before. Only
        those are decoded whose key is wanted. None = a tombstone. Raises RetryLater."""

    def count_unread(self, topic: str, group: str) -> int:
        """Return the number of records that a consumer group has yet to process. Raises
        RetryLater."""

    def send(self, topic: str, key: str, record: Any) -> None:
        """Return when a record is on the broker. Raises RetryLater."""


class KafkaTopics:
    """The topics of a Kafka broker, read without a group of its own."""

    def __init__(self, kafka: Kafka, signer: RecordSigner) -> None:
        self._kafka = kafka
        self._signer = signer
        self._codec = RecordCodec(SchemaTopic(kafka).find_schema)
        self._readers: dict[str, TopicReader] = {}
        self._groups: dict[str, Consumer] = {}
        self._publishers: dict[str, KafkaPublisher] = {}
        self._counted: dict[tuple[str, str], tuple[dict[int, tuple[int, int]], int]] = {}

    def new_records(self, topic: str, wanted: Wanted) -> Iterator[tuple[str, Any]]:
        if topic not in self._readers:
            self._readers[topic] = TopicReader(self._kafka, topic)
        for message in self._readers[topic].read_messages():
            key, value = message.key(), message.value()
            name = key.decode(errors="replace") if isinstance(key, bytes) else ""
            if not wanted(name):
                continue
            with suppress(PoisonousRecord):  # whoever reads it for a living has buried it
                yield name, self._codec.decode(value) if isinstance(value, bytes) else None

    def count_unread(self, topic: str, group: str) -> int:
        try:
            if group not in self._groups:
                self._groups[group] = consumer_of(self._kafka, group)
            consumer = self._groups[group]
            asked = partitions_of_topic(consumer, topic)
            places = ask_broker(lambda: consumer.committed(asked, timeout=READ_S))
            ends = [_watermarks_of(consumer, one) for one in places]
        except KafkaException as error:
            raise RetryLater(f"{topic} cannot be looked at: {error}") from error
        # A group that has never been has all of it before it: its offset is negative.
        starts = {
            place.partition: (max(place.offset, start), end)
            for place, (start, end) in zip(places, ends, strict=True)
        }
        left = {number: start for number, (start, end) in starts.items() if start < end}
        reckoned = int(sum(end - start for start, end in starts.values()))
        if reckoned > COUNTED or not left:
            return reckoned
        # Offsets count the ends of transactions too, which nobody ever reads.
        if self._counted.get((topic, group), ({}, 0))[0] != starts:
            count = sum(1 for _ in TopicReader(self._kafka, topic, left).read_messages())
            self._counted[topic, group] = (starts, count)
        return self._counted[topic, group][1]

    def send(self, topic: str, key: str, record: Any) -> None:
        if topic not in self._publishers:
            homes = homes_of(self._kafka)
            self._publishers[topic] = KafkaPublisher(self._kafka, homes, "cli", signer=self._signer)
        self._publishers[topic].publish(topic, key, record)
        self._publishers[topic].flush()


class TopicReader:
    """A reader of one topic, which goes on from where it stopped."""

    def __init__(self, kafka: Kafka, topic: str, starts: Mapping[int, int] | None = None) -> None:
        """Open a reader. `starts`: partitions to read, and from where; all of them by default.
        Raises RetryLater."""
        self._topic = topic
        try:
            self._consumer = consumer_of(kafka, reader_group())
            places = starts or dict.fromkeys(
                (one.partition for one in partitions_of_topic(self._consumer, topic)),
                OFFSET_BEGINNING,
            )
            self._next = {number: max(start, 0) for number, start in places.items()}
            self._consumer.assign(
                [TopicPartition(topic, number, start) for number, start in places.items()]
            )
        except KafkaException as error:
            raise RetryLater(f"{topic} cannot be read: {error}") from error

    def read_messages(self) -> Iterator[Message]:
        """Yield all messages up to the ends that the topic has now. Raises RetryLater."""
        try:
            ends = self._end_offsets()
            heard = time.monotonic()
            while any(self._next[partition] < end for partition, end in ends.items()):
                found = self._consumer.consume(AT_ONCE, 0.5)
                for message in found:
                    if self._is_record(message):
                        heard = time.monotonic()
                        yield message
                if time.monotonic() - heard > READ_S:
                    raise RetryLater(f"{self._topic}: nothing came for {READ_S:.0f} s")
        except KafkaException as error:
            raise RetryLater(f"{self._topic} cannot be read: {error}") from error

    def _is_record(self, message: Message) -> bool:
        """Return whether a message is a record, and follow the offsets. The last messages of a
        partition may be no records, but the ends of transactions: a separate error marks that it is
        read to its end."""
        partition, offset, error = message.partition() or 0, message.offset() or 0, message.error()
        if error is None:
            self._next[partition] = offset + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            self._next[partition] = max(self._next[partition], offset)
        return error is None

    def _end_offsets(self) -> dict[int, int]:
        """Return the offset after the last record of each partition that has any."""
        found = {}
        for partition in self._next:
            place = TopicPartition(self._topic, partition)
            start, end = _watermarks_of(self._consumer, place)
            if start < end:
                found[partition] = end
        return found


def _watermarks_of(consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    low, high = ask_broker(lambda: consumer.get_watermark_offsets(place, timeout=READ_S))
    return low, high


def consumer_of(kafka: Kafka, group: str) -> Consumer:
    """Return a consumer that joins no group and commits nothing."""
    own = {
        "group.id": group,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.message.max.bytes": MAX_MESSAGE_BYTES,
    }
    return Consumer(client_config(kafka, own))


def partitions_of_topic(consumer: Consumer, topic: str) -> list[TopicPartition]:
    """Return all partitions of a topic. Raises RetryLater if the broker has no such topic."""
    found = consumer.list_topics(topic, timeout=READ_S).topics[topic].partitions
    if not found:
        raise RetryLater(f"the broker has no topic {topic}: create it with `firnline topics`")
    return [TopicPartition(topic, one) for one in sorted(found)]
