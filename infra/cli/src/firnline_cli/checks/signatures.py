"""Checks whether the fleet's newest records verify with our signing keys."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from firnline_cli.checks.findings import Check, CheckAnswer, Failed, NotTried, remark
from firnline_cli.checks.kafka import KafkaChecks
from firnline_cli.checks.settings import Given

READ_S = 8.0
BEHIND = 4  # records: the last offsets of a partition may be ends of transactions
KEYS = (
    "give this service the deployment's FIRNLINE_SIGNING_KEYS: the first key signs, all verify "
    "(docs/deploy/secure-kafka-and-redis.md)"
)


@dataclass(frozen=True)
class Newest:
    """A record: the fleet's last one that is signed, or one of them."""

    topic: str
    partition: int
    key: Any
    value: Any
    headers: Any
    at_ms: int


class Signatures:
    """The newest records of the topics that are signed."""

    def __init__(self, given: Given, kafka: KafkaChecks) -> None:
        self._given = given
        self._kafka = kafka
        self._reading = threading.Lock()
        self._newest: Newest | None = None

    def checks(self) -> Iterator[Check]:
        """Yield the check of signatures. The clock's check also needs the newest record."""
        tried = "verify the newest record"
        yield Check("kafka.signatures", tried, self.verify, ("kafka.reach",))

    def verify(self) -> CheckAnswer | str:
        """Verify the newest record's signature by our keys, of any age."""
        from firnline_adapters.records.signing import signer_of
        from firnline_domain.errors import Misconfigured
        from firnline_domain.records.signing import SignatureRefused

        try:
            signer = signer_of(self._given.told).without_expiry()
        except Misconfigured as error:
            raise Failed(error, KEYS) from None
        if not signer.keys.is_signing:
            return remark("FIRNLINE_SIGNING_KEYS=off: every record is believed", KEYS)
        found = self.newest_record()
        try:
            signer.verify_record(
                found.topic, found.partition, found.key, found.value, found.headers
            )
        except SignatureRefused as refused:
            raise Failed(f"{found.topic}, partition {found.partition}: {refused}", KEYS) from None
        return f"of {found.topic}, {_age_text(found.at_ms)} old"

    def newest_record(self) -> Newest:
        """Return the newest signed record. Raises NotTried if the deployment has not sent one yet,
        or none that we may read."""
        with self._reading:
            if self._newest is None:
                self._newest = max(self._last_records(), key=lambda one: one.at_ms, default=None)
        if self._newest is None:
            raise NotTried("there is no signed record that we may read; ask again after a commit")
        return self._newest

    def _last_records(self) -> Iterator[Newest]:
        """Yield the last records of each partition of the signed topics that we may read."""
        from confluent_kafka import Consumer, KafkaError, TopicPartition
        from confluent_kafka.admin import AclOperation
        from firnline_adapters.kafka.connection import reader_group
        from firnline_adapters.kafka.questions import ask_broker
        from firnline_adapters.records.signing import unsigned_topics

        own = {
            "group.id": reader_group(),
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        consumer = Consumer(self._kafka.config(**own))
        try:
            places = []
            for name, one in self._kafka.visible_topics().items():
                allowed = one.authorized_operations
                if name in unsigned_topics() or (allowed and AclOperation.READ not in allowed):
                    continue
                for partition in one.partitions:
                    place = TopicPartition(name, partition.id)
                    ask = partial(consumer.get_watermark_offsets, place, timeout=READ_S)
                    low, high = ask_broker(ask, READ_S)
                    if low < high:
                        place.offset = max(low, high - BEHIND)
                        places.append(place)
            consumer.assign(places)
            unread, deadline = len(places), time.monotonic() + READ_S
            while unread and time.monotonic() < deadline:
                for message in consumer.consume(500, 0.2):
                    error = message.error()
                    if error is None:
                        yield _to_newest(message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        unread -= 1
        finally:
            consumer.close()


def _to_newest(message: Any) -> Newest:
    from firnline_adapters.kafka.poison_records import read_headers

    return Newest(
        message.topic(),
        message.partition(),
        message.key(),
        message.value(),
        read_headers(message),
        message.timestamp()[1],
    )


def _age_text(at_ms: int) -> str:
    seconds = max(0.0, time.time() - at_ms / 1000)
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 3600:.1f} h"
