"""What a member of a consumer group has before it, by what its client has heard.

Every fetch tells the client where a partition ends, so nothing is asked for it: a scrape that asks
the broker waits for it, and a page of metrics that hangs is worse than a figure of a moment ago.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from confluent_kafka import Consumer, TopicPartition

LOOK_S = 5.0  # Prometheus asks every 15 s or so
Lags = Mapping[tuple[str, ...], float]
Done = Mapping[tuple[str, int], int | None]
"""Of each partition that is assigned the offset below which all is dealt with, None where nothing
has come yet."""


class ConsumerLag:
    """Of the partitions that a consumer has been assigned."""

    def __init__(self, consumer: Consumer, group: str) -> None:
        self._consumer = consumer
        self._group = group
        self._looked_s = float("-inf")
        self._lags: Lags = {}

    def look(self, done: Callable[[], Done]) -> None:
        """On the thread that polls, at each round. Every 5 s it asks what is `done`, and looks."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            self._lags = dict(self._found(done()))

    def measure(self) -> Lags:
        """As of the last look, by group, topic and partition."""
        return self._lags

    def _found(self, done: Done) -> Iterator[tuple[tuple[str, ...], float]]:
        for (topic, partition), offset in done.items():
            heard = self._consumer.get_watermark_offsets(
                TopicPartition(topic, partition), cached=True
            )
            end = -1 if heard is None else heard[1]
            if end < 0:
                continue  # no fetch was answered yet
            # A fetch that was answered and brought nothing: all of it is dealt with.
            lag = 0 if offset is None else max(end - offset, 0)
            yield (self._group, topic, str(partition)), lag
