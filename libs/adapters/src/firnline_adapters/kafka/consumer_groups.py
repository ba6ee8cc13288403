"""Ask a consumer group's coordinator, while it may be moving from broker to broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

# Answers of a coordinator that has just come to a broker, or just left it. librdkafka's consumers
# wait by themselves; single questions, as those of the admin client, get the error.
PASSING: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)
PAUSE_S = 0.3
Answer = TypeVar("Answer")


def ask_coordinator(ask: Callable[[], Answer], wait_s: float = 15.0) -> Answer:
    """Return what `ask` returns; asked again while the coordinator is on its way. Raises
    KafkaException."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in PASSING or time.monotonic() > deadline:
                raise
        time.sleep(PAUSE_S)
