"""Pauses that people have ordered, read from `operator-orders` by everyone who works or commits."""

from __future__ import annotations

import threading
from typing import Any

from firnline_domain.records.pauses import TOPIC, Pause, PauseState

from firnline_adapters.kafka.connection import Kafka
from firnline_adapters.kafka.topic_reader import FullTopicReader
from firnline_adapters.records.signing import RecordSigner


class KafkaPauseReader:
    """A `PauseReader` (`firnline_domain.ports`) without a group: each process reads the whole
    topic. The topic keeps a month. That an older pause is not found is no harm: the planner has it
    in its state, orders nothing, and what it had ordered before has long passed its deadline."""

    def __init__(self, kafka: Kafka, signer: RecordSigner | None = None) -> None:
        """Return after all existing records are read. Raises RetryLater."""
        self._board = PauseState()
        self._lock = threading.Lock()
        self._topic = FullTopicReader(kafka, TOPIC, self._take_record, signer=signer)

    def _take_record(self, key: str, record: Any | None, partition: int) -> None:
        if record is not None:
            self._board.fold_record(record, partition)

    def catch_up(self) -> None:
        with self._lock:
            self._topic.catch_up()

    def pause_of(self, table_key: str | None) -> Pause | None:
        return self._board.pause_of(table_key)

    def close(self) -> None:
        self._topic.close()
