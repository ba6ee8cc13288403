"""Records that come again: the last ones of a topic once more and in disorder, or a whole group set
back on its topics."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from firnline_chaos.ground import Ground
from firnline_chaos.hostile.records import marked
from firnline_chaos.missed import Missed
from firnline_chaos.plan import Blow

PATIENCE_S = 5.0
MOST = 12  # records of a partition
GROUPS = {
    "enricher": ("table-commits", "resync-requests"),
    "committer": ("task-results",),
    "worker": ("rewrite-tasks", "rewrite-tasks-heavy", "table-tasks"),
}
BIG = 16 * 1024 * 1024


@dataclass
class Redeliver:
    """The last records of every partition of a topic are written again, in another order, as a
    producer does that did not hear of its success."""

    ground: Ground
    blow: Blow

    def begin(self) -> None:
        try:
            found = last_records(self.ground.stack.kafka, self.blow.target, MOST)
            found = [one for one in found if not marked(one)]
            if not found:
                raise Missed(f"{self.blow.target} is empty")
            random.Random(self.blow.dice).shuffle(found)
            write_again(self.ground.stack.kafka, found)
        except KafkaException as error:
            raise Missed(f"no broker: {error}") from error

    def end(self) -> None:
        pass


def last_records(bootstrap: str, topic: str, most: int) -> list[Any]:
    """At most so many messages of each partition. Raises KafkaException."""
    options = {"bootstrap.servers": bootstrap, "group.id": f"chaos-{uuid.uuid4()}",
               "enable.auto.commit": False, "fetch.message.max.bytes": BIG}  # fmt: skip
    consumer = Consumer(options)
    try:
        known = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        places = [TopicPartition(topic, number) for number in known]
        ends = [consumer.get_watermark_offsets(one, timeout=PATIENCE_S) for one in places]
        starts = [max(low, high - most) for low, high in ends]
        wanted = sum(high - start for (_, high), start in zip(ends, starts, strict=True))
        consumer.assign(
            [
                TopicPartition(topic, one.partition, at)
                for one, at in zip(places, starts, strict=True)
            ]
        )
        found: list[Any] = []
        while len(found) < wanted and (batch := consumer.consume(wanted - len(found), 2.0)):
            found += [message for message in batch if not message.error()]
        return found
    finally:
        consumer.close()


def write_again(bootstrap: str, messages: Sequence[Any]) -> None:
    """Byte for byte, each into its partition."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "message.max.bytes": BIG, "delivery.timeout.ms": 10_000}
    )
    for one in messages:
        producer.produce(
            one.topic(), one.value(), one.key(), partition=one.partition(), headers=one.headers()
        )
    producer.flush(PATIENCE_S)


@dataclass
class Rewind:
    """A service is stopped, its group set back, and it is started again."""

    ground: Ground
    blow: Blow

    def begin(self) -> None:
        if not self.ground.is_ready(self.blow.target):
            raise Missed(f"{self.blow.target} is not ready")
        self.ground.stack.stop_part(self.blow.target)
        try:
            set_back(self.ground.stack.kafka, self.blow.target, random.Random(self.blow.dice))
        except KafkaException as error:
            self.ground.let_run(self.blow.target)
            raise Missed(f"no broker: {error}") from error

    def end(self) -> None:
        self.ground.let_run(self.blow.target)


def set_back(bootstrap: str, group: str, dice: random.Random) -> None:
    """By some records in every partition; nobody may be in the group. Raises KafkaException.

    By a consumer, not by the admin client: librdkafka 2.16's aborts the process where a broker does
    not answer it in time (an assertion on its request queue)."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group,
                         "enable.auto.commit": False})  # fmt: skip
    try:
        known = consumer.list_topics(timeout=PATIENCE_S).topics
        places = [
            TopicPartition(topic, number)
            for topic in GROUPS[group]
            for number in known[topic].partitions
        ]
        earlier = [
            TopicPartition(one.topic, one.partition, max(0, one.offset - dice.randint(1, MOST)))
            for one in consumer.committed(places, timeout=PATIENCE_S)
            if one.offset > 0
        ]
        if earlier:
            consumer.commit(offsets=earlier, asynchronous=False)
    finally:
        consumer.close()
