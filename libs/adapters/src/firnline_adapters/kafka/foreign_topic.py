"""A topic that another product writes: its messages as they stand, through a consumer group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, TopicPartition
from firnline_domain.errors import RetryLater
from firnline_domain.ports import Place

from firnline_adapters.kafka.client import LIBRDKAFKA, SESSION_MS
from firnline_adapters.kafka.connection import Kafka, client_config
from firnline_adapters.kafka.poison_records import read_headers

AT_ONCE = 500


@dataclass(frozen=True)
class ForeignMessage:
    """A message. Names of headers are in lower case; a tombstone has no value."""

    place: Place
    offset: int
    headers: Mapping[str, str]
    value: bytes


class ForeignTopic:
    """Reads from where the group has been told that all is done."""

    def __init__(self, kafka: Kafka, group: str, topic: str) -> None:
        own = {
            "group.id": group,
            "enable.auto.commit": True,  # of what is stored: by `mark_done` alone
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": SESSION_MS,
        }
        self._topic = topic
        self._consumer = Consumer(client_config(kafka, own), logger=LIBRDKAFKA)
        self._consumer.subscribe([topic])

    def poll(self, timeout_s: float) -> Sequence[ForeignMessage]:
        """Wait up to `timeout_s` for messages. Raises RetryLater if the topic cannot be read."""
        found, failure = list[ForeignMessage](), ""
        for message in self._consumer.consume(AT_ONCE, timeout_s):
            if error := message.error():
                failure = error.str()
                continue
            place = message.topic() or "", message.partition() or 0
            headers = {name.lower(): _decode(one) for name, one in read_headers(message)}
            value = message.value()
            body = value.encode() if isinstance(value, str) else value or b""
            found.append(ForeignMessage(place, message.offset() or 0, headers, body))
        if failure and not found:  # what came before an error does not come again
            raise RetryLater(f"topic {self._topic}: {failure}")
        return found

    def mark_done(self, done: Mapping[Place, int]) -> None:
        """Note the offsets up to which the partitions are done; they are committed soon."""
        for place, offset in done.items():
            with suppress(KafkaException):  # the partition has moved: its new owner reads it again
                self._consumer.store_offsets(offsets=[TopicPartition(*place, offset + 1)])

    def close(self) -> None:
        """Commit and leave the group."""
        self._consumer.close()


def _decode(header: str | bytes | None) -> str:
    return header.decode(errors="replace") if isinstance(header, bytes) else header or ""
