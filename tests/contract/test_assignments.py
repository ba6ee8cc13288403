"""Who reads where tables are, over the twin and over a broker: one contract."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
from confluent_kafka import Producer
from firnline_adapters.in_memory import MemoryBroker, MemoryPublisher
from firnline_adapters.kafka.assignments import FollowedAssignments, KafkaAssignments
from firnline_adapters.kafka.client import Header, KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import encode_record
from firnline_adapters.records.signing import signer_here
from firnline_domain.identity import bucket_of
from firnline_domain.records.assignments import TOPIC, Board
from firnline_domain.records.events import TableAssigned, TableCommitted

from tests.examples import make
from tests.kit.memory_followers import MemoryAssignments
from tests.topics import bring_home

BUCKETS = 8


class Place(Protocol):
    def say(self, key: str, record: TableAssigned | None) -> None: ...

    def board(self) -> Board: ...


class InMemory:
    def __init__(self) -> None:
        self.broker = MemoryBroker(BUCKETS)

    def say(self, key: str, record: TableAssigned | None) -> None:
        value = b"" if record is None else encode_record(record)
        self.broker.logs[TOPIC, bucket_of(key, BUCKETS)].append((key, value))

    def board(self) -> Board:
        return MemoryAssignments(self.broker).board


class OverKafka:
    """As the planner says it: in transactions, whose ends have offsets of their own."""

    def __init__(self, bootstrap: str) -> None:
        self.kafka = bootstrap
        id_ = uuid.uuid4().hex
        self.producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": id_})
        self.producer.init_transactions(30)

    def say(self, key: str, record: TableAssigned | None) -> None:
        value = None if record is None else encode_record(record)
        self.producer.begin_transaction()
        place, name = bucket_of(key, BUCKETS), key.encode()
        headers = list[Header](signer_here().sign_headers(TOPIC, place, name, value))
        self.producer.produce(TOPIC, value, name, place, headers=headers)
        self.producer.commit_transaction(30)

    def board(self) -> Board:
        found = KafkaAssignments(self.kafka, Board(BUCKETS))
        found.close()
        return found.board


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.stack)])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "memory":
        yield InMemory()
    else:
        bootstrap = request.getfixturevalue("kafka")
        yield OverKafka(bootstrap)
        bring_home(bootstrap)


@pytest.fixture
def table() -> str:
    return str(uuid.uuid4())


def test_the_newest_word_holds_until_the_table_is_forgotten(place: Place, table: str) -> None:
    home = bucket_of(table, BUCKETS)
    first, second = (home + 1) % BUCKETS, (home + 2) % BUCKETS
    assert place.board().bucket_of_table(table) == home
    place.say(table, TableAssigned(table, first, 5, 5))
    place.say(table, TableAssigned(table, second, 6, 6))
    assert place.board().bucket_of_table(table) == second
    place.say(table, None)
    assert place.board().bucket_of_table(table) == home


def test_only_what_may_come_in_any_order_is_written_elsewhere(table: str) -> None:
    broker, board = MemoryBroker(BUCKETS), Board(BUCKETS)
    home = bucket_of(table, BUCKETS)
    away = (home + 1) % BUCKETS
    board.fold_record(TableAssigned(table, away, 1, 1))
    publisher = MemoryPublisher(broker, board)
    for topic in ("table-commits", "file-changes", "operator-orders", "task-results"):
        publisher.publish(topic, table, committed(table))
    places = {topic: place for (topic, place), log in broker.logs.items() if log}
    assert places == {
        "table-commits": away,
        "file-changes": away,
        "operator-orders": home,
        "task-results": home,
    }


@pytest.mark.stack
def test_a_publisher_follows_without_waiting(kafka: str, table: str) -> None:
    away = (bucket_of(table, BUCKETS) + 1) % BUCKETS
    places = FollowedAssignments(kafka, BUCKETS, Log("contract"))
    publisher = KafkaPublisher(kafka, BUCKETS, "contract", places)
    group = f"contract-{uuid.uuid4().hex}"
    inbox = KafkaInbox(kafka, group, ["table-commits"], publisher, Log("contract"))
    OverKafka(kafka).say(table, TableAssigned(table, away, 1, 1))
    found: set[int] = set()
    deadline_s = time.monotonic() + 60
    while away not in found and time.monotonic() < deadline_s:
        publisher.publish("table-commits", table, committed(table))
        publisher.flush()
        found |= {one.partition for one in inbox.poll(0.5) if one.key == table}
    places.close()
    inbox.close()
    bring_home(kafka)
    assert away in found


def test_a_publisher_does_not_wait_for_a_broker_that_is_away(table: str) -> None:
    places = FollowedAssignments("127.0.0.1:1", BUCKETS, Log("contract"))
    assert places.bucket_of_table(table) == bucket_of(table, BUCKETS)
    places.close()


def committed(table: str) -> Any:
    found: TableCommitted = make("table_committed/upsert")
    return found
