"""What a member of a consumer group has before it, as `kafka-consumer-groups --describe` tells it.

Read when Prometheus asks, and from the broker: what a client has heard last of a partition's end
grows old while it is paused, which is when somebody wants to know. All ends are one request, on a
connection that no fetch keeps waiting (0.5 s each on the consumer's own).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from firnline_adapters.kafka_connection import Kafka, client_config

ANSWER_S = 2.0  # Prometheus waits for 10 s, and the rest has its turn, too
Lags = dict[tuple[str, ...], float]
Offsets = dict[tuple[str, int], int]


class ConsumerLag:
    """Of the partitions that a consumer has been assigned."""

    def __init__(self, kafka: Kafka, consumer: Consumer, group: str) -> None:
        self._kafka = kafka
        self._consumer = consumer
        self._group = group

    def measure(self) -> Lags:
        """By group, topic and partition. What the broker has not told is left out."""
        try:
            return self._measured()
        except KafkaException:  # it is away
            return {}

    def _measured(self) -> Lags:
        places = self._consumer.assignment()
        if not places:
            return {}
        done = self._committed(places)
        if new := [one for one in places if done.get((one.topic, one.partition), 0) < 0]:
            done |= self._offsets(new, OffsetSpec.earliest())
        ends = self._offsets(places, OffsetSpec.latest())
        return {
            (self._group, topic, str(partition)): max(end - done[topic, partition], 0)
            for (topic, partition), end in ends.items()
            if (topic, partition) in done
        }

    def _committed(self, places: list[TopicPartition]) -> Offsets:
        """Below 0 where there is none; without those whose transaction is just at its end."""
        found = self._consumer.committed(places, timeout=ANSWER_S)
        return {(one.topic, one.partition): one.offset for one in found if not one.error}

    def _offsets(self, places: Iterable[TopicPartition], spec: OffsetSpec) -> Offsets:
        asked = {TopicPartition(one.topic, one.partition): spec for one in places}
        futures = self._admin.list_offsets(asked, request_timeout=ANSWER_S)
        return {
            (one.topic, one.partition): future.result().offset for one, future in futures.items()
        }

    @cached_property
    def _admin(self) -> AdminClient:
        """Made when somebody asks. That the broker is away is in the log of the consumer."""
        return AdminClient({**client_config(self._kafka), "log_level": 0})
