"""Topics as their files in firnline_schemas describe them, made on a broker.

`python -m firnline_local.topics` makes them on FIRNLINE_KAFKA, those of FIRNLINE_GROUPS as well.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from dataclasses import replace

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from firnline_adapters.schema_topic import publish_schemas
from firnline_domain.errors import Misconfigured
from firnline_domain.policy.lanes import TOPICS, Lane, topic_of
from firnline_domain.settings.groups import VARIABLE, Group, groups_of, named
from firnline_schemas.topics import Topic, all_topics, topic

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


def fleet_groups() -> tuple[Group, ...]:
    """FIRNLINE_GROUPS. Raises Misconfigured."""
    return groups_of(os.environ.get(VARIABLE, ""))


def topics_with(groups: Collection[Group]) -> list[Topic]:
    """Every topic of a fleet that has these groups."""
    return [*all_topics(), *(_of_group(lane, name) for name in named(groups) for lane in Lane)]


def _of_group(lane: Lane, group: str) -> Topic:
    return replace(topic(TOPICS[lane]), name=topic_of(lane, group))


def make_topics(bootstrap: str, bucket_count: int, groups: Collection[Group] = ()) -> None:
    """Create what is missing, then publish every schema. Repeatable; nothing is taken away.

    Raises WrongPartitions, or KafkaException when the broker does not answer.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    there = admin.list_topics(timeout=TIMEOUT_S).topics
    wanted = topics_with(groups)
    for one in wanted:
        if one.name in there:
            _agree(one, len(there[one.name].partitions), bucket_count)
    _create(admin, [one for one in wanted if one.name not in there], bucket_count)
    publish_schemas(bootstrap)


def _agree(one: Topic, found: int, bucket_count: int) -> None:
    wanted = one.partitions(bucket_count)
    if found != wanted:
        raise WrongPartitions(f"topic {one.name} has {found} partitions, {wanted} are wanted")


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
    try:
        make_topics(os.environ["FIRNLINE_KAFKA"], buckets(), fleet_groups())
    except Misconfigured as error:
        sys.exit(str(error))
