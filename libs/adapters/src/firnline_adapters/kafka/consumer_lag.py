"""Measure a consumer group's lag from what its client already has. Every fetch brings the end of a
partition, so nothing is requested for it: a scrape that calls the broker waits for it, and a page
of metrics that hangs is worse than a figure of a moment ago."""

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
    """Lag of the partitions that a consumer has been assigned."""

    def __init__(self, consumer: Consumer, group: str) -> None:
        self._consumer = consumer
        self._group = group
        self._looked_s = float("-inf")
        self._lags: Lags = {}

    def update(self, done: Callable[[], Done]) -> None:
        """Look on the thread that polls, at each round: every 5 s, with what is `done` by then."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            self._lags = dict(self._partition_lags(done()))

    def measure(self) -> Lags:
        """Return the lag as of the last look, by group, topic and partition."""
        return self._lags

    def _partition_lags(self, done: Done) -> Iterator[tuple[tuple[str, ...], float]]:
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
