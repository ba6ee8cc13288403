"""Topics, their records, and the services that read and write them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from firnline_schemas.topics import Topic, all_topics

from tests.tools.reference.markdown import cell, quoted, table


def list_topics() -> str:
    """Return the table of all topics."""
    head = "topic | key | partitions | written by | read by | signature | content"
    return table(head, map(_row_of_topic, all_topics()))


def _row_of_topic(topic: Topic) -> str:
    partitions = topic.fixed_partitions or ("buckets" if topic.is_by_bucket else "fixed")
    services = f"{', '.join(topic.written_by)} | {', '.join(topic.read_by)}"
    return (
        f"`{topic.name}` | {topic.key} | {partitions} | {services} | {topic.signature} | "
        f"{cell(topic.about)}"
    )


def list_services() -> str:
    """Return the table of topics by service."""
    topics = all_topics()
    services = sorted({name for topic in topics for name in (*topic.written_by, *topic.read_by)})
    rows = (
        f"{name} | {quoted(topic.name for topic in topics if name in topic.read_by)} | "
        f"{quoted(topic.name for topic in topics if name in topic.written_by)}"
        for name in services
    )
    return table("service | reads | writes", rows)


def list_records() -> str:
    """Return the table of all records with their fields."""
    rows = (
        f"`{schema['name']}` | {quoted(_topics_of(schema['name']))} | "
        f"{quoted(field['name'] for field in schema['fields'])}"
        for schema in sorted(_schemas(), key=lambda schema: str(schema["name"]))
    )
    return table("record | topics | fields", rows)


def _topics_of(record: str) -> Iterator[str]:
    return (topic.name for topic in all_topics() if record in topic.records)


def _schemas() -> Iterator[dict[str, Any]]:
    for entry in files("firnline_schemas").joinpath("avro").iterdir():
        yield json.loads(entry.read_text())
