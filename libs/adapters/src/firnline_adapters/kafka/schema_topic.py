"""The compacted topic `schemas`: fingerprint -> Avro schema, so older readers learn newer ones.

Its entries are not signed, and whoever may write the topic may write anything. So an entry counts
only if it is a schema that this code can safely read with, below its own fingerprint.
"""

from __future__ import annotations

import json
import time
import weakref
from collections.abc import Callable

from cachetools import FIFOCache
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from firnline_schemas.codec import Schema, all_schemas, demand_harmless

from firnline_adapters.kafka.connection import QUIET, Kafka, client_config, reader_group
from firnline_adapters.observability.logs import Log

TOPIC = "schemas"
PUBLISH_MS = 30_000
READ_S = 10.0  # for the whole topic, some dozens of records; more means that the broker is away
ASK_S = 2.0  # for the broker to say where the topic ends
MISSED_S = 60.0  # a fingerprint that was not there is not looked for again
MAX_MISSED = 1_000  # fingerprints; anybody may make them up
MAX_ENTRY_BYTES = 256 * 1024  # our longest schema has 11 kB
_LOG = Log("topics")


def publish_schemas(kafka: Kafka) -> None:
    """Write every schema of this code; the same ones again do no harm (compacted). Raises
    KafkaException where the broker does not take one."""
    failed = list[KafkaError]()
    own = {"enable.idempotence": True, "delivery.timeout.ms": PUBLISH_MS, **QUIET}
    producer = Producer(client_config(kafka, own))
    for mark, schema in all_schemas():
        producer.produce(
            TOPIC,
            json.dumps(schema).encode(),
            mark.encode(),
            partition=0,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    producer.flush()  # ends by the delivery timeout
    if failed:
        raise KafkaException(failed[0])


class SchemaTopic:
    """Reads the topic when it is asked for a fingerprint that it has not seen, from where it
    stopped reading: with one consumer, made at the first such question."""

    def __init__(self, kafka: Kafka, now: Callable[[], float] = time.monotonic) -> None:
        self._kafka = kafka
        self._now = now
        self._known: dict[str, Schema] = {}
        self._missed: FIFOCache[str, float] = FIFOCache(MAX_MISSED)  # when each was looked for
        self._consumer: Consumer | None = None
        self._next = 0  # offset

    def find_schema(self, mark: str) -> Schema | None:
        """Return the schema of a fingerprint in hexadecimal, or None if none is published, or
        where the topic cannot be read now. Never raises: it is called for records that anybody may
        have written."""
        if mark not in self._known and not self._was_missed_lately(mark):
            self._read_news()
            if mark not in self._known:
                self._missed[mark] = self._now()
        return self._known.get(mark)

    def take_entry(self, key: bytes | str | None, value: bytes | str | None, offset: int) -> None:
        """Take one entry in; one that is no schema below its own fingerprint is skipped and logged:
        each entry is read once."""
        try:
            if not isinstance(key, bytes) or not isinstance(value, bytes):
                return  # the key is no more
            if len(value) > MAX_ENTRY_BYTES:
                raise ValueError(f"{len(value):,} bytes, at most {MAX_ENTRY_BYTES:,} are read")
            schema = json.loads(value)
            demand_harmless(schema, key.decode())
            self._known[key.decode()] = schema
        except Exception as error:  # json, fastavro and nesting each raise their own
            why = f"{type(error).__name__}: {error}"[:300]
            _LOG.warning("schema_ignored", topic=TOPIC, offset=offset, why=why)

    def _was_missed_lately(self, mark: str) -> bool:
        """Return True if the fingerprint was looked for in vain less than MISSED_S ago."""
        return self._now() - self._missed.get(mark, float("-inf")) < MISSED_S

    def _read_news(self) -> None:
        try:
            self._read_new(self._open_consumer())
        except KafkaException as error:
            _LOG.warning("schemas_not_read", topic=TOPIC, why=error)

    def _open_consumer(self) -> Consumer:
        if self._consumer is None:
            own = {
                "group.id": reader_group(),
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                **QUIET,
            }
            self._consumer = Consumer(client_config(self._kafka, own))
            weakref.finalize(self, self._consumer.close)
        return self._consumer

    def _read_new(self, consumer: Consumer) -> None:
        """Take in what has come since. It holds no partition between two looks: a request to the
        broker would wait behind a fetch that waits for new records, half a second each time."""
        end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=ASK_S)[1]
        if end == self._next:
            return
        if end < self._next:  # the topic was deleted, and made anew
            self._next = 0
        consumer.assign([TopicPartition(TOPIC, 0, self._next)])
        deadline = time.monotonic() + READ_S
        while self._next < end and time.monotonic() < deadline:
            for message in consumer.consume(500, 0.1):
                offset = message.offset() or 0
                error = message.error()
                if error is None:
                    self.take_entry(message.key(), message.value(), offset)
                    self._next = offset + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._next = max(self._next, offset)
        consumer.unassign()
