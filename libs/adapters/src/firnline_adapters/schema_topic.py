"""The compacted topic `schemas`: fingerprint -> Avro schema, so older readers learn newer ones."""

from __future__ import annotations

import json
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from firnline_schemas.codec import Schema, all_schemas

from firnline_adapters.kafka_connection import Kafka, client_config, reader_group

TOPIC = "schemas"
READ_SECONDS = 10.0  # some dozens of records; more means that the broker is away


def publish_schemas(kafka: Kafka) -> None:
    """Write every schema that this code knows; the same ones again do no harm (compacted)."""
    producer = Producer(client_config(kafka, {"enable.idempotence": True}))
    for mark, schema in all_schemas():
        producer.produce(TOPIC, json.dumps(schema).encode(), mark.encode(), partition=0)
    producer.flush(30)


class SchemaTopic:
    """Reads the topic when it is asked for a fingerprint that it has not seen."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._known: dict[str, Schema] = {}

    def find(self, mark: str) -> Schema | None:
        """Schema of a fingerprint in hexadecimal, or None where nobody has published it."""
        if mark not in self._known:
            self._read()
        return self._known.get(mark)

    def _read(self) -> None:
        consumer = Consumer(client_config(self._kafka, {"group.id": reader_group()}))
        try:
            end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=READ_SECONDS)[1]
            consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
            deadline = time.monotonic() + READ_SECONDS
            position = 0
            while position < end and time.monotonic() < deadline:
                message = consumer.poll(0.5)
                if message is None or message.error():
                    continue
                position = (message.offset() or 0) + 1
                key, value = message.key(), message.value()
                if isinstance(key, bytes) and isinstance(value, bytes):
                    self._known[key.decode()] = json.loads(value)
        finally:
            consumer.close()
