"""Catalogs' own events on a real broker: read as they come, and again until they are settled."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from firnline_adapters.config.settings import ListenAddress
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import Misconfigured, RetryLater
from firnline_listener.port import Doorbell, DoorbellSource, Surroundings
from firnline_listener.sources.kafka import open_kafka

from tests.integration.listener.test_listener_planner import (
    SECONDS_TO_HEAL,
    Capture,
    check_counters,
    make_capture,
)
from tests.kit.memory_flow import commit, rows

pytestmark = pytest.mark.stack
Open = Callable[..., DoorbellSource]
WAIT_S = 30.0
NOWHERE = ListenAddress("127.0.0.1", 0)


@pytest.fixture
def topic(kafka: str) -> str:
    """A topic of another product, with two partitions."""
    name = f"events-{uuid.uuid4().hex[:8]}"
    new = NewTopic(name, num_partitions=2, replication_factor=1)
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([new])[name].result()
    return name


@pytest.fixture
def open_source(kafka: str, topic: str) -> Iterator[Open]:
    opened = list[DoorbellSource]()

    def open_one(**properties: str) -> DoorbellSource:
        where = Surroundings(topic, ["lake"], kafka, Log("test"), NOWHERE)
        given = {"type": "kafka", "topic": topic, "payload": "polaris", **properties}
        opened.append(open_kafka(given, where))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def send(kafka: str, topic: str, *names: str, partition: int = 0, kind: str = "UPDATE") -> None:
    producer = Producer({"bootstrap.servers": kafka})
    for name in names:
        event = {
            "event_type": f"AFTER_{kind}_TABLE",
            "namespace": ["db"],
            "table_name": name,
            "catalog_name": "prod",
        }
        producer.produce(topic, json.dumps(event).encode(), partition=partition)
    assert producer.flush(WAIT_S) == 0


def collect(source: DoorbellSource, count: int) -> list[Doorbell]:
    found, end = list[Doorbell](), time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < end:
        found += source.poll(0.2)
    return found


def test_what_is_not_settled_comes_again(kafka: str, topic: str, open_source: Open) -> None:
    send(kafka, topic, "a", "b", "c")
    source = open_source()
    bells = collect(source, 3)
    assert [one.name for one in bells] == ["a", "b", "c"]
    source.settle(bells[1].position)
    source.close()
    assert [one.name for one in collect(open_source(), 1)] == ["c"]


def test_events_that_ring_for_nothing_are_done(kafka: str, topic: str, open_source: Open) -> None:
    send(kafka, topic, "a")
    send(kafka, topic, *(f"read-{n}" for n in range(50)), kind="LOAD")
    source = open_source()
    [bell] = collect(source, 1)
    source.settle(bell.position)
    while source.poll(0.5):
        pass
    source.close()
    send(kafka, topic, "b")
    assert [one.name for one in collect(open_source(), 1)] == ["b"]


def test_a_message_that_is_no_event_stops_nothing(
    kafka: str, topic: str, open_source: Open
) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    for value in (b"not json", None, b"{}", b"\xff\xfe", b"[1]"):
        producer.produce(topic, value, partition=0)
    producer.flush(WAIT_S)
    send(kafka, topic, "a")
    assert [one.name for one in collect(open_source(), 1)] == ["a"]


def test_partitions_are_settled_each_to_its_own_end(
    kafka: str, topic: str, open_source: Open
) -> None:
    send(kafka, topic, "a", "b", partition=0)
    send(kafka, topic, "c", "d", partition=1)
    source = open_source()
    bells = collect(source, 4)
    source.settle(bells[2].position)
    source.close()
    assert [one.name for one in collect(open_source(), 1)] == [bells[3].name]


def test_a_topic_that_is_missing_is_said(open_source: Open) -> None:
    source = open_source(topic="nothing-here", group="nobody")
    with pytest.raises(RetryLater, match="nothing-here"):
        collect(source, 1)


@pytest.mark.parametrize("seed", range(2))
def test_what_a_topic_loses_doubles_and_shuffles_the_planner_folds_once(
    seed: int, kafka: str, topic: str, open_source: Open, tmp_path: Path
) -> None:
    dice, capture, source = random.Random(seed), make_capture(tmp_path), open_source()
    waiting = list[str]()
    for number in range(20):
        commit(capture.catalog.load_table("db.t"), dice, number)
        waiting += dice.choices([[], ["t"], ["t", "t"]], [1, 8, 1])[0]  # lost, once, twice
        if dice.random() < 0.5:
            for name in dice.sample(waiting, len(waiting)):
                send(kafka, topic, name, partition=dice.randrange(2))
            ring_all(capture, source, len(waiting))
            waiting.clear()
    capture.catalog.load_table("db.t").append(rows((9, 99)))
    send(kafka, topic, "t")
    ring_all(capture, source, 1)
    for _ in range(SECONDS_TO_HEAL):
        capture.second()
    check_counters(capture)


def ring_all(capture: Capture, source: DoorbellSource, count: int) -> None:
    for bell in collect(source, count):
        capture.ring(bell)
        source.settle(bell.position)
    capture.second()


@pytest.mark.parametrize(
    "wrong", [{"payload": "avro"}, {"topic": ""}, {"topik": "x"}], ids=lambda one: str(one)
)
def test_a_section_that_is_wrong_is_refused(open_source: Open, wrong: dict[str, str]) -> None:
    with pytest.raises(Misconfigured, match=r"\[sources\.events-"):
        open_source(**wrong)
