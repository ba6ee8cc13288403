"""Kafka through confluent-kafka: every producer sets the partition itself (partitioner hazard,
H17)."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from firnline_domain.errors import PoisonousRecord, RetryLater
from firnline_domain.identity import bucket_of
from firnline_domain.ports import Delivery, Place
from firnline_domain.records.assignments import ROUTED
from firnline_domain.records.events import DeadLettered

from firnline_adapters import clock
from firnline_adapters.consumer.offset_tracker import OffsetTracker
from firnline_adapters.kafka.assignments import TablePartitions
from firnline_adapters.kafka.connection import Kafka, client_config
from firnline_adapters.kafka.consumer_lag import ConsumerLag, Done
from firnline_adapters.kafka.dead_letters import DEAD_LETTERS, send_to_dead_letters
from firnline_adapters.kafka.poison_records import (
    MAX_DEATHS,
    MemoryMarks,
    StartMarks,
    died_at,
    read_headers,
)
from firnline_adapters.kafka.schema_topic import SchemaTopic
from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_adapters.observability.traces import current_trace, keep_trace, trace_in, trace_of
from firnline_adapters.records.codec import RecordCodec, check_kind
from firnline_adapters.records.record_sizes import (
    COMPRESSION,
    EXPANSION,
    TOO_LARGE,
    Unsendable,
    check_size,
    dead_letter_of_unsent,
    encode_to_fit,
)
from firnline_adapters.records.signing import RecordSigner, signer_here

Header = tuple[str, str | bytes | None]
MAX_MESSAGE_BYTES = 16 * 1024 * 1024  # the most that any topic's file allows, compressed
# The client's own limit, before compression; what each topic takes is judged before (`fitting`).
MAX_PRODUCED_BYTES = EXPANSION * MAX_MESSAGE_BYTES
# A killed member's partitions wait this long: less than the next one needs to start, so that it
# never waits. The broker's own least, group.min.session.timeout.ms.
SESSION_MS = 6_000
LIBRDKAFKA = logging.getLogger("librdkafka")  # its lines, in the form of all others
METADATA_S = 10.0  # for the broker to say which partitions there are
MAX_POLL_MS = 300_000  # poll loops never block, so this is far away


class KafkaPublisher:
    """A `Publisher` (`firnline_domain.ports`) for Kafka. A worker's threads share one: each learns
    the outcome of its own records."""

    def __init__(
        self,
        kafka: Kafka,
        homes: int,
        client_id: str,
        places: TablePartitions | None = None,
        signer: RecordSigner | None = None,
    ) -> None:
        """Create the producer; it connects in the background. `places`: partitions of tables that
        are not in the one of their hash. `signer`: None = the one that the environment
        configures."""
        self.signer = signer or signer_here()
        self._homes = homes
        self._places = places
        self._service = client_id
        self._failed: dict[int, list[KafkaException]] = {}  # by the thread that published
        self._refused: dict[int, list[DeadLettered]] = {}  # by the broker, as too large
        own = {
            "client.id": client_id,
            "enable.idempotence": True,  # retries neither reorder nor duplicate
            "linger.ms": 5,
            "message.max.bytes": MAX_PRODUCED_BYTES,
            **COMPRESSION,
            "delivery.timeout.ms": 120_000,
        }
        self._producer = Producer(client_config(kafka, own), logger=LIBRDKAFKA)

    def publish(self, topic: str, key: str, record: Any) -> bool:
        return self._put_record(topic, key, record, self._partition_of(topic, key))

    def publish_encoded(self, topic: str, key: str, value: bytes) -> None:
        self._send_bytes(topic, key, value, self._partition_of(topic, key), current_trace())

    def _put_record(self, topic: str, key: str, record: Any, partition: int) -> bool:
        try:
            value = encode_to_fit(topic, key, record)
        except Unsendable as error:
            send_to_dead_letters(
                self,
                dead_letter_of_unsent(topic, partition, key, error, self._service, clock.now_ms()),
            )
            return False
        self._send_bytes(topic, key, value, partition, trace_of(record))
        return True

    def _partition_of(self, topic: str, key: str) -> int:
        if self._places is not None and topic in ROUTED:
            return self._places.bucket_of_table(key)
        return bucket_of(key, self._homes)

    def broadcast(self, topic: str, key: str, record: Any) -> bool:
        sent = [self._put_record(topic, key, record, one) for one in range(self._homes)]
        return all(sent)

    def _send_bytes(self, topic: str, key: str, value: bytes, partition: int, trace: str) -> None:
        on_delivery = partial(self._on_delivery, threading.get_ident())
        name = key.encode()
        headers = list[Header](self.signer.sign_headers(topic, partition, name, value, trace))
        produce_record(self._producer, topic, partition, name, value, headers, on_delivery)
        self._producer.poll(0)
        metrics.count("records_written", topic=topic)

    def _on_delivery(self, sender: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            return
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE and message.topic() != DEAD_LETTERS:
            letter = dead_letter_of_message(message, TOO_LARGE, error.str(), self._service)
            self._refused.setdefault(sender, []).append(letter)
            return
        self._failed.setdefault(sender, []).append(KafkaException(error, message.topic()))

    def flush(self, timeout_s: float = 30.0) -> bool:
        """Flush as `Publisher` does. A record that the broker refuses as too large, because its
        topic has a lower limit than the topic's file, is sent to the dead letters."""
        left = self._producer.flush(timeout_s)
        refused = self._refused.pop(threading.get_ident(), [])
        for letter in refused:
            send_to_dead_letters(self, letter)
        if refused:
            left = self._producer.flush(timeout_s)
        failed = self._failed.pop(threading.get_ident(), [])
        if left or failed:
            raise RetryLater(f"{left} records not yet on the broker; {failed[:3]}")
        return not refused


