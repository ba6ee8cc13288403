"""Records of the shared broker that later tests should not read."""

from __future__ import annotations

import time
from concurrent.futures import Future

from confluent_kafka import OFFSET_END, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, DeletedRecords
from firnline_adapters.kafka.assignments import KafkaAssignments
from firnline_adapters.kafka.client import Header
from firnline_adapters.records.signing import signer_here
from firnline_domain.identity import bucket_of
from firnline_domain.records.assignments import TOPIC, Board
from firnline_local.topics.topics import DEFAULT_BUCKETS
from firnline_planner.drivers.kafka.clients import TRANSACTION_MS

ELECTING = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)


def forget(bootstrap: str, *topics: str) -> None:
    """Delete all records, as retention does: a service that is new reads from the beginning."""
    buckets = range(DEFAULT_BUCKETS)
    places = [TopicPartition(topic, one, OFFSET_END) for topic in topics for one in buckets]
    admin = AdminClient({"bootstrap.servers": bootstrap})  # futures do not outlive it
    deadline = time.monotonic() + 30
    while places:
        answers = admin.delete_records(places)
        places = [place for place, future in answers.items() if not _is_deleted(future, deadline)]


def _is_deleted(future: Future[DeletedRecords], deadline: float) -> bool:
    """False where it may be asked again: the leader of a new topic's partition is still elected."""
    try:
        future.result(30)
    except KafkaException as error:
        if error.args[0].code() not in ELECTING or time.monotonic() > deadline:
            raise
        time.sleep(0.1)
        return False
    return True


def bring_home(bootstrap: str) -> None:
    """Forget every assignment of a table: Faust does not start beside one. No planner runs here."""
    time.sleep(TRANSACTION_MS / 1000)  # what a killed one has left open hides what came after it
    assignments = KafkaAssignments(bootstrap, Board(DEFAULT_BUCKETS))
    assignments.close()
    producer = Producer({"bootstrap.servers": bootstrap})
    for one in assignments.board.all_assignments:
        key, home = one.table_key.encode(), bucket_of(one.table_key, DEFAULT_BUCKETS)
        headers = list[Header](signer_here().sign_headers(TOPIC, home, key, None))
        producer.produce(TOPIC, None, key, home, headers=headers)
    producer.flush(30)
