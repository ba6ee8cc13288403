"""Topics as their files in firnline_schemas describe them, made on a broker.

`python -m firnline_local.topics` makes them on FIRNLINE_KAFKA.
"""

from __future__ import annotations

import os

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from firnline_adapters.schema_topic import publish_schemas
from firnline_schemas.topics import Topic, all_topics

DEFAULT_BUCKETS = 8
REPLICAS = 1  # one broker
TIMEOUT_S = 30.0


class WrongPartitions(RuntimeError):
    """A topic exists with another partition count than the buckets ask for.

    Tables would move between partitions: keep FIRNLINE_BUCKETS, or take a fresh state directory.
    """


def buckets() -> int:
    """Partitions of every topic keyed by table: FIRNLINE_BUCKETS, else 8."""
    return int(os.environ.get("FIRNLINE_BUCKETS", DEFAULT_BUCKETS))


def make_topics(bootstrap: str, bucket_count: int) -> None:
    """Create what is missing, then publish every schema. Repeatable.

    Raises WrongPartitions, or KafkaException when the broker does not answer.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    there = admin.list_topics(timeout=TIMEOUT_S).topics
    for topic in all_topics():
        if topic.name in there:
            _agree(topic, len(there[topic.name].partitions), bucket_count)
    _create(admin, [topic for topic in all_topics() if topic.name not in there], bucket_count)
    publish_schemas(bootstrap)


def _agree(topic: Topic, found: int, bucket_count: int) -> None:
    wanted = topic.partitions(bucket_count)
    if found != wanted:
        raise WrongPartitions(f"topic {topic.name} has {found} partitions, {wanted} are wanted")


def _create(admin: AdminClient, missing: list[Topic], bucket_count: int) -> None:
    if not missing:
        return
    new = [NewTopic(t.name, t.partitions(bucket_count), REPLICAS, config=t.config) for t in missing]
    for future in admin.create_topics(new, operation_timeout=TIMEOUT_S).values():
        try:
            future.result()
        except KafkaException as error:
            # Another stack on the same broker was faster.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


if __name__ == "__main__":
    make_topics(os.environ["FIRNLINE_KAFKA"], buckets())
