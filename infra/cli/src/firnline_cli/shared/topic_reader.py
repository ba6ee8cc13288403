"""Topics as a command reads them: whole, from the beginning, and then what came since."""

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
from firnline_adapters.kafka.consumer_groups import ask_coordinator
from firnline_adapters.kafka.schema_topic import SchemaTopic
from firnline_adapters.records.codec import RecordCodec
from firnline_adapters.records.signing import RecordSigner
from firnline_domain.errors import PoisonousRecord, RetryLater

from firnline_cli.shared.fleet import homes_of

READ_S = 30.0  # for the next record, where there are more
COUNTED = 1_000  # records or less that a group has before it are counted, more are reckoned
AT_ONCE = 500
Wanted = Callable[[str], bool]


class Topics(Protocol):
    """What a command needs of the broker; the twin is in `_topics_memory`."""

    def news(self, topic: str, wanted: Wanted) -> Iterator[tuple[str, Any]]:
        """Keys and records that are in the topic by now and were not told before; those alone are
        decoded whose key is wanted. None = a tombstone. Raises RetryLater."""

    def unread(self, topic: str, group: str) -> int:
        """Records that a consumer group has yet to deal with. Raises RetryLater."""

    def put(self, topic: str, key: str, record: Any) -> None:
        """Return when a record is on the broker. Raises RetryLater."""


class KafkaTopics:
    """See `Topics`. Reads without a group of its own."""

    def __init__(self, kafka: Kafka, signer: RecordSigner) -> None:
        self._kafka = kafka
        self._signer = signer
        self._codec = RecordCodec(SchemaTopic(kafka).find)
        self._readers: dict[str, Reader] = {}
        self._groups: dict[str, Consumer] = {}
        self._publishers: dict[str, KafkaPublisher] = {}
        self._counted: dict[tuple[str, str], tuple[dict[int, tuple[int, int]], int]] = {}

    def news(self, topic: str, wanted: Wanted) -> Iterator[tuple[str, Any]]:
        """See `Topics.news`."""
        if topic not in self._readers:
            self._readers[topic] = Reader(self._kafka, topic)
        for message in self._readers[topic].messages():
            key, value = message.key(), message.value()
            name = key.decode(errors="replace") if isinstance(key, bytes) else ""
            if not wanted(name):
                continue
            with suppress(PoisonousRecord):  # whoever reads it for a living has buried it
                yield name, self._codec.decode(value) if isinstance(value, bytes) else None

    def unread(self, topic: str, group: str) -> int:
        """See `Topics.unread`."""
        try:
            if group not in self._groups:
                self._groups[group] = consumer_of(self._kafka, group)
            consumer = self._groups[group]
            asked = places_of(consumer, topic)
            places = ask_coordinator(lambda: consumer.committed(asked, timeout=READ_S))
            ends = [consumer.get_watermark_offsets(one, timeout=READ_S) for one in places]
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
            count = sum(1 for _ in Reader(self._kafka, topic, left).messages())
            self._counted[topic, group] = (starts, count)
        return self._counted[topic, group][1]

    def put(self, topic: str, key: str, record: Any) -> None:
        """See `Topics.put`."""
        if topic not in self._publishers:
            homes = homes_of(self._kafka)
            self._publishers[topic] = KafkaPublisher(self._kafka, homes, "cli", signer=self._signer)
        self._publishers[topic].publish(topic, key, record)
        self._publishers[topic].flush()


class Reader:
    """One topic, read on from where it was left."""

    def __init__(self, kafka: Kafka, topic: str, starts: Mapping[int, int] | None = None) -> None:
        """`starts`: partitions to read, and where from; all of them by default. Raises
        RetryLater."""
        self._topic = topic
        try:
            self._consumer = consumer_of(kafka, reader_group())
            places = starts or dict.fromkeys(
                (one.partition for one in places_of(self._consumer, topic)), OFFSET_BEGINNING
            )
            self._next = {number: max(start, 0) for number, start in places.items()}
            self._consumer.assign(
                [TopicPartition(topic, number, start) for number, start in places.items()]
            )
        except KafkaException as error:
            raise RetryLater(f"{topic} cannot be read: {error}") from error

    def messages(self) -> Iterator[Message]:
        """All up to the ends that the topic has now. Raises RetryLater."""
        try:
            ends = self._ends()
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
        """Follows the offsets. The last ones of a partition may be no records, but the ends of
        transactions: that it is read to its end is said by an error of its own."""
        partition, offset, error = message.partition() or 0, message.offset() or 0, message.error()
        if error is None:
            self._next[partition] = offset + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            self._next[partition] = max(self._next[partition], offset)
        return error is None

    def _ends(self) -> dict[int, int]:
        """Behind the last record of each partition that has any."""
        found = {}
        for partition in self._next:
            place = TopicPartition(self._topic, partition)
            start, end = self._consumer.get_watermark_offsets(place, timeout=READ_S)
            if start < end:
                found[partition] = end
        return found


def consumer_of(kafka: Kafka, group: str) -> Consumer:
    """One that joins no group and commits nothing."""
    own = {
        "group.id": group,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.message.max.bytes": MAX_MESSAGE_BYTES,
    }
    return Consumer(client_config(kafka, own))


def places_of(consumer: Consumer, topic: str) -> list[TopicPartition]:
    """Of all its partitions. Raises RetryLater where the broker has no such topic."""
    found = consumer.list_topics(topic, timeout=READ_S).topics[topic].partitions
    if not found:
        raise RetryLater(f"the broker has no topic {topic}: it is made by `firnline up`")
    return [TopicPartition(topic, one) for one in sorted(found)]
