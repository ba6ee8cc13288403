"""A small topic that is read from its beginning, without a group, by each process for itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from firnline_domain.errors import RetryLater
from firnline_domain.records.signing import SignatureRefused

from firnline_adapters.kafka.connection import QUIET, Kafka, client_config, reader_group
from firnline_adapters.kafka.poison_records import read_headers
from firnline_adapters.kafka.schema_topic import SchemaTopic
from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import RecordCodec
from firnline_adapters.records.signing import RecordSigner, signer_here

_LOG = Log("topics")
# Without a record or the end of a partition. A broker that started beside ten services took more
# than 10 s, and a worker that ends starts another JVM, which delays the broker further.
QUIET_S = 30.0
AT_ONCE = 500
Take = Callable[[str, Any | None, int], None]  # key, record (None: the key is no more), partition


class FullTopicReader:
    """Gives every record to `take`: those that are there on construction, then the new ones."""

    def __init__(
        self,
        kafka: Kafka,
        topic: str,
        take: Take,
        signer: RecordSigner | None = None,
    ) -> None:
        """Return after all existing records are read; unsigned and unreadable ones are skipped.
        `signer`: None = the one that the environment configures. Raises RetryLater."""
        self._topic = topic
        self._take = take
        self._codec = RecordCodec(SchemaTopic(kafka).find_schema)
        self._signer = signer or signer_here()
        own = {
            "group.id": reader_group(),
            "enable.auto.commit": False,
            # What transactions write ends with a mark that is no record: offsets alone do not
            # tell whether all is read.
            "enable.partition.eof": True,
            **QUIET,
        }
        self._consumer = Consumer(client_config(kafka, own))
        try:
            self._read_to_the_end(self._rewind())
        except KafkaException as error:
            raise RetryLater(f"{topic} cannot be read: {error}") from error

    def _rewind(self) -> set[int]:
        """Begin with the first record of each partition."""
        topics = self._consumer.list_topics(self._topic, timeout=QUIET_S).topics
        found = topics[self._topic].partitions
        if not found:
            text = f"the broker has no topic {self._topic}: create it with `firnline topics`"
            raise RetryLater(text)
        self._consumer.assign([TopicPartition(self._topic, one, OFFSET_BEGINNING) for one in found])
        return set(found)

    def _read_to_the_end(self, unread: set[int]) -> None:
        deadline = time.monotonic() + QUIET_S
        while unread and time.monotonic() < deadline:
            for message in self._consumer.consume(AT_ONCE, 0.1):
                error = message.error()
                if error is None:
                    self._read_message(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition() or 0)
                else:
                    continue  # the client's own, which it recovers from
                deadline = time.monotonic() + QUIET_S
        if unread:
            raise RetryLater(f"{self._topic} could not be read: nothing came for {QUIET_S:.0f} s")

    def _read_message(self, message: Message) -> None:
        key, value, partition = message.key(), message.value(), message.partition() or 0
        try:
            headers = read_headers(message)
            self._signer.verify_record(self._topic, partition, key, value, headers)
        except SignatureRefused as refused:
            # No dead letter of each process that reads: one with a group writes it.
            metrics.count("dead_letters", reason=refused.reason)
            _LOG.warning("not_believed", topic=self._topic, offset=message.offset(), why=refused)
            return
        text = key.decode(errors="replace") if isinstance(key, bytes) else key or ""
        try:
            record = self._codec.decode(value) if isinstance(value, bytes) else None
            self._take(text, record, partition)
        except Exception as error:  # the service would end at it again in each of its lives
            metrics.count("dead_letters", reason="not_taken")
            _LOG.warning("not_taken", topic=self._topic, offset=message.offset(), why=error)

    def catch_up(self) -> None:
        """Read the records that are on the topic by now. Never waits for more."""
        while found := self._consumer.consume(AT_ONCE, 0):
            for message in found:
                if message.error() is None:  # else the client's own, which it recovers from
                    self._read_message(message)

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()
