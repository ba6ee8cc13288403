"""Assign tables to partitions, as `bucket-assignments` says; read by all who write or count by
it."""

from __future__ import annotations

import threading
from typing import Any, Protocol

from firnline_domain.errors import RetryLater
from firnline_domain.records.assignments import TOPIC, Board

from firnline_adapters.kafka.connection import Kafka
from firnline_adapters.kafka.topic_reader import FullTopicReader
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.signing import RecordSigner

LOOK_S = 0.2
AGAIN_S = 5.0  # where the broker does not answer


class TablePartitions(Protocol):
    """Partition in which a table's records are written; `Board` implements it."""

    def bucket_of_table(self, table_key: str) -> int:
        """Return the table's partition. Wrong for a while after a table has moved, which does no
        harm."""


class KafkaAssignments:
    """Folds the topic into a board, when told to."""

    def __init__(self, kafka: Kafka, board: Board, signer: RecordSigner | None = None) -> None:
        """Return after all existing records are read. Raises RetryLater."""
        self.board = board
        self._topic = FullTopicReader(kafka, TOPIC, self._take_record, signer)

    def _take_record(self, key: str, record: Any | None, _: int) -> None:
        if record is None:
            self.board.forget_table(key)
        else:
            self.board.fold_record(record)

    def catch_up(self) -> None:
        """Read the records that are on the topic by now. Does not wait for more."""
        self._topic.catch_up()

    def close(self) -> None:
        """Leave the broker."""
        self._topic.close()


class FollowedAssignments:
    """`Places`, read by a thread of its own: a writer does not wait for the topic, nor for
    a broker that is away. A table that is not known yet is in its hash bucket."""

    def __init__(
        self, kafka: Kafka, homes: int, log: Log, signer: RecordSigner | None = None
    ) -> None:
        self._kafka = kafka
        self._signer = signer
        self._board = Board(homes)
        self._log = log
        self._ended = threading.Event()
        threading.Thread(target=self._follow_topic, name="assignments", daemon=True).start()

    def bucket_of_table(self, table_key: str) -> int:
        return self._board.bucket_of_table(table_key)

    def close(self) -> None:
        """Stop reading."""
        self._ended.set()

    def _follow_topic(self) -> None:
        while not self._ended.is_set():
            try:
                self._read_on(KafkaAssignments(self._kafka, self._board, self._signer))
            except RetryLater as why:
                self._log.warning("assignments_not_read", why=why)
                self._ended.wait(AGAIN_S)

    def _read_on(self, assignments: KafkaAssignments) -> None:
        try:
            while not self._ended.wait(LOOK_S):
                assignments.catch_up()
        finally:
            assignments.close()
