"""Consumer groups as a broker's admin sees them. All raise KafkaException."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from firnline_local.topics import TIMEOUT_S

LOOK_S = 0.1
NOT_YET = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
)
T = TypeVar("T")


def names(admin: AdminClient) -> list[str]:
    """Every group, with members or without."""
    return [one.group_id for one in admin.list_consumer_groups().result(TIMEOUT_S).valid]


def held(admin: AdminClient, group: str) -> set[str]:
    """Topics of which a living member of the group has a partition."""
    members = answered(partial(_described, admin, group)).members
    return {place.topic for one in members for place in one.assignment.topic_partitions}


def offsets(admin: AdminClient, group: str) -> list[TopicPartition]:
    """How far a group has read what it has read; of one that never was, nothing."""
    return list(answered(partial(_listed, admin, group)).topic_partitions)


def _described(admin: AdminClient, group: str) -> ConsumerGroupDescription:
    [answer] = admin.describe_consumer_groups([group]).values()
    return answer.result(TIMEOUT_S)


def _listed(admin: AdminClient, group: str) -> ConsumerGroupTopicPartitions:
    [answer] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return answer.result(TIMEOUT_S)


def answered(ask: Callable[[], T]) -> T:
    """A broker that has just been started looks for its groups first, and one that has just made
    a topic for its partitions."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in NOT_YET or time.monotonic() > deadline:
                raise
            time.sleep(LOOK_S)
