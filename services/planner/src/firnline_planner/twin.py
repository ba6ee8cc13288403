"""The planner without Kafka: the same buckets over topics and state in memory."""

from __future__ import annotations

from collections.abc import Callable

from firnline_adapters.memory import MemoryBroker
from firnline_adapters.records import encode
from firnline_domain.thresholds import Thresholds

from firnline_planner.bucket import Bucket
from firnline_planner.inputs import FACTS, TICKS, Input, Reader
from firnline_planner.state import MemoryPairs


class MemoryDriver:
    """Reads every partition of a MemoryBroker in order; `restart` keeps only what is durable."""

    def __init__(
        self, broker: MemoryBroker, reader: Reader, defaults: Thresholds, now: Callable[[], int]
    ) -> None:
        self._broker = broker
        self._reader = reader
        self._defaults = defaults
        self._now = now
        self._pairs = [MemoryPairs() for _ in range(broker.buckets)]
        self._ticks = [0] * broker.buckets
        self._buckets: list[Bucket] = []
        self.restart()

    def restart(self) -> None:
        """Forget what lives in memory only."""
        self._buckets = [Bucket(pairs, self._defaults) for pairs in self._pairs]

    def run(self) -> None:
        """Handle everything that is on the topics."""
        for partition, bucket in enumerate(self._buckets):
            for topic in FACTS:
                self._read(bucket, topic, partition, bucket.next_offset(topic))
            self._ticks[partition] = self._read(bucket, TICKS, partition, self._ticks[partition])

    def _read(self, bucket: Bucket, topic: str, partition: int, start: int) -> int:
        log = self._broker.logs[topic, partition]
        for offset in range(start, len(log)):
            key, value = log[offset]
            self._handle(Input(topic, partition, offset, key.encode(), value), bucket)
        return len(log)

    def _handle(self, came: Input, bucket: Bucket) -> None:
        step = self._reader.step(came, bucket, self._now())
        for output in step.outputs:
            place = (output.topic, came.partition)
            self._broker.logs[place].append((output.key, encode(output.record)))
        bucket.commit()
