"""In-memory twins of the ports, held to the same contract tests as the real ones."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any

from firnline_domain.errors import PoisonousRecord
from firnline_domain.identity import bucket_of, takes_over
from firnline_domain.ports import Delivery, Place
from firnline_domain.records.assignments import ROUTED, Board
from firnline_domain.records.events import DeadLettered
from firnline_domain.records.signing import Keyring

from firnline_adapters.consumer.offset_tracker import OffsetTracker
from firnline_adapters.kafka.dead_letters import send_to_dead_letters
from firnline_adapters.kafka.poison_records import MAX_DEATHS, MemoryMarks, StartMarks, died_at
from firnline_adapters.observability.traces import current_trace, keep_trace, trace_of
from firnline_adapters.records.codec import RecordCodec, check_kind
from firnline_adapters.records.record_sizes import (
    Unsendable,
    check_size,
    dead_letter_of_unsent,
    encode_to_fit,
)
from firnline_adapters.records.signing import RecordSigner

Header = tuple[str, bytes]
_OFF = RecordSigner(Keyring())


class MemoryBroker:
    """Topics as lists of (key, bytes) per partition, and committed offsets per group. `buckets` may
    be raised."""

    def __init__(self, homes: int = 8) -> None:
        self.homes = self.buckets = homes
        self.logs: dict[tuple[str, int], list[tuple[str, bytes]]] = defaultdict(list)
        self.headers: dict[tuple[str, int, int], list[Header]] = {}  # by topic, partition, offset
        self.committed: dict[tuple[str, str, int], int] = {}
        self.notes: dict[tuple[str, str, int], str] = {}  # beside those

    def append(
        self, topic: str, partition: int, key: str, value: bytes, headers: list[Header]
    ) -> None:
        """Write a record."""
        log = self.logs[topic, partition]
        if headers:
            self.headers[topic, partition, len(log)] = headers
        log.append((key, value))

    def records(self, topic: str) -> list[Any]:
        """Return all records of a topic, decoded, in partition order."""
        codec = RecordCodec()
        return [
            codec.decode(value)
            for (name, _), log in sorted(self.logs.items())
            if name == topic
            for _, value in log
        ]


class MemoryPublisher:
    """Twin of KafkaPublisher."""

    def __init__(
        self,
        broker: MemoryBroker,
        board: Board | None = None,
        signer: RecordSigner = _OFF,
        service: str = "memory",
    ) -> None:
        self._broker = broker
        self._service = service
        self._board = board
        self._signer = signer

    def publish(self, topic: str, key: str, record: Any) -> bool:
        return self._put_record(topic, key, record, self._partition_of(topic, key))

    def publish_encoded(self, topic: str, key: str, value: bytes) -> None:
        self._append_bytes(topic, self._partition_of(topic, key), key, value, current_trace())

    def _partition_of(self, topic: str, key: str) -> int:
        if self._board and topic in ROUTED:
            return self._board.bucket_of_table(key)
        return bucket_of(key, self._broker.homes)

    def _put_record(self, topic: str, key: str, record: Any, partition: int) -> bool:
        """Append a record, or a dead letter about it; return False then."""
        try:
            value = encode_to_fit(topic, key, record)
        except Unsendable as error:
            send_to_dead_letters(
                self, dead_letter_of_unsent(topic, partition, key, error, self._service, 0)
            )
            return False
        self._append_bytes(topic, partition, key, value, trace_of(record))
        return True

    def _append_bytes(self, topic: str, partition: int, key: str, value: bytes, trace: str) -> None:
        headers = self._signer.sign_headers(topic, partition, key.encode(), value, trace)
        self._broker.append(topic, partition, key, value, headers)

    def broadcast(self, topic: str, key: str, record: Any) -> bool:
        sent = [self._put_record(topic, key, record, one) for one in range(self._broker.homes)]
        return all(sent)

    def flush(self, timeout_s: float = 30.0) -> bool:
        """Return True: every published record is in the log already."""
        return True


class MemoryInbox:
    """Twin of KafkaInbox: one member that owns all partitions of its topics."""

    def __init__(
        self,
        broker: MemoryBroker,
        group: str,
        topics: Sequence[str],
        signer: RecordSigner = _OFF,
        starts: StartMarks | None = None,
    ) -> None:
        self._broker = broker
        self._starts = starts or StartMarks(MemoryMarks())
        places = [(topic, one) for topic in topics for one in range(broker.buckets)]
        self._starts.take_over(places)
        self._signer = signer
        self._group = group
        self._topics = list(topics)
        self._codec = RecordCodec()
        self._marks: dict[Place, OffsetTracker] = {}
        self._moved: set[Place] = set()

    def poll(self, timeout_s: float, full: Collection[Place] = ()) -> Sequence[Delivery]:
        """Return the next records of all topics, except of partitions in `full`. Never waits."""
        found: list[Delivery] = []
        for topic in self._topics:
            for partition in range(self._broker.buckets):
                if (topic, partition) not in full:
                    found.extend(self._read_partition(topic, partition))
        if not found:
            self._starts.relax_if_idle()
        return found

    def take_moved(self) -> Collection[Place]:
        moved, self._moved = self._moved, set()
        return moved

    def owns(self, topic: str, partition: int) -> bool:
        return topic in self._topics

    def lose_partition(self, topic: str, partition: int) -> None:
        """Lose a partition as in a rebalance that gives it back at once."""
        self._marks.pop((topic, partition), None)
        self._moved.add((topic, partition))

    def _read_partition(self, topic: str, partition: int) -> list[Delivery]:
        log = self._broker.logs[topic, partition]
        start = self._broker.committed.get((self._group, topic, partition), 0)
        mark = self._marks.setdefault((topic, partition), OffsetTracker(start))
        found = []
        for offset in range(mark.next_to_read, len(log)):
            if self._starts.is_waiting:
                break
            key, value = log[offset]
            mark.mark_read(offset)
            deaths = self._starts.begin_record((topic, partition), offset)
            try:
                if deaths > MAX_DEATHS and (error := died_at(deaths)):
                    raise error
                check_size(topic, value)
                headers = self._broker.headers.get((topic, partition, offset))
                self._signer.verify_record(topic, partition, key, value, headers)
                record = check_kind(topic, self._codec.decode(value))
                keep_trace(record, headers)
                found.append(Delivery(topic, partition, offset, key, record, deaths))
            except PoisonousRecord as poison:
                letter = DeadLettered(
                    topic,
                    partition,
                    offset,
                    key.encode(),
                    value,
                    poison.reason,
                    str(poison),
                    self._group,
                    0,
                )
                send_to_dead_letters(MemoryPublisher(self._broker), letter)
                mark.mark_done(offset)
                self._starts.end_record((topic, partition), offset)
        return found

    def mark_done(self, delivery: Delivery) -> None:
        if mark := self._marks.get((delivery.topic, delivery.partition)):
            mark.mark_done(delivery.offset)
            self._starts.end_record((delivery.topic, delivery.partition), delivery.offset)

    def commit(self) -> None:
        for (topic, partition), mark in self._marks.items():
            self._broker.committed[self._group, topic, partition] = mark.committable

    def write_note(self, text: str) -> None:
        for topic in self._topics:
            for partition in range(self._broker.buckets):
                self._broker.notes[self._group, topic, partition] = text

    def close(self, died: bool = False) -> None:
        if not died:
            self.commit()
            self._starts.give_back(
                [(topic, one) for topic in self._topics for one in range(self._broker.buckets)]
            )
        self._marks.clear()


class MemoryLeases:
    """Twin of RedisLeases; `now` in seconds is injectable."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._held: dict[str, tuple[str, float, str]] = {}

    def _live_lease(self, name: str) -> tuple[str, float, str] | None:
        held = self._held.get(name)
        return held if held and held[1] > self._now() else None

    def acquire(self, name: str, owner: str, ttl_s: float, note: str = "") -> bool:
        held = self._live_lease(name)
        if held and held[0] != owner and not takes_over(owner, held[0]):
            return False
        self._held[name] = (owner, self._now() + ttl_s, note)
        return True

    def renew(self, name: str, owner: str, ttl_s: float, note: str | None = None) -> bool:
        held = self._live_lease(name)
        if not held or held[0] != owner:
            return False
        self._held[name] = (owner, self._now() + ttl_s, held[2] if note is None else note)
        return True

    def release(self, name: str, owner: str) -> None:
        held = self._live_lease(name)
        if held and held[0] == owner:
            del self._held[name]

    def read_notes(self, prefix: str) -> dict[str, str]:
        found = {name: self._live_lease(name) for name in self._held if name.startswith(prefix)}
        return {name: held[2] for name, held in found.items() if held}

    def read_live(self, names: Sequence[str]) -> set[str]:
        return {name for name in names if self._live_lease(name)}
