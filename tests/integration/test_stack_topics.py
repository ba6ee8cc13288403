"""Topics as their files describe them, on a real broker."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid

import pytest
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from firnline_adapters.kafka.schema_topic import publish_schemas
from firnline_adapters.kafka_admin.topics import require_topics
from firnline_domain.errors import Misconfigured
from firnline_domain.policy.fleet.lanes import TOPICS, Lane, lane_topic, topics_of_group
from firnline_domain.settings.groups import group_names, parse_groups
from firnline_local.topics.topics import DEFAULT_BUCKETS, WrongPartitions, make_topics
from firnline_schemas.codec import all_schemas
from firnline_schemas.topics import all_topics, topic

pytestmark = pytest.mark.stack


def test_topics_have_the_partitions_and_settings_of_their_files(kafka: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    found = admin.list_topics(timeout=30).topics
    for one in all_topics():
        assert len(found[one.name].partitions) == one.partitions(DEFAULT_BUCKETS)
        resource = ConfigResource(ResourceType.TOPIC, one.name)
        settings = admin.describe_configs([resource])[resource].result()
        assert {name: settings[name].value for name in one.config} == one.config


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


def test_a_schema_that_the_broker_does_not_take_is_no_silent_loss(kafka: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    [narrow, wide] = [
        ConfigResource(
            ResourceType.TOPIC,
            "schemas",
            incremental_configs=[ConfigEntry("max.message.bytes", size, incremental_operation=how)],
        )
        for size, how in (("100", AlterConfigOpType.SET), ("", AlterConfigOpType.DELETE))
    ]
    admin.incremental_alter_configs([narrow])[narrow].result()
    try:
        with pytest.raises(KafkaException, match="size too large"):
            publish_schemas(kafka)
    finally:
        admin.incremental_alter_configs([wide])[wide].result()


def test_a_group_has_topics_like_those_of_the_default_one(kafka: str) -> None:
    groups = parse_groups(f"g-{uuid.uuid4().hex[:8]}=2.5,default")
    [name] = group_names(groups)
    with pytest.raises(Misconfigured, match=rf"rewrite-tasks.{name} is not there") as missing:
        require_topics(kafka, topics_of_group(name), DEFAULT_BUCKETS)
    assert "firnline topics" in str(missing.value)
    command = (sys.executable, "-m", "firnline_local.topics.topics")
    env = {**os.environ, "FIRNLINE_KAFKA": kafka, "FIRNLINE_GROUPS": f"{name}=2.5,default"}
    subprocess.run(command, env=env, check=True)
    require_topics(kafka, topics_of_group(name), DEFAULT_BUCKETS)
    admin = AdminClient({"bootstrap.servers": kafka})
    for lane in Lane:
        resource = ConfigResource(ResourceType.TOPIC, lane_topic(lane, name))
        settings = admin.describe_configs([resource])[resource].result()
        pattern = topic(TOPICS[lane]).config
        assert {one: settings[one].value for one in pattern} == pattern
    make_topics(kafka, DEFAULT_BUCKETS, groups)  # again
    with pytest.raises(Misconfigured, match=rf"rewrite-tasks-heavy.{name} has 8"):
        require_topics(kafka, topics_of_group(name), DEFAULT_BUCKETS + 1)


def test_groups_that_cannot_be_read_make_no_topics(kafka: str) -> None:
    command = (sys.executable, "-m", "firnline_local.topics.topics")
    env = {**os.environ, "FIRNLINE_KAFKA": kafka, "FIRNLINE_GROUPS": "ETL"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("FIRNLINE_GROUPS: 'ETL'")
