"""One contract for the switches, held by the twin in memory and by Kafka itself."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from firnline_adapters.in_memory import MemoryBroker, MemoryPublisher
from firnline_adapters.kafka.client import KafkaPublisher
from firnline_adapters.kafka.pauses import KafkaPauseReader
from firnline_domain.identity import TableName, bucket_of
from firnline_domain.ports import PauseReader, Publisher
from firnline_domain.records.orders import PauseMaintenance, ResumeMaintenance
from firnline_domain.records.pauses import Pause

from tests.kit.memory_followers import MemoryPauseReader

BUCKETS = 8
TOPIC = "operator-orders"
PATIENCE_S = 20.0


@dataclass
class Wire:
    publisher: Publisher
    open: Callable[[], PauseReader]


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.stack)])
def wire(request: pytest.FixtureRequest) -> Wire:
    if request.param == "memory":
        broker = MemoryBroker(BUCKETS)
        return Wire(MemoryPublisher(broker), lambda: MemoryPauseReader(broker))
    bootstrap: str = request.getfixturevalue("kafka")
    publisher = KafkaPublisher(bootstrap, BUCKETS, "contract")
    return Wire(publisher, lambda: KafkaPauseReader(bootstrap))


@pytest.fixture
def table() -> TableName:
    """Not in the partition that says in what order the fleet's orders came."""
    while True:
        found = TableName(str(uuid.uuid4()), ("db",), "t")
        if bucket_of(found.uuid, BUCKETS) != 0:
            return found


def pause(table: TableName | None) -> PauseMaintenance:
    return PauseMaintenance(table, "why", "me", 7)


def resume(table: TableName | None) -> ResumeMaintenance:
    return ResumeMaintenance(table, "me", 8)


def until(switches: PauseReader, uuid: str | None, wanted: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while switches.pause_of(uuid) != wanted:
        assert time.monotonic() < deadline
        time.sleep(0.02)
        switches.catch_up()


PAUSED = Pause(7, "me", "why")


def test_what_was_said_before_is_known_at_once(wire: Wire, table: TableName) -> None:
    wire.publisher.publish(TOPIC, table.uuid, pause(table))
    wire.publisher.flush()
    switches = wire.open()
    assert switches.pause_of(table.uuid) == PAUSED
    assert switches.pause_of("another") is None
    switches.close()


def test_what_is_said_later_is_heard(wire: Wire, table: TableName) -> None:
    switches = wire.open()
    assert switches.pause_of(table.uuid) is None
    wire.publisher.publish(TOPIC, table.uuid, pause(table))
    wire.publisher.flush()
    until(switches, table.uuid, PAUSED)
    wire.publisher.publish(TOPIC, table.uuid, resume(table))
    wire.publisher.flush()
    until(switches, table.uuid, None)
    switches.close()


def test_a_word_to_the_fleet_is_in_every_partition(wire: Wire, table: TableName) -> None:
    switches = wire.open()
    wire.publisher.broadcast(TOPIC, "fleet", pause(None))
    wire.publisher.flush()
    until(switches, table.uuid, PAUSED)
    assert switches.pause_of(None) == PAUSED
    again = wire.open()
    assert again.pause_of("a table of later") == PAUSED
    wire.publisher.broadcast(TOPIC, "fleet", resume(None))
    wire.publisher.flush()
    until(switches, None, None)
    until(again, None, None)
    for one in (switches, again):
        one.close()
