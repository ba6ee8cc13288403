"""The compacted topic that holds the planner's state, and how a store catches up with it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec
from firnline_adapters.kafka.questions import ask_broker
from firnline_adapters.kafka_admin.replication import Replication
from firnline_domain.errors import Misconfigured

from firnline_planner.drivers.kafka.clients import MAX_MESSAGE_BYTES, TIMEOUT_S, KafkaClients
from firnline_planner.drivers.kafka.local_store import LocalStore, StorePosition

CHUNK = 10_000  # records in one write of the store
SPREAD_S = 15.0  # until every broker has heard of a topic that was just made
LEADER_S = 40.0  # for the leaders to answer; the watchdog waits longer
QUIET_S = 60.0  # a transaction of a dead planner ends within 10 s; this long means trouble
CONFIG = {
    "cleanup.policy": "compact",
    "segment.ms": "3600000",  # compaction leaves the newest segment alone
    "min.cleanable.dirty.ratio": "0.2",
    "delete.retention.ms": "86400000",  # `local_store.FRESH_MS` counts on it
    "max.message.bytes": str(MAX_MESSAGE_BYTES),
}


class ChangelogStuck(RuntimeError):
    """The changelog's end is not readable: a transaction on it does not end. Look at the broker's
    transaction coordinator (`kafka-transactions.sh find-hanging`)."""


@dataclass
class Changelog:
    """One topic, a partition for each bucket. Records: key and value of a state's pair."""

    clients: KafkaClients
    admin: AdminClient
    topic: str
    topic_id: str
    partitions: int
    read: int = 0  # records restored in this life, for the watchdog

    def add_partitions(self, buckets: int) -> None:
        """Add partitions until each of that many buckets has one, and wait for the brokers to have
        them, at most SPREAD_S. Raises KafkaException."""
        if buckets <= self.partitions:
            return
        asked = self.admin.create_partitions(
            [NewPartitions(self.topic, buckets)], operation_timeout=TIMEOUT_S
        )
        try:
            asked[self.topic].result()
        except KafkaException:  # unless another planner was faster
            if len(_describe_topic(self.admin, self.topic).partitions) < buckets:
                raise
        deadline_s = time.monotonic() + SPREAD_S
        while not self._has_heard_of(buckets) and time.monotonic() < deadline_s:
            time.sleep(0.1)
        self.partitions = buckets

    def _has_heard_of(self, buckets: int) -> bool:
        """Return True if the brokers that lead the partitions have created them, and this client
        has their metadata: it would use its old metadata of the topic for 15 minutes."""
        try:
            self.admin.list_topics(self.topic, timeout=TIMEOUT_S)
            return bool(self._list_end_offsets([buckets - 1]))
        except KafkaException:
            return False

    def end_offsets(self, partitions: list[int]) -> dict[int, int]:
        """Return the offset behind the last record of each partition, whether or not its
        transaction has ended. Raises KafkaException."""
        return ask_broker(lambda: self._list_end_offsets(partitions), LEADER_S)

    def _list_end_offsets(self, partitions: list[int]) -> dict[int, int]:
        wanted = {TopicPartition(self.topic, one): OffsetSpec.latest() for one in partitions}
        found = self.admin.list_offsets(
            wanted,
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=TIMEOUT_S,
        )
        try:
            return {place.partition: one.result().offset for place, one in found.items()}
        except KafkaException:  # perhaps of a leader that the client remembers
            self.admin.list_topics(self.topic, timeout=TIMEOUT_S)
            raise

    def catch_up(self, stores: Mapping[int, LocalStore], now_ms: int) -> int:
        """Read into each store what it lacks; how many records that were.

        The stable end: the caller has waited for the offsets of its predecessors' transactions, so
        every one that counts has its records before `end_offsets`; those still open are aborted.
        Raises ChangelogStuck, KafkaException.
        """
        before, ends = self.read, self.end_offsets(sorted(stores))
        starts = {
            one: stores[one].usable_position(self.topic_id, ends[one], now_ms) for one in stores
        }
        behind = [one for one in sorted(stores) if starts[one] < ends[one]]
        if not behind:
            return 0
        consumer = self.clients.changelog_reader()
        try:
            consumer.assign([TopicPartition(self.topic, one, starts[one]) for one in behind])
            self._read_until(consumer, stores, {one: ends[one] for one in behind}, now_ms)
        finally:
            consumer.close()
        return self.read - before

    def _read_until(
        self, consumer: Consumer, stores: Mapping[int, LocalStore], ends: dict[int, int], now: int
    ) -> None:
        deadline_s = time.monotonic() + QUIET_S
        while ends:
            if time.monotonic() > deadline_s:
                raise ChangelogStuck(f"{self.topic}, before {ends}")
            reached = self._read_on(consumer, stores, now)
            if reached:
                deadline_s = time.monotonic() + QUIET_S
            for place, offset in reached.items():
                if offset >= ends.get(place, offset + 1):
                    del ends[place]

    def _read_on(
        self, consumer: Consumer, stores: Mapping[int, LocalStore], now_ms: int
    ) -> dict[int, int]:
        """Keep what the consumer has at hand, waiting 0.2 s for it; the next offset of each
        partition that has come further. Raises KafkaException."""
        changes: dict[int, dict[bytes, bytes | None]] = {}
        reached: dict[int, int] = {}
        for message in consumer.consume(CHUNK, 0.2):
            place, offset = message.partition(), message.offset()
            error = message.error()
            if error is None:
                changes.setdefault(place, {})[message.key()] = message.value()
                reached[place] = offset + 1
                self.read += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                reached[place] = offset
            elif error.fatal():
                raise KafkaException(error)
        for place, offset in reached.items():
            stores[place].write_changes(
                changes.get(place, {}), StorePosition(self.topic_id, offset, now_ms)
            )
        return reached


def open_changelog(
    clients: KafkaClients,
    topic: str,
    homes: int,
    copies: Replication,
) -> Changelog:
    """Return the changelog; create it if it does not exist. Raises Misconfigured,
    KafkaException."""
    admin = clients.create_admin()
    new = NewTopic(topic, homes, copies.replicas, config={**CONFIG, **copies.config})
    try:
        admin.create_topics([new], operation_timeout=TIMEOUT_S)[topic].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    found = _describe_topic(admin, topic)
    if len(found.partitions) < homes:
        raise Misconfigured(
            f"topic {topic} has {len(found.partitions)} partitions, FIRNLINE_BUCKETS is {homes}:"
            " keep the number that it began with, or start with another FIRNLINE_PLANNER_APP"
        )
    return Changelog(clients, admin, topic, str(found.topic_id), len(found.partitions))


def _describe_topic(admin: AdminClient, topic: str) -> Any:
    deadline_s = time.monotonic() + SPREAD_S
    while True:
        asked = admin.describe_topics(TopicCollection([topic]), request_timeout=TIMEOUT_S)
        try:
            return asked[topic].result()
        except KafkaException as error:
            unheard = error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            if not unheard or time.monotonic() > deadline_s:
                raise
        time.sleep(0.1)
