"""Kafka clients of the transactional driver: their settings, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from firnline_adapters.kafka.client import LIBRDKAFKA, MAX_MESSAGE_BYTES
from firnline_adapters.kafka.connection import Kafka, client_config, reader_group
from firnline_adapters.records.record_sizes import COMPRESSION

__all__ = ["MAX_MESSAGE_BYTES", "TIMEOUT_S", "KafkaClients"]

TIMEOUT_S = 30.0
SESSION_MS = 8_000  # a killed planner's buckets wait this long
# A dead planner's open transaction holds back all that read its topics, no longer than this; a live
# one's ends within a second.
TRANSACTION_MS = 10_000


@dataclass(frozen=True)
class KafkaClients:
    """Makes clients of one Kafka for one planner application."""

    kafka: Kafka
    app: str

    def create_admin(self) -> AdminClient:
        """Return a client for topics and their end offsets."""
        return AdminClient(client_config(self.kafka), logger=LIBRDKAFKA)

    def create_consumer(self) -> Consumer:
        """Return the group's consumer."""
        own = {
            "group.id": self.app,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            # `committed` then waits for the transactions of a bucket's former owner (KIP-447).
            "isolation.level": "read_committed",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 2_000,
            "max.poll.interval.ms": 300_000,  # a cold start reads the changelog meanwhile
            "fetch.message.max.bytes": MAX_MESSAGE_BYTES,
            "fetch.wait.max.ms": 50,  # part of the time from a commit to its order
            # Measured: 59,000 records/s with these, 28,000 with the defaults.
            "fetch.queue.backoff.ms": 20,
            "queued.min.messages": 10_000,
            "queued.max.messages.kbytes": 32 * 1024,
            # Buckets that were added are somebody's by then.
            "topic.metadata.refresh.interval.ms": 10_000,
        }
        return Consumer(client_config(self.kafka, own), logger=LIBRDKAFKA)

    def changelog_reader(self) -> Consumer:
        """Create a reader of assigned partitions, without a group, that reports the end of each."""
        own = {
            "group.id": reader_group(),
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.message.max.bytes": MAX_MESSAGE_BYTES,
            "fetch.queue.backoff.ms": 20,
            "queued.min.messages": 100_000,
            "queued.max.messages.kbytes": 64 * 1024,
        }
        return Consumer(client_config(self.kafka, own), logger=LIBRDKAFKA)

    def create_producer(self, transactional_id: str) -> Producer:
        """Return a producer for transactions. A previous producer with that id is fenced, and its
        transaction aborted."""
        own = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TRANSACTION_MS,
            "linger.ms": 5,
            **COMPRESSION,
            "message.max.bytes": MAX_MESSAGE_BYTES,
            "queue.buffering.max.messages": 1_000_000,
        }
        return Producer(client_config(self.kafka, own), logger=LIBRDKAFKA)
