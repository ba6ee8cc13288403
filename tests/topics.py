"""Records of the shared broker that later tests should not read."""

from __future__ import annotations

from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient
from firnline_local.topics import DEFAULT_BUCKETS


def forget(bootstrap: str, *topics: str) -> None:
    """Delete all records, as retention does: a service that is new reads from the beginning."""
    buckets = range(DEFAULT_BUCKETS)
    places = [TopicPartition(topic, one, OFFSET_END) for topic in topics for one in buckets]
    admin = AdminClient({"bootstrap.servers": bootstrap})  # futures do not outlive it
    for future in admin.delete_records(places).values():
        future.result(30)
