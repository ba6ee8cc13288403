"""Ask a broker one question, while leaders and coordinators may be moving from broker to broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

# Answers of a broker that something has just come to or left, or that has too much to do.
# librdkafka's readers and writers wait by themselves; single questions, as those of the admin
# client, get the error.
PASSING: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._WAIT_COORD,
    }
)
PAUSE_S = 0.3
Answer = TypeVar("Answer")


def ask_broker(ask: Callable[[], Answer], wait_s: float = 15.0) -> Answer:
    """Return what `ask` returns; asked again while the error is one that passes. Raises
    KafkaException."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in PASSING or time.monotonic() > deadline:
                raise
        time.sleep(PAUSE_S)
