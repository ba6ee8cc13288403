"""Creates topics on a broker, as their files in firnline_schemas describe them.

`firnline topics` makes them on FIRNLINE_KAFKA, those of FIRNLINE_GROUPS as well; so does `python -m
firnline_local.topics.topics` where that command is not installed. With `--buckets N` it adds
buckets to a fleet that runs (docs/operate/scale.md)."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection
from dataclasses import replace

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from firnline_adapters.config.config_file import with_config
from firnline_adapters.kafka.connection import QUIET, Kafka, client_config, connection_here
from firnline_adapters.kafka.schema_topic import publish_schemas
from firnline_adapters.kafka_admin.replication import Replication, replication_here
from firnline_domain.errors import Misconfigured
from firnline_domain.policy.fleet.lanes import TOPICS, Lane, lane_topic
from firnline_domain.settings.groups import VARIABLE, Group, group_names, parse_groups
from firnline_schemas.topics import Topic, all_topics, topic

from firnline_local.topics.topic_options import TopicOptions, options_here, with_options

DEFAULT_BUCKETS = 8
TIMEOUT_S = 30.0
# Planners own a bucket for each of its partitions: it is widened when all else is there.
BUCKETS_OF = "file-changes"


class WrongPartitions(RuntimeError):
    """A topic exists with another partition count than is asked for.

    Tables would get other homes: keep FIRNLINE_BUCKETS, or take a fresh state directory.
    """


def initial_buckets() -> int:
    """Return the number of buckets that a deployment begins with: FIRNLINE_BUCKETS, else 8."""
    return int(os.environ.get("FIRNLINE_BUCKETS", DEFAULT_BUCKETS))


def fleet_groups() -> tuple[Group, ...]:
    """Return the groups of FIRNLINE_GROUPS. Raises Misconfigured."""
    return parse_groups(os.environ.get(VARIABLE, ""))


def topics_with(groups: Collection[Group]) -> list[Topic]:
    """Return every topic of a deployment that has these groups."""
    return [
        *all_topics(),
        *(_build_group_topic(lane, name) for name in group_names(groups) for lane in Lane),
    ]


def _build_group_topic(lane: Lane, group: str) -> Topic:
    """Return a task topic of a group: the queue's default topic under another name."""
    return replace(topic(TOPICS[lane]), name=lane_topic(lane, group))


def make_topics(
    kafka: Kafka,
    homes: int,
    groups: Collection[Group] = (),
    buckets: int | None = None,
    options: TopicOptions | None = None,
) -> Replication:
    """Create what is missing, with so many homes; then publish every schema. Repeatable; nothing is
    removed. `buckets`: as many or more are there in the end; None = as many as there are.
    `options`: None = those of the environment.

    Raises WrongPartitions, Misconfigured, or KafkaException if the broker does not answer."""
    options = options or options_here()
    admin = AdminClient(client_config(kafka, QUIET))
    found = admin.list_topics(timeout=TIMEOUT_S).topics
    there = {name: len(one.partitions) for name, one in found.items()}
    wanted = with_options(topics_with(groups), options)
    copies = replication_here(admin, options.replicas, options.min_in_sync)
    for one in wanted:
        if one.name in there:
            _check_partitions(one, there[one.name], homes)
    buckets = max(homes, there.get(BUCKETS_OF, 0), buckets or 0)
    _create_topics(admin, [one for one in wanted if one.name not in there], homes, buckets, copies)
    by_bucket = {one.name for one in wanted if one.is_by_bucket and one.name in there}
    narrow = {name for name in by_bucket if there[name] < buckets}
    for names in (narrow - {BUCKETS_OF}, narrow & {BUCKETS_OF}):
        _add_partitions(admin, names, buckets)
    publish_schemas(kafka)
    return copies


def _check_partitions(one: Topic, found: int, homes: int) -> None:
    wanted = one.partitions(homes)
    if found < wanted or (found > wanted and not one.is_by_bucket):
        raise WrongPartitions(f"topic {one.name} has {found} partitions, {wanted} are wanted")


def _create_topics(
    admin: AdminClient, missing: list[Topic], homes: int, buckets: int, copies: Replication
) -> None:
    if not missing:
        return
    new = [
        NewTopic(
            one.name,
            one.partitions(homes, buckets),
            copies.replicas,
            config={**copies.config, **one.config},
        )
        for one in missing
    ]
    for future in admin.create_topics(new, operation_timeout=TIMEOUT_S).values():
        try:
            future.result()
        except KafkaException as error:
            # Another stack on the same broker was faster.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def _add_partitions(admin: AdminClient, names: Collection[str], buckets: int) -> None:
    new = [NewPartitions(name, buckets) for name in sorted(names)]
    for future in admin.create_partitions(new, operation_timeout=TIMEOUT_S).values() if new else ():
        future.result()


def main() -> None:
    """Create topics, or add buckets."""
    flags = argparse.ArgumentParser(prog="firnline_local.topics.topics", description=__doc__)
    flags.add_argument("--buckets", type=int, help="number to extend to, if there are fewer")
    wanted = flags.parse_args().buckets
    try:
        kafka = connection_here(with_config(os.environ)["FIRNLINE_KAFKA"])
        make_topics(kafka, initial_buckets(), fleet_groups(), wanted)
    except (Misconfigured, WrongPartitions) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
