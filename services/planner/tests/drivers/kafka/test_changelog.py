"""The changelog's topic is made and found, also where a broker has not heard of it yet."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from firnline_adapters.kafka import questions
from firnline_adapters.kafka_admin.replication import Replication
from firnline_domain.errors import Misconfigured
from firnline_planner.drivers.kafka import changelog


def ended(outcome: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
    return future


class Admin:
    """A broker's answers, one for each description that is asked for."""

    def __init__(self, *answers: Any) -> None:
        self._answers = [*answers]

    def create_admin(self) -> Admin:
        return self

    def create_topics(self, topics: Any, operation_timeout: float) -> Any:
        return {topics[0].topic: ended(None)}

    def describe_topics(self, topics: Any, request_timeout: float) -> Any:
        return {"state": ended(self._answers.pop(0))}


UNHEARD = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
FOUND = SimpleNamespace(partitions=[0, 1], topic_id="id")


def opened(*answers: Any) -> changelog.Changelog:
    return changelog.open_changelog(Admin(*answers), "state", 2, Replication(1, 1))  # type: ignore[arg-type]


def test_a_topic_that_its_broker_has_not_heard_of_yet_is_asked_for_again() -> None:
    assert opened(UNHEARD, UNHEARD, FOUND).topic_id == "id"


def test_one_that_stays_unknown_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog, "SPREAD_S", 0.0)
    with pytest.raises(KafkaException):
        opened(UNHEARD, UNHEARD)


def test_other_errors_are_not_waited_for() -> None:
    with pytest.raises(KafkaException):
        opened(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))


def test_another_number_of_partitions_is_refused_with_what_to_do() -> None:
    with pytest.raises(Misconfigured, match="FIRNLINE_BUCKETS is 2"):
        opened(SimpleNamespace(partitions=[0], topic_id="id"))


class Restarted:
    """A broker that was killed: a client that remembers the leader of before is refused until it
    asks anew."""

    def __init__(self, code: int, heals: bool = True, silent: int = 0) -> None:
        self._code, self._heals, self._outdated, self.asked = code, heals, True, 0
        self._silent = silent  # questions for its topics that it does not answer in time

    def list_topics(self, topic: str, timeout: float) -> None:
        self._silent -= 1
        if self._silent >= 0:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        self._outdated = not self._heals

    def list_offsets(self, wanted: Any, **_: Any) -> Any:
        self.asked += 1
        refused = KafkaException(KafkaError(self._code))
        found = refused if self._outdated else SimpleNamespace(offset=7)
        return {place: ended(found) for place in wanted}


def ends(broker: Restarted) -> dict[int, int]:
    admin: Any = broker
    return changelog.Changelog(admin, admin, "state", "id", 2).end_offsets([0, 1])


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "PAUSE_S", 0.0)


@pytest.mark.parametrize("code", sorted(questions.PASSING))
def test_ends_are_asked_for_again_of_a_leader_that_has_come_back(code: int) -> None:
    broker = Restarted(code)
    assert ends(broker) == {0: 7, 1: 7}
    assert broker.asked == 2


def test_a_client_that_cannot_learn_of_the_leader_asks_again() -> None:
    assert ends(Restarted(KafkaError.UNKNOWN_LEADER_EPOCH, silent=3)) == {0: 7, 1: 7}


def test_ends_are_not_asked_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog, "LEADER_S", 0.0)
    with pytest.raises(KafkaException, match="FENCED_LEADER_EPOCH"):
        ends(Restarted(KafkaError.FENCED_LEADER_EPOCH, heals=False))
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        ends(Restarted(KafkaError.TOPIC_AUTHORIZATION_FAILED))
