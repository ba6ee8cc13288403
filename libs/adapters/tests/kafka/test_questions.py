from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException
from firnline_adapters.kafka import questions
from firnline_adapters.kafka.questions import PASSING, ask_broker


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "PAUSE_S", 0.0)


class Coordinator:
    """Gives errors in turn, then an answer."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def ask(self) -> str:
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        return "answer"


def test_a_coordinator_on_its_way_is_asked_again() -> None:
    assert ask_broker(Coordinator(*PASSING).ask) == "answer"


def test_any_other_error_is_told_at_once() -> None:
    coordinator = Coordinator(KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.NOT_COORDINATOR)
    with pytest.raises(KafkaException):
        ask_broker(coordinator.ask)
    assert coordinator.codes == [KafkaError.NOT_COORDINATOR]


def test_the_wait_ends() -> None:
    with pytest.raises(KafkaException):
        ask_broker(Coordinator(*[KafkaError.NOT_COORDINATOR] * 5).ask, wait_s=0.0)
