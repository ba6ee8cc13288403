"""A Kafka that starts while a service does."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from firnline_adapters.kafka.startup import KafkaProbe, Unreached, require_kafka
from firnline_adapters.kafka_admin.replication import replication_here
from firnline_adapters.observability.logs import Log


def answer(error: int | None) -> Future[Any]:
    found = Future[Any]()
    if error is None:
        found.set_result(SimpleNamespace(authorized_operations=None))
    else:
        found.set_exception(KafkaException(KafkaError(error)))
    return found


def describe(probe: KafkaProbe, errors: list[int | None]) -> None:
    """Let the next questions about topics be answered with these errors."""
    admin = SimpleNamespace(
        list_topics=lambda timeout: None,
        describe_topics=lambda topics, **_: {"ticks": answer(errors.pop(0))},
    )
    probe._admin = admin  # type: ignore[assignment]


def test_a_broker_that_describes_no_topic_in_time_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors: list[int | None] = [KafkaError._TIMED_OUT, None]
    made = KafkaProbe.__init__

    def make(probe: KafkaProbe, kafka: str) -> None:
        made(probe, kafka)
        describe(probe, errors)

    monkeypatch.setattr(KafkaProbe, "__init__", make)
    monkeypatch.setattr(
        "firnline_adapters.kafka.startup.topic_operations", lambda service: {"ticks": set()}
    )
    waits = list[float]()
    require_kafka("planner", "127.0.0.1:1", Log("planner"), sleep=waits.append)
    assert (errors, len(waits)) == ([], 1)


def test_another_error_of_a_topic_is_no_silence() -> None:
    probe = KafkaProbe("127.0.0.1:1")
    describe(probe, [KafkaError._TIMED_OUT, KafkaError.INVALID_REQUEST])
    with pytest.raises(Unreached):
        probe.list_problems({"ticks": set()})
    with pytest.raises(KafkaException):
        probe.list_problems({"ticks": set()})


def test_a_cluster_without_brokers_is_not_a_wrong_setting() -> None:
    admin: Any = SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(brokers={}))
    with pytest.raises(KafkaException, match="BROKER_NOT_AVAILABLE"):
        replication_here(admin, None, None)
