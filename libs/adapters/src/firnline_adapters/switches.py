"""The switches that people pull, read from `operator-orders` by everyone who works or commits."""

from __future__ import annotations

import threading
from contextlib import suppress

from confluent_kafka import Message
from firnline_domain.errors import PoisonousRecord
from firnline_domain.records.pauses import TOPIC, Pause, PauseState

from firnline_adapters.full_topic import FullTopicReader
from firnline_adapters.records import RecordCodec
from firnline_adapters.schema_topic import SchemaTopic
from firnline_adapters.signing import RecordSigner


class KafkaSwitches:
    """See `firnline_domain.ports.Switches`. Without a group: each process reads the whole topic.

    The topic keeps a month. That an older pause is not found is no harm: the planner has it in its
    state, orders nothing, and what it had ordered before has long passed its deadline.
    """

    def __init__(self, bootstrap: str, signer: RecordSigner | None = None) -> None:
        """Return when everything said so far is taken in. Raises RetryLater."""
        self._codec = RecordCodec(SchemaTopic(bootstrap).find)
        self._board = PauseState()
        self._lock = threading.Lock()
        self._topic = FullTopicReader(bootstrap, TOPIC, self._take, signer=signer)

    def _take(self, message: Message) -> None:
        value = message.value()
        if isinstance(value, bytes):
            with suppress(PoisonousRecord):  # the planner puts it into `dead-letters`
                self._board.fold(self._codec.decode(value), message.partition() or 0)

    def catch_up(self) -> None:
        """See `Switches.catch_up`."""
        with self._lock:
            self._topic.catch_up()

    def pause(self, table_uuid: str | None) -> Pause | None:
        """See `Switches.pause`."""
        return self._board.pause(table_uuid)

    def close(self) -> None:
        """See `Switches.close`."""
        self._topic.close()
