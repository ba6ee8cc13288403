"""Records of the shared broker that later tests should not read."""

from __future__ import annotations

import time

from confluent_kafka import OFFSET_END, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from firnline_adapters.assignments import KafkaAssignments
from firnline_adapters.kafka import Header
from firnline_adapters.signing import signer_here
from firnline_domain.identity import bucket_of
from firnline_domain.records.assignments import TOPIC, Board
from firnline_local.topics import DEFAULT_BUCKETS
from firnline_planner.kafka.clients import TRANSACTION_MS


def forget(bootstrap: str, *topics: str) -> None:
    """Delete all records, as retention does: a service that is new reads from the beginning."""
    buckets = range(DEFAULT_BUCKETS)
    places = [TopicPartition(topic, one, OFFSET_END) for topic in topics for one in buckets]
    admin = AdminClient({"bootstrap.servers": bootstrap})  # futures do not outlive it
    for future in admin.delete_records(places).values():
        future.result(30)


def bring_home(bootstrap: str) -> None:
    """Forget every assignment of a table: Faust does not start beside one. No planner runs here."""
    time.sleep(TRANSACTION_MS / 1000)  # what a killed one has left open hides what came after it
    assignments = KafkaAssignments(bootstrap, Board(DEFAULT_BUCKETS))
    assignments.close()
    producer = Producer({"bootstrap.servers": bootstrap})
    for one in assignments.board.every:
        key, home = one.table_uuid.encode(), bucket_of(one.table_uuid, DEFAULT_BUCKETS)
        headers = list[Header](signer_here().headers(TOPIC, home, key, None))
        producer.produce(TOPIC, None, key, home, headers=headers)
    producer.flush(30)
