"""Finds the parts of a fleet that run, and those that can still commit or delete: by its consumer
groups, and by the leases in Redis if that is known."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import click
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from firnline_adapters.kafka.connection import QUIET, KafkaConnection, client_config
from firnline_adapters.kafka.questions import ask_broker
from firnline_adapters.records.signing import RecordSigner
from firnline_adapters.redis.leases import held_leases
from firnline_domain.errors import Misconfigured, RetryLater
from firnline_domain.policy.fleet.lanes import BEFORE_GROUP, group_at
from firnline_domain.records.pauses import Pause

from firnline_cli.shared.topic_reader import READ_S, KafkaTopics, consumer_of, partitions_of_topic

WORKER = "worker"  # of the default resource group; others have their name behind it
COMMITTER = "committer"
ORDERS, RESULTS = "operator-orders", "task-results"
OF_DEFAULT = ("table-tasks", "compare-tasks")  # what the default group's workers take, too


def read_planner_app() -> str:
    """Return the planner's consumer group, as the environment names it."""
    return os.environ.get("FIRNLINE_PLANNER_APP") or "planner"


@dataclass(frozen=True)
class Services:
    """A fleet that is examined. `redis`: None = its leases are not examined. Methods raise
    ClickException if the broker or Redis does not answer, or does not let us see."""

    kafka: KafkaConnection
    redis: str | None = None
    app: str = field(default_factory=read_planner_app)

    def running_members(self) -> list[str]:
        """Return workers and committers that are members of their groups, and leases that tasks
        hold."""
        found = []
        groups = (worker_group(topic) for topic in self._task_topics())
        for group in dict.fromkeys((WORKER, *groups, COMMITTER)):
            for member in members_of(self.kafka, group):
                where = f"{member.client_id} at {member.host.lstrip('/')}"
                found.append(f"a member of the consumer group {group}: {where}")
        return [*found, *self._held_leases()]

    def at_work(self, pause: Pause, signer: RecordSigner) -> list[str]:
        """Return what can still commit or delete although the whole deployment is paused; nothing
        if all have come to rest. The planner is read first: after it has read the pause it orders
        nothing more."""
        topics = KafkaTopics(self.kafka, signer)
        try:
            return [
                *self._planner_at_work(topics),
                *self._workers_at_work(topics),
                *self._committer_at_work(pause),
                *self._held_leases(),
            ]
        except (KafkaException, RetryLater) as error:
            text = f"The broker at {self.kafka.servers} does not answer: {error}"
            raise click.ClickException(text) from None

    def _planner_at_work(self, topics: KafkaTopics) -> Iterator[str]:
        if members_of(self.kafka, self.app) and (left := topics.count_unread(ORDERS, self.app)):
            yield f"the planner has {left:,} records of {ORDERS} before it: it may still order"

    def _workers_at_work(self, topics: KafkaTopics) -> Iterator[str]:
        for topic in self._task_topics():
            group = worker_group(topic)
            if members_of(self.kafka, group) and (left := topics.count_unread(topic, group)):
                yield f"{left:,} orders of {topic} have not ended in the workers ({group})"

    def _committer_at_work(self, pause: Pause) -> Iterator[str]:
        """Yield what the committer still has to confirm. Each partition of the results is confirmed
        by the committer that has it."""
        if not members_of(self.kafka, COMMITTER):
            return
        consumer = consumer_of(self.kafka, COMMITTER)
        places = partitions_of_topic(consumer, RESULTS)
        noted = ask_broker(lambda: consumer.committed(places, timeout=READ_S))
        consumer.close()
        if left := [one.partition for one in noted if one.metadata != pause.to_note]:
            names = ", ".join(map(str, left))
            yield (
                f"a committer has not confirmed that it is at rest (partitions {names} of "
                f"{RESULTS})"
            )

    def _task_topics(self) -> list[str]:
        found = _topics_of(AdminClient(client_config(self.kafka, QUIET)), self.kafka)
        return sorted(one for one in found if one in OF_DEFAULT or group_at(one) is not None)

    def _held_leases(self) -> Iterator[str]:
        if self.redis is None:
            return
        try:
            held = held_leases(self.redis)
        except (RetryLater, Misconfigured) as error:
            raise click.ClickException(str(error)) from None
        yield from (f"a task holds the lease {name}" for name in held)


def worker_group(topic: str) -> str:
    """Return the consumer group of the workers that take a topic's tasks."""
    group = group_at(topic)
    return f"{WORKER}{BEFORE_GROUP}{group}" if group else WORKER


class Hidden(click.ClickException):
    """The broker answers, and does not let us see a consumer group."""


def members_of(kafka: KafkaConnection, group: str) -> list[Any]:
    """Return the members of a consumer group. Raises Hidden, or ClickException if the broker does
    not answer."""
    admin: Any = AdminClient(client_config(kafka, QUIET))
    _topics_of(admin, kafka)
    try:
        found = ask_broker(
            lambda: admin.describe_consumer_groups([group], request_timeout=READ_S)[group].result()
        )
    except KafkaException as error:
        text = f"The broker at {kafka.servers} does not show the consumer group {group}"
        raise Hidden(f"{text} ({error.args[0].str()}): it needs the right Describe") from None
    return list(found.members)


def _topics_of(admin: Any, kafka: KafkaConnection) -> list[str]:
    try:
        return sorted(admin.list_topics(timeout=READ_S).topics)
    except KafkaException as error:
        text = f"The broker at {kafka.servers} does not answer: {error.args[0].str()}"
        raise click.ClickException(text) from None
