"""One batch, one transaction: what it changed, what it sends, and how far it has read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from firnline_adapters.kafka.client import Header, produce_record

from firnline_planner.drivers.kafka.clients import TIMEOUT_S
from firnline_planner.drivers.kafka.local_store import Changes

NO_HEADERS: list[Header] = []


class Send(NamedTuple):
    """One record, signed for its place."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None
    headers: list[tuple[str, bytes]]


@dataclass
class StepBatch:
    """Collects while records are handled; nothing of it is seen elsewhere before its commit."""

    changes: dict[int, Changes] = field(default_factory=dict)  # by partition
    sends: list[Send] = field(default_factory=list)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)  # of every partition changed
    senders: set[int] = field(default_factory=set)  # partitions whose buckets `sends` are from


class NotCommitted(RuntimeError):
    """Nothing of the batch is kept, here or on the broker. `fatal`: this process cannot go on."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(error.str())
        self.fatal = error.fatal()


class Transactions(Protocol):
    """Port that commits batches."""

    def commit(self, batch: StepBatch) -> Mapping[int, int]:
        """Make all of the batch visible at once and return the changelog's next offset, by
        partition.

        Raises NotCommitted, also if another planner owns a partition of it by now."""


class KafkaTransactions:
    """Changelog records, outputs and offsets in one transaction of one producer."""

    def __init__(self, producer: Producer, consumer: Consumer, changelog: str) -> None:
        self._producer = producer
        self._consumer = consumer
        self._changelog = changelog
        self._positions: dict[int, int] = {}
        self._producer.init_transactions(TIMEOUT_S)

    def commit(self, batch: StepBatch) -> Mapping[int, int]:
        self._positions = {}
        try:
            self._producer.begin_transaction()
            self._produce_batch(batch)
            self._send_offsets(batch)
            _call_with_retries(self._producer.commit_transaction)
        except KafkaException as error:
            self._abort_transaction(error.args[0])
        return self._positions

    def _produce_batch(self, batch: StepBatch) -> None:
        for partition, changes in batch.changes.items():
            last = next(reversed(changes), None)  # its offset is the highest of the partition
            for key, value in changes.items():
                on_delivery = self._note_position if key == last else None
                produce_record(
                    self._producer, self._changelog, partition, key, value, NO_HEADERS, on_delivery
                )
        for send in batch.sends:
            topic, partition, key, value, signed = send
            produce_record(self._producer, topic, partition, key, value, list[Header](signed), None)

    def _note_position(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._positions[message.partition()] = message.offset() + 1

    def _send_offsets(self, batch: StepBatch) -> None:
        """Send the offsets with the group's generation: the broker refuses those of a planner
        outside the group, and with them its whole transaction."""
        offsets = [TopicPartition(*place, offset) for place, offset in batch.offsets.items()]
        group = self._consumer.consumer_group_metadata()
        if not self._consumer.memberid():
            # Who speaks for no member and no generation is not checked (measured on 4.1): that is
            # how producers older than KIP-447 commit. The batch would stand beside its owner's.
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID))
        _call_with_retries(
            lambda limit: self._producer.send_offsets_to_transaction(offsets, group, limit)
        )

    def _abort_transaction(self, error: KafkaError) -> None:
        if not error.fatal():
            try:
                _call_with_retries(self._producer.abort_transaction)
            except KafkaException as worse:
                error = worse.args[0]
        raise NotCommitted(error)


def _call_with_retries(call: Callable[[float], object]) -> None:
    """Repeat a call that the broker could not complete yet, in the same transaction."""
    while True:
        try:
            call(TIMEOUT_S)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
