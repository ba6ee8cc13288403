"""The switches that people pull, read from `operator-orders` by everyone who works or commits."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import suppress

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition
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
        self._read_all()

    def _read_all(self) -> None:
        topics = self._consumer.list_topics(TOPIC, timeout=READ_S).topics
        places = [TopicPartition(TOPIC, one, OFFSET_BEGINNING) for one in topics[TOPIC].partitions]
        self._consumer.assign(places)
        ends = {
            one.partition: self._consumer.get_watermark_offsets(one, timeout=READ_S)
            for one in places
        }
        left = {partition for partition, (start, end) in ends.items() if start < end}
        deadline = time.monotonic() + READ_S
        while left and time.monotonic() < deadline:
            for message in self._consumer.consume(AT_ONCE, 0.1):
                partition = self._take(message)
                if (message.offset() or 0) + 1 >= ends.get(partition, (0, 0))[1]:
                    left.discard(partition)
        if left:
            raise RetryLater(f"{TOPIC} could not be read within {READ_S:.0f} s")

    def _take(self, message: Message) -> int:
        partition, value = message.partition() or 0, message.value()
        if message.error() is None and isinstance(value, bytes):
            with suppress(PoisonousRecord):  # the planner puts it into `dead-letters`
                self._board.fold(self._codec.decode(value), partition)
        return partition

    def catch_up(self) -> None:
        """See `Switches.catch_up`."""
        with self._lock:
            for message in self._consumer.consume(AT_ONCE, 0):
                self._take(message)

    def pause(self, table_uuid: str | None) -> Pause | None:
        """See `Switches.pause`."""
        return self._board.pause(table_uuid)

    def close(self) -> None:
        """See `Switches.close`."""
        self._consumer.close()
