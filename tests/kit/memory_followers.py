"""Pauses and assignments as services read them, from topics in memory."""

from __future__ import annotations

from contextlib import suppress

from firnline_adapters.in_memory import MemoryBroker
from firnline_adapters.records.codec import RecordCodec
from firnline_adapters.records.signing import RecordSigner
from firnline_domain.errors import PoisonousRecord
from firnline_domain.records.assignments import TOPIC as ASSIGNMENTS
from firnline_domain.records.assignments import Board
from firnline_domain.records.pauses import TOPIC, Pause, PauseState
from firnline_domain.records.signing import Keyring

_OFF = RecordSigner(Keyring())


class MemoryPauseReader:
    """Twin of KafkaPauseReader."""

    def __init__(self, broker: MemoryBroker, signer: RecordSigner = _OFF) -> None:
        self._broker = broker
        self._signer = signer
        self._codec = RecordCodec()
        self._board = PauseState()
        self.catch_up()

    def catch_up(self) -> None:
        """See `PauseReader.catch_up`."""
        self._board = PauseState()
        for partition in range(self._broker.buckets):
            for offset, (key, value) in enumerate(self._broker.logs[TOPIC, partition]):
                headers = self._broker.headers.get((TOPIC, partition, offset))
                with suppress(PoisonousRecord):
                    self._signer.verify_record(TOPIC, partition, key, value, headers)
                    self._board.fold_record(self._codec.decode(value), partition)

    def pause_of(self, table_key: str | None) -> Pause | None:
        """See `PauseReader.pause_of`."""
        return self._board.pause_of(table_key)

    def close(self) -> None:
        """See `PauseReader.close`."""


class MemoryAssignments:
    """Twin of KafkaAssignments."""

    def __init__(self, broker: MemoryBroker, codec: RecordCodec | None = None) -> None:
        self.board = Board(broker.homes)
        self._broker = broker
        self._codec = codec or RecordCodec()
        self._read = [0] * broker.homes
        self.catch_up()

    def catch_up(self) -> None:
        """See `KafkaAssignments.catch_up`."""
        for partition in range(self._broker.homes):
            log = self._broker.logs[ASSIGNMENTS, partition]
            for key, value in log[self._read[partition] :]:
                if value:
                    self.board.fold_record(self._codec.decode(value))
                else:
                    self.board.forget_table(key)
            self._read[partition] = len(log)
