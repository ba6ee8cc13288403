"""A small topic that is read from its beginning, without a group, by each process for itself."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    TopicPartition,
)
from firnline_domain.errors import RetryLater

READ_S = 10.0  # some thousand records
AT_ONCE = 500
INFO, NOTHING = 6, 0  # what the client says on stderr of its connections


class WholeTopic:
    """Gives every record to `take`: those that are there on construction, then the new ones."""

    def __init__(
        self, bootstrap: str, topic: str, take: Callable[[Message], None], log_level: int = INFO
    ) -> None:
        """Return when everything said so far is taken in. Raises RetryLater."""
        self._topic = topic
        self._take = take
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{topic}-{uuid.uuid4()}",
                "enable.auto.commit": False,
                "log_level": log_level,
            }
        )
        try:
            self._read_until(self._ends())
        except KafkaException as error:
            raise RetryLater(f"{topic} cannot be read: {error}") from error

    def _ends(self) -> dict[int, int]:
        """Begin with the first record of each partition that has any; where each of them ends."""
        topics = self._consumer.list_topics(self._topic, timeout=READ_S).topics
        found = topics[self._topic].partitions
        if not found:
            raise RetryLater(f"the broker has no topic {self._topic}: it is made by `firnline up`")
        places = [TopicPartition(self._topic, one, OFFSET_BEGINNING) for one in found]
        self._consumer.assign(places)
        marks = [self._consumer.get_watermark_offsets(one, timeout=READ_S) for one in places]
        return {
            place.partition: end
            for place, (start, end) in zip(places, marks, strict=True)
            if start < end
        }

    def _read_until(self, ends: dict[int, int]) -> None:
        deadline = time.monotonic() + READ_S
        while ends and time.monotonic() < deadline:
            for message in self._records(0.1):
                self._take(message)
                partition = message.partition() or 0
                if (message.offset() or 0) + 1 >= ends.get(partition, 0):
                    ends.pop(partition, None)
        if ends:
            raise RetryLater(f"{self._topic} could not be read within {READ_S:.0f} s")

    def _records(self, timeout_s: float) -> list[Message]:
        """Without the client's own errors, which it recovers from."""
        found = self._consumer.consume(AT_ONCE, timeout_s)
        return [message for message in found if message.error() is None]

    def catch_up(self) -> None:
        """Take in what has come since; never blocks."""
        for message in self._records(0):
            self._take(message)

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()
