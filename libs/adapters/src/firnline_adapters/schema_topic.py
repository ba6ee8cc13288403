"""The compacted topic `schemas`: fingerprint -> Avro schema, so older readers learn newer ones."""

from __future__ import annotations

import json
import time
import uuid

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from firnline_schemas.codec import Schema, all_schemas

TOPIC = "schemas"
READ_SECONDS = 10.0  # some dozens of records; more means that the broker is away


def publish_schemas(bootstrap: str) -> None:
    """Write every schema that this code knows; the same ones again do no harm (compacted)."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for mark, schema in all_schemas():
        producer.produce(TOPIC, json.dumps(schema).encode(), mark.encode(), partition=0)
    producer.flush(30)


class SchemaTopic:
    """Reads the topic when it is asked for a fingerprint that it has not seen."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._known: dict[str, Schema] = {}

    def find(self, mark: str) -> Schema | None:
        """Schema of a fingerprint in hexadecimal, or None where nobody has published it."""
        if mark not in self._known:
            self._read()
        return self._known.get(mark)

    def _read(self) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": f"schemas-{uuid.uuid4()}"}
        )
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
