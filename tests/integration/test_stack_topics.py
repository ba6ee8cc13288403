"""Topics as their files describe them, on a real broker."""

from __future__ import annotations

import pytest
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from firnline_local.topics import DEFAULT_BUCKETS, WrongPartitions, make_topics
from firnline_schemas.codec import all_schemas
from firnline_schemas.topics import all_topics

pytestmark = pytest.mark.stack


def test_topics_have_the_partitions_and_settings_of_their_files(kafka: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    found = admin.list_topics(timeout=30).topics
    for topic in all_topics():
        assert len(found[topic.name].partitions) == topic.partitions(DEFAULT_BUCKETS)
        resource = ConfigResource(ResourceType.TOPIC, topic.name)
        settings = admin.describe_configs([resource])[resource].result()
        assert {name: settings[name].value for name in topic.config} == topic.config


def test_making_them_again_changes_nothing(kafka: str) -> None:
    make_topics(kafka, DEFAULT_BUCKETS)


def test_another_bucket_count_is_refused(kafka: str) -> None:
    with pytest.raises(WrongPartitions, match="has 8 partitions, 9 are wanted"):
        make_topics(kafka, DEFAULT_BUCKETS + 1)


def test_every_schema_is_published_under_its_fingerprint(kafka: str) -> None:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "t-schemas"})
    consumer.assign([TopicPartition("schemas", 0, 0)])
    wanted = {mark for mark, _ in all_schemas()}
    seen: set[str] = set()
    try:
        while not wanted <= seen:
            record = consumer.poll(30)
            assert record is not None
            assert record.timestamp()[0] != TIMESTAMP_NOT_AVAILABLE
            seen.add(record.key().decode())
    finally:
        consumer.close()
