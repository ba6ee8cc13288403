"""The twin of KafkaTopics, over the broker in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from firnline_adapters.in_memory import MemoryBroker, MemoryPublisher
from firnline_adapters.records.codec import RecordCodec

from firnline_cli.shared.topic_reader import Wanted


class MemoryTopics:
    """Topics in memory, for tests."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._codec = RecordCodec()
        self._next: defaultdict[tuple[str, int], int] = defaultdict(int)

    def new_records(self, topic: str, wanted: Wanted) -> Iterator[tuple[str, Any]]:
        for partition in range(self._broker.buckets):
            place, log = (topic, partition), self._broker.logs[topic, partition]
            new, self._next[place] = log[self._next[place] :], len(log)
            for key, value in new:
                if wanted(key):
                    yield key, self._codec.decode(value) if value else None

    def count_unread(self, topic: str, group: str) -> int:
        return sum(
            len(self._broker.logs[topic, partition])
            - self._broker.committed.get((group, topic, partition), 0)
            for partition in range(self._broker.buckets)
        )

    def send(self, topic: str, key: str, record: Any) -> None:
        MemoryPublisher(self._broker).publish(topic, key, record)