def produce_record(
    producer: Producer,
    topic: str,
    partition: int,
    key: bytes,
    value: bytes | None,
    headers: list[Header],
    on_delivery: Callable[[KafkaError | None, Message], None] | None,
) -> None:
    """Queue a record as soon as there is room for it, also for a bucket that was added after the
    client's last metadata. Raises KafkaException."""
    while True:
        try:
            producer.produce(
                topic, value, key, partition=partition, on_delivery=on_delivery, headers=headers
            )
            return
        except BufferError:  # the local queue is full: let it drain
            producer.poll(0.5)
        except KafkaException as error:
            _learn_partition(producer, error, topic, partition)


def _learn_partition(producer: Producer, error: KafkaException, topic: str, partition: int) -> None:
    """Return if a `produce_record` failed because the client had no metadata of an added bucket.
    Raises the error itself if it has another cause, or KafkaException if the broker does not
    answer."""
    if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
        raise error
    if partition not in producer.list_topics(topic, timeout=METADATA_S).topics[topic].partitions:
        raise error


class KafkaInbox:
    """An `Inbox` (`firnline_domain.ports`) for Kafka."""

    def __init__(
        self,
        kafka: Kafka,
        group: str,
        topics: Sequence[str],
        publisher: KafkaPublisher,
        log: Log,
        signer: RecordSigner | None = None,
        starts: StartMarks | None = None,
        lag_group: str | None = None,
    ) -> None:
        """Subscribe to the topics. `signer`: None = the publisher's. `starts`: None = a record that
        ends the process is not detected here. `lag_group`: name of the group in metrics, if its own
        name is one of many."""
        self._publisher = publisher
        self._signer = signer or publisher.signer
        self._log = log
        self._group = group
        self._codec = RecordCodec(SchemaTopic(kafka).find_schema)
        self._starts = starts or StartMarks(MemoryMarks())
        self._died = False
        self._owned: set[Place] = set()
        self._moved: set[Place] = set()
        self._full: set[Place] = set()  # and so paused
        self._marks: dict[Place, OffsetTracker] = {}
        self._committed: dict[Place, int] = {}
        self._note = ""
        self._noted: set[Place] = set()  # with that note
        own = {
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 1_500,
            "max.poll.interval.ms": MAX_POLL_MS,
            "fetch.message.max.bytes": MAX_MESSAGE_BYTES,
            "topic.metadata.refresh.interval.ms": 10_000,
        }
        self._consumer = Consumer(client_config(kafka, own), logger=LIBRDKAFKA)
        self._consumer.subscribe(
            list(topics),
            on_assign=self._on_assigned,
            on_revoke=self._on_revoked,
            on_lost=self._on_lost,
        )
        # A process that ends on an error closes nothing. librdkafka then waits for ever, on a whole
        # core, for somebody to take the partitions that its group has just given it.
        leaving = ExitStack()
        leaving.callback(self._consumer.close)
        self._lag = ConsumerLag(self._consumer, lag_group or group)
        leaving.enter_context(metrics.measure_at_scrape("consumer_lag_records", self._lag.measure))
        self._leave_group = weakref.finalize(self, leaving.close)

    def poll(self, timeout_s: float, full: Collection[Place] = ()) -> Sequence[Delivery]:
        waits = self._starts.is_waiting
        self._pause_full(set(self._owned) if waits else self._owned & set(full))
        found = []
        # The first partitions come within this call, and may have to be begun carefully.
        alone = self._starts.is_careful or not self._owned
        messages = self._consumer.consume(1 if alone else 500, timeout_s)
        for message in messages:
            if error := message.error():
                self._log.warning("poll_error", why=error.str())
            elif (delivery := self._decode_message(message)) is not None:
                found.append(delivery)
        if not messages:
            self._starts.relax_if_idle()
        self._lag.update(self._committable)
        return found

    def _committable(self) -> Done:
        marks = {place: self._marks.get(place) for place in self._owned}
        return {place: None if mark is None else mark.committable for place, mark in marks.items()}

    def _pause_full(self, full: set[Place]) -> None:
        if begin := [TopicPartition(*place) for place in full - self._full]:
            self._consumer.pause(begin)
        if end := [TopicPartition(*place) for place in self._full - full]:
            self._consumer.resume(end)
        self._full = full

    def take_moved(self) -> Collection[Place]:
        moved, self._moved = self._moved, set()
        return moved

    def owns(self, topic: str, partition: int) -> bool:
        return (topic, partition) in self._owned

    def _decode_message(self, message: Message) -> Delivery | None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        if (topic, partition) not in self._owned:
            return None  # fetched before a rebalance took the partition: its new owner reads it
        mark = self._marks.setdefault((topic, partition), OffsetTracker(offset))
        mark.mark_read(offset)
        metrics.count("records_read", topic=topic)
        key = message.key()
        deaths = self._starts.begin_record((topic, partition), offset)
        try:
            if deaths > MAX_DEATHS and (error := died_at(deaths)):
                raise error  # it was to go aside before, and ended that process, too
            check_size(topic, message.value())
            headers = read_headers(message)
            self._signer.verify_record(topic, partition, key, message.value(), headers)
            record = check_kind(topic, self._codec.decode(message.value()))
            keep_trace(record, headers)
        except Exception as error:  # of this record: the process would end at it in each life
            self.reject_raw(message, error)
            mark.mark_done(offset)
            self._starts.end_record((topic, partition), offset)
            return None
        text = key.decode(errors="replace") if isinstance(key, bytes) else key
        return Delivery(topic, partition, offset, text, record, deaths)

    def reject_raw(self, message: Message, error: Exception) -> None:
        """Put an undecodable message on `dead-letters`; it is there before its offset commits."""
        reason = error.reason if isinstance(error, PoisonousRecord) else "bad_body"
        letter = dead_letter_of_message(message, reason, str(error), self._group)
        trace = trace_in(read_headers(message))
        self._log.warning(
            "dead_letter", topic=letter.topic, offset=letter.offset, why=error, trace=trace
        )
        send_to_dead_letters(self._publisher, letter)

    def mark_done(self, delivery: Delivery) -> None:
        """Mark a delivery as done; one of a partition that has moved on is ignored."""
        if mark := self._marks.get((delivery.topic, delivery.partition)):
            mark.mark_done(delivery.offset)
            self._starts.end_record((delivery.topic, delivery.partition), delivery.offset)

    def commit(self) -> None:
        moved = {
            place: mark.committable
            for place, mark in self._marks.items()
            if mark.committable != self._committed.get(place)
        }
        if not moved:
            return
        self._publisher.flush()  # dead letters first
        if self._commit_offsets(moved):
            self._committed.update(moved)

    def _commit_offsets(self, offsets: Mapping[Place, int]) -> bool:
        noted = [TopicPartition(*place, low, self._note) for place, low in offsets.items()]
        try:
            self._consumer.commit(offsets=noted, asynchronous=False)
        except KafkaException as error:
            # Lost to a rebalance: the new owner will read them again; at-least-once holds.
            self._log.warning("commit_refused", why=error)
            return False
        self._noted |= offsets.keys()
        return True

    def write_note(self, text: str) -> None:
        if text != self._note:
            self._note, self._noted = text, set()
        if left := self._owned - self._noted:
            try:
                self._commit_offsets({place: self._group_position(place) for place in left})
            except KafkaException as error:  # no broker: it is noted by a later round
                self._log.warning("commit_refused", why=error)

    def _group_position(self, place: Place) -> int:
        """Return where the group stands: what it has committed, or the first record."""
        if mark := self._marks.get(place):
            return mark.committable
        [found] = self._consumer.committed([TopicPartition(*place)], timeout=METADATA_S)
        if found.offset >= 0:
            return int(found.offset)
        return int(self._consumer.get_watermark_offsets(found, timeout=METADATA_S)[0])

    def close(self, died: bool = False) -> None:
        self._died = died
        try:
            if not died:
                self.commit()
                self._starts.give_back(self._owned)
        finally:  # where the broker is away, too: see `bootstrap` of the committer
            self._leave_group()

    def _on_assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._owned.update((new.topic, new.partition) for new in partitions)
        self._starts.take_over([(new.topic, new.partition) for new in partitions])
        consumer.incremental_assign(partitions)
        consumer.resume(partitions)  # librdkafka keeps the pause of one that it had before

    def _on_revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if not self._died:
            self.commit()
            self._starts.give_back([(gone.topic, gone.partition) for gone in partitions])
        self._on_lost(consumer, partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for gone in partitions:
            place = (gone.topic, gone.partition)
            self._owned.discard(place)
            self._full.discard(place)
            self._moved.add(place)
            self._marks.pop(place, None)
            self._committed.pop(place, None)
            self._noted.discard(place)
        self._starts.forget_partitions([(gone.topic, gone.partition) for gone in partitions])
        consumer.incremental_unassign(partitions)


def dead_letter_of_message(message: Message, reason: str, why: str, service: str) -> DeadLettered:
    """Return a letter about a record in the bytes that it has on the wire; its offset is -1 if the
    broker has not accepted it."""
    key, value, offset = message.key(), message.value(), message.offset()
    return DeadLettered(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=-1 if offset is None else offset,
        key=key.encode() if isinstance(key, str) else key,
        value=value.encode() if isinstance(value, str) else value,
        reason=reason,
        message=why,
        service=service,
        at_ms=clock.now_ms(),
    )
