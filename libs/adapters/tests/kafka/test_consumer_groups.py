from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException
from firnline_adapters.kafka import consumer_groups
from firnline_adapters.kafka.consumer_groups import PASSING, ask_coordinator


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_groups, "PAUSE_S", 0.0)


class Coordinator:
    """Gives errors in turn, then an answer."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def ask(self) -> str:
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        return "answer"


def test_a_coordinator_on_its_way_is_asked_again() -> None:
    assert ask_coordinator(Coordinator(*PASSING).ask) == "answer"


def test_any_other_error_is_told_at_once() -> None:
    coordinator = Coordinator(KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.NOT_COORDINATOR)
    with pytest.raises(KafkaException):
        ask_coordinator(coordinator.ask)
    assert coordinator.codes == [KafkaError.NOT_COORDINATOR]


def test_the_wait_ends() -> None:
    with pytest.raises(KafkaException):
        ask_coordinator(Coordinator(*[KafkaError.NOT_COORDINATOR] * 5).ask, wait_s=0.0)
