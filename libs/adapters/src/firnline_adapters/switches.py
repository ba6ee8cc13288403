"""The switches that people pull, read from `operator-orders` by everyone who works or commits."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import suppress

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    TopicPartition,
)
from firnline_domain.errors import PoisonousRecord, RetryLater
from firnline_domain.holds import Pause
from firnline_domain.switches import TOPIC, Switchboard

from firnline_adapters.records import RecordCodec
from firnline_adapters.schema_topic import SchemaTopic

READ_S = 10.0  # a month of what people order is some thousand records
AT_ONCE = 500


class KafkaSwitches:
    """See `firnline_domain.ports.Switches`. Without a group: each process reads the whole topic.

    The topic keeps a month. That an older pause is not found is no harm: the planner has it in its
    state, orders nothing, and what it had ordered before has long passed its deadline.
    """

    def __init__(self, bootstrap: str) -> None:
        """Return when everything said so far is taken in. Raises RetryLater."""
        self._codec = RecordCodec(SchemaTopic(bootstrap).find)
        self._board = Switchboard()
        self._lock = threading.Lock()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"switches-{uuid.uuid4()}",
                "enable.auto.commit": False,
            }
        )
        try:
            self._read_until(self._ends())
        except KafkaException as error:
            raise RetryLater(f"{TOPIC} cannot be read: {error}") from error

    def _ends(self) -> dict[int, int]:
        """Begin with the first record of each partition that has any; where each of them ends."""
        found = self._consumer.list_topics(TOPIC, timeout=READ_S).topics[TOPIC].partitions
        if not found:
            raise RetryLater(f"the broker has no topic {TOPIC}: it is made by `firnline up`")
        places = [TopicPartition(TOPIC, one, OFFSET_BEGINNING) for one in found]
        self._consumer.assign(places)
        marks = [self._consumer.get_watermark_offsets(one, timeout=READ_S) for one in places]
        return {
            place.partition: end
            for place, (start, end) in zip(places, marks, strict=True)
            if start < end
        }

    def _read_until(self, ends: dict[int, int]) -> None:
        deadline = time.monotonic() + READ_S
        while ends and time.monotonic() < deadline:
            for message in self._records(0.1):
                self._take(message)
                partition = message.partition() or 0
                if (message.offset() or 0) + 1 >= ends.get(partition, 0):
                    ends.pop(partition, None)
        if ends:
            raise RetryLater(f"{TOPIC} could not be read within {READ_S:.0f} s")

    def _records(self, timeout_s: float) -> list[Message]:
        """Without the client's own errors, which it recovers from."""
        found = self._consumer.consume(AT_ONCE, timeout_s)
        return [message for message in found if message.error() is None]

    def _take(self, message: Message) -> None:
        value = message.value()
        if isinstance(value, bytes):
            with suppress(PoisonousRecord):  # the planner puts it into `dead-letters`
                self._board.fold(self._codec.decode(value), message.partition() or 0)

    def catch_up(self) -> None:
        """See `Switches.catch_up`."""
        with self._lock:
            for message in self._records(0):
                self._take(message)

    def pause(self, table_uuid: str | None) -> Pause | None:
        """See `Switches.pause`."""
        return self._board.pause(table_uuid)

    def close(self) -> None:
        """See `Switches.close`."""
        self._consumer.close()
