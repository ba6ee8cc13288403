"""A planner in its consumer group: the buckets that it is given, and where they go on reading."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from firnline_planner.holdings import Holdings
from firnline_planner.inputs import FILE_CHANGES
from firnline_planner.kafka_clients import TIMEOUT_S


class Membership:
    """Opens the bucket of each partition of `file-changes` that the consumer is given.

    Only that topic is subscribed to: no assignor of librdkafka's moves partition n of several
    topics together and stickily, so those of the other topics follow by hand.
    """

    def __init__(self, consumer: Consumer, holdings: Holdings, topics: Sequence[str]) -> None:
        self._consumer = consumer
        self._holdings = holdings
        self._topics = topics
        self.is_new = False  # given partitions since somebody last looked

    def join(self) -> None:
        """From now on `consume` gives and takes buckets. Raises KafkaException."""
        self._consumer.subscribe(
            [FILE_CHANGES], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def read_again(self) -> None:
        """Go back to where the state of each bucket is."""
        owned = {(place.topic, place.partition) for place in self._consumer.assignment()}
        for place in self._places(self._holdings):
            if (place.topic, place.partition) in owned:
                self._consumer.seek(place)

    def _assigned(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        partitions = [one.partition for one in given]
        if partitions:
            wanted = [TopicPartition(topic, one) for one in partitions for topic in self._topics]
            await_stable(consumer, wanted)
            self._holdings.open(partitions)
        consumer.incremental_assign(self._places(partitions))
        self.is_new = True

    def _revoked(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        partitions = [one.partition for one in taken if one.partition in self._holdings]
        places = self._places(partitions)
        self._holdings.close(partitions)
        consumer.incremental_unassign(places)

    def _places(self, partitions: Iterable[int]) -> list[TopicPartition]:
        """Where to go on in each topic, as the state says: with the changelog gone, at the first
        record that there is."""
        return [
            TopicPartition(topic, one, self._holdings[one].bucket.next_offset(topic))
            for one in partitions
            for topic in self._topics
        ]


def await_stable(consumer: Consumer, places: list[TopicPartition]) -> None:
    """Return when no former owner's transaction is pending on the places (`KafkaDriver` commits
    offsets with every change); a dead one's ends by itself (`TRANSACTION_MS`). Raises
    KafkaException."""
    deadline_s = time.monotonic() + 2 * TIMEOUT_S
    while True:
        found = consumer.committed(places, timeout=TIMEOUT_S)
        errors = [one.error for one in found if one.error]
        if not errors:
            return
        if time.monotonic() > deadline_s:
            raise KafkaException(errors[0])
