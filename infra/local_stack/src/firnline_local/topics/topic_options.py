"""An operator's settings of topics, which override those of their files, and the differences of
existing topics from them."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from firnline_adapters.config.fleet_settings import MIN_IN_SYNC_REPLICAS, REPLICAS, TOPIC_CONFIG
from firnline_adapters.config.settings import Setting
from firnline_adapters.kafka_admin.replication import Replication
from firnline_domain.errors import Misconfigured
from firnline_schemas.topics import MAX_BYTES, Topic

TIMEOUT_S = 30.0
# What readers and writers count on: a topic's file alone says these.
FIXED = ("cleanup.policy", MAX_BYTES)


@dataclass(frozen=True)
class TopicOptions:
    """Settings of topics. `config`: topic -> Kafka's settings for it. None = not set."""

    replicas: int | None = None
    min_in_sync: int | None = None
    config: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class TopicDifference:
    """A topic that exists with another setting than is asked for."""

    topic: str
    setting: str
    asked: str
    found: str

    @property
    def can_be_applied(self) -> bool:
        """Return whether it is a setting; replicas and partitions are for Kafka's own tools."""
        return "." in self.setting

    def __str__(self) -> str:
        remedy = "run `firnline topics --apply`" if self.can_be_applied else _REMEDIES[self.setting]
        return f"{self.topic}: {self.setting} asked {self.asked}, found {self.found}: {remedy}"


_REMEDIES = {
    "replicas": "move it with kafka-reassign-partitions.sh",
    "partitions": "keep the FIRNLINE_BUCKETS that the deployment began with",
}


def options_here(environment: Mapping[str, str] = os.environ) -> TopicOptions:
    """Return the options that the environment sets. Raises Misconfigured."""
    return TopicOptions(
        _read_number(REPLICAS, environment),
        _read_number(MIN_IN_SYNC_REPLICAS, environment),
        config_of(environment.get(TOPIC_CONFIG.variable, "")),
    )


def config_of(text: str) -> dict[str, dict[str, str]]:
    """Parse FIRNLINE_TOPIC_CONFIG. Raises Misconfigured."""
    if not text:
        return {}
    try:
        raw = json.loads(text)
        found = {
            topic: {name: str(value) for name, value in settings.items()}
            for topic, settings in raw.items()
        }
    except (ValueError, AttributeError) as error:
        raise Misconfigured(
            f"{TOPIC_CONFIG.variable}: write a JSON object of objects by topic: {error}"
        ) from None
    for topic, settings in found.items():
        if fixed := sorted(set(FIXED) & set(settings)):
            raise Misconfigured(
                f"{TOPIC_CONFIG.variable}: {topic}: {', '.join(fixed)} cannot be changed: readers "
                "and writers count on it"
            )
    return found


def with_options(topics: Sequence[Topic], options: TopicOptions) -> list[Topic]:
    """Return the topics with an operator's settings over those of their files. Raises
    Misconfigured: no such topic."""
    if unknown := sorted(set(options.config) - {one.name for one in topics}):
        raise Misconfigured(f"{TOPIC_CONFIG.variable}: there is no topic {', '.join(unknown)}")
    return [
        replace(one, config={**one.config, **options.config.get(one.name, {})}) for one in topics
    ]


def find_differences(
    admin: AdminClient, topics: Collection[Topic], homes: int, copies: Replication
) -> list[TopicDifference]:
    """Return the settings in which existing topics differ from those requested. Raises
    KafkaException."""
    there = set(admin.list_topics(timeout=TIMEOUT_S).topics)
    wanted = {one.name: one for one in topics if one.name in there}
    if not wanted:
        return []
    described = admin.describe_topics(TopicCollection(sorted(wanted)), request_timeout=TIMEOUT_S)
    settings = admin.describe_configs(
        [ConfigResource(ResourceType.TOPIC, name) for name in sorted(wanted)],
        request_timeout=TIMEOUT_S,
    )
    found = {resource.name: asked.result() for resource, asked in settings.items()}
    return [
        difference
        for name in sorted(wanted)
        for difference in _find_differences(
            wanted[name], described[name].result(), found[name], homes, copies
        )
    ]


def _find_differences(
    one: Topic, described: Any, settings: Mapping[str, Any], homes: int, copies: Replication
) -> Iterator[TopicDifference]:
    """Yield the settings of one topic that differ from the requested ones. More partitions than
    requested count only for topics by bucket."""
    count, asked = len(described.partitions), one.partitions(homes)
    if count < asked or (count > asked and not one.is_by_bucket):
        yield TopicDifference(one.name, "partitions", str(asked), str(count))
    replicas = min(len(partition.replicas) for partition in described.partitions)
    if replicas != copies.replicas:
        yield TopicDifference(one.name, "replicas", str(copies.replicas), str(replicas))
    for name, value in {**copies.config, **one.config}.items():
        entry = settings.get(name)
        if entry is not None and entry.value != value:
            yield TopicDifference(one.name, name, value, str(entry.value))


def apply_settings(admin: AdminClient, found: Iterable[TopicDifference]) -> None:
    """Set what can be set; other settings of the topics stay. Raises KafkaException."""
    entries: dict[str, list[ConfigEntry]] = {}
    for one in found:
        if one.can_be_applied:
            entry = ConfigEntry(one.setting, one.asked, incremental_operation=AlterConfigOpType.SET)
            entries.setdefault(one.topic, []).append(entry)
    resources = [
        ConfigResource(ResourceType.TOPIC, topic, incremental_configs=new)
        for topic, new in entries.items()
    ]
    if resources:
        for asked in admin.incremental_alter_configs(resources, request_timeout=TIMEOUT_S).values():
            asked.result()


def _read_number(setting: Setting, environment: Mapping[str, str]) -> int | None:
    text = environment.get(setting.variable, "")
    if not text:
        return None
    if not text.isdigit():
        raise Misconfigured(f"{setting.variable}={text!r}: write a number")
    return int(text)
