"""Topics are files: `topics/<name>.yaml` says who writes, who reads, the key and the settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

FIELDS = {
    *("name", "about", "written_by", "read_by", "key", "records", "signature", "partitions"),
    "config",
}
BUCKETS = "buckets"  # may be added
HOMES = "homes"  # their number is fixed when the topics are made
MAX_BYTES = "max.message.bytes"
DEFAULT_MAX_BYTES = 1_048_588  # Kafka's own default; set on every topic, whatever the broker's is


class TopicSignature(StrEnum):
    """Whether a topic's records carry the fleet's signature, and for how long it counts."""

    NONE = "none"  # only people look at them, or they describe records
    LASTING = "lasting"  # facts, in order, or the newest word: readers know what they had already
    EXPIRES = "expires"  # orders, and what tells of work done: readers wait for hours at the most


class BadTopicFile(ValueError):
    """A topic file has an unknown, a missing or a wrong field; the message names it."""


@dataclass(frozen=True)
class Topic:
    """One topic as its file describes it."""

    name: str
    about: str
    written_by: tuple[str, ...]
    read_by: tuple[str, ...]
    key: str
    records: tuple[str, ...]
    signature: TopicSignature
    fixed_partitions: int | None  # None: as many as there are homes, or buckets
    is_by_bucket: bool  # one partition for each bucket, also for those that are added
    config: dict[str, str]  # Kafka topic settings; `max.message.bytes` always among them

    @property
    def max_bytes(self) -> int:
        """Size of the largest record that it takes, with its key, as it is sent."""
        return int(self.config[MAX_BYTES])

    def partitions(self, homes: int, buckets: int | None = None) -> int:
        """Return the number of partitions in a deployment of that size; `buckets`: None = none was
        added."""
        return self.fixed_partitions or (buckets if self.is_by_bucket and buckets else homes)


def parse_topic(raw: dict[str, Any]) -> Topic:
    """Parse a topic file's mapping. Raises BadTopicFile."""
    if wrong := FIELDS.symmetric_difference(raw):
        raise BadTopicFile(f"topic {raw.get('name')!r}: unknown or missing fields {sorted(wrong)}")
    partitions = raw["partitions"]
    if partitions not in (BUCKETS, HOMES) and not isinstance(partitions, int):
        raise BadTopicFile(f"topic {raw['name']!r}: partitions is a number, {BUCKETS} or {HOMES}")
    if raw["signature"] not in list(TopicSignature):
        raise BadTopicFile(
            f"topic {raw['name']!r}: signature is one of {', '.join(TopicSignature)}"
        )
    return Topic(
        name=raw["name"],
        about=raw["about"],
        written_by=tuple(raw["written_by"]),
        read_by=tuple(raw["read_by"]),
        key=raw["key"],
        records=tuple(raw["records"]),
        signature=TopicSignature(raw["signature"]),
        fixed_partitions=partitions if isinstance(partitions, int) else None,
        is_by_bucket=partitions == BUCKETS,
        config={
            name: str(value)
            for name, value in {MAX_BYTES: DEFAULT_MAX_BYTES, **raw["config"]}.items()
        },
    )


@cache
def all_topics() -> tuple[Topic, ...]:
    """Return all topics in the order of their names."""
    folder = files("firnline_schemas").joinpath("topics")
    raw = [yaml.safe_load(entry.read_text()) for entry in folder.iterdir()]
    return tuple(sorted(map(parse_topic, raw), key=lambda topic: topic.name))


def topic(name: str) -> Topic:
    """Return the topic of that name. Raises KeyError."""
    return {entry.name: entry for entry in all_topics()}[name]


@cache
def topics_with(signature: TopicSignature) -> frozenset[str]:
    """Return the names of the topics whose records have this kind of signature."""
    return frozenset(one.name for one in all_topics() if one.signature is signature)


@cache
def max_bytes(name: str) -> int:
    """Return the largest record in bytes that a topic accepts: by its file, or by that of the topic
    that it is a group's form of (`rewrite-tasks.etl`); Kafka's default without either."""
    known = {one.name: one.max_bytes for one in all_topics()}
    return known.get(name) or known.get(name.partition(".")[0], DEFAULT_MAX_BYTES)
