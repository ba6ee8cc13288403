"""What fences a planner that is no owner any more, on a real broker."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from firnline_adapters.kafka_admin.replication import Replication
from firnline_planner.drivers.kafka import changelog
from firnline_planner.drivers.kafka.changelog import Changelog
from firnline_planner.drivers.kafka.clients import KafkaClients
from firnline_planner.drivers.kafka.local_store import LocalStore, shared_cache
from firnline_planner.drivers.kafka.owned_buckets import await_stable
from firnline_planner.drivers.kafka.transactions import KafkaTransactions, NotCommitted, StepBatch

pytestmark = pytest.mark.stack

TOPIC = "file-changes"
EVICTED_S = 6.0  # the least that a session may be


@dataclass
class Place:
    """An application's changelog, and what may be done to it."""

    kafka: str
    folder: Path
    app: str = field(default_factory=lambda: f"planner-{uuid.uuid4().hex[:8]}")

    @property
    def clients(self) -> KafkaClients:
        return KafkaClients(self.kafka, self.app)

    def changelog(self) -> Changelog:
        return changelog.open_changelog(
            self.clients, f"firnline-{self.app}-state", 8, Replication(1, 1)
        )

    def transactions(self, consumer: Consumer) -> KafkaTransactions:
        producer = self.clients.create_producer(uuid.uuid4().hex)
        return KafkaTransactions(producer, consumer, self.changelog().topic)

    def restored(self) -> dict[bytes, bytes]:
        """What a planner on another host would find in bucket 0."""
        store = LocalStore(self.folder / uuid.uuid4().hex, shared_cache())
        self.changelog().catch_up({0: store}, int(time.time() * 1000))
        found = dict(store.scan(b"k"))
        store.close()
        return found


@pytest.fixture
def place(kafka: str, tmp_path: Path) -> Place:
    return Place(kafka, tmp_path)


@pytest.fixture
def member(place: Place) -> Iterator[Consumer]:
    """Owns all of `file-changes`, and is put out of its group when it does not poll for 6 s."""
    consumer = Consumer(
        {
            "bootstrap.servers": place.kafka,
            "group.id": place.app,
            "enable.auto.commit": False,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": int(EVICTED_S * 1000),
            "max.poll.interval.ms": int(EVICTED_S * 1000),
        }
    )
    consumer.subscribe([TOPIC])
    while not consumer.assignment():
        consumer.poll(0.2)
    yield consumer
    consumer.close()


def batch(key: bytes) -> StepBatch:
    return StepBatch({0: {key: b"v"}}, [], {(TOPIC, 0): 1})


def test_what_a_member_commits_is_restored_elsewhere(place: Place, member: Consumer) -> None:
    transactions = place.transactions(member)
    assert transactions.commit(batch(b"k1")) == {0: 1}
    several = StepBatch({0: {b"k1": None, b"k2": b"v2"}}, [], {(TOPIC, 0): 2})
    assert transactions.commit(several) == {0: 4}  # behind the end of the first one's transaction
    assert place.restored() == {b"k2": b"v2"}


def test_who_is_no_member_commits_nothing(place: Place, member: Consumer) -> None:
    """The broker takes offsets of no member at no generation from anybody, beside a group's own."""
    stranger = place.clients.create_consumer()
    with pytest.raises(NotCommitted):
        place.transactions(stranger).commit(batch(b"k1"))
    stranger.close()
    assert place.restored() == {}


def test_a_planner_that_was_put_out_commits_nothing(place: Place, member: Consumer) -> None:
    """Its own client knows first, and forgets its member id."""
    transactions = place.transactions(member)
    transactions.commit(batch(b"k1"))
    time.sleep(EVICTED_S + 4)
    with pytest.raises(NotCommitted) as refused:
        transactions.commit(batch(b"k2"))
    assert not refused.value.fatal
    assert place.restored() == {b"k1": b"v"}


def test_a_generation_that_has_passed_commits_nothing(place: Place, member: Consumer) -> None:
    """The broker knows first: another life of the group, while this client was frozen."""
    transactions = place.transactions(member)
    old = member.consumer_group_metadata()

    class Frozen:
        def consumer_group_metadata(self) -> object:
            return old

        def memberid(self) -> str:
            return "as it was"

    second = place.clients.create_consumer()
    second.subscribe([TOPIC])
    while not second.assignment():
        second.poll(0.2)
        member.poll(0.2)
    frozen = place.transactions(Frozen())  # type: ignore[arg-type]
    with pytest.raises(NotCommitted):
        frozen.commit(batch(b"k2"))
    member.poll(1.0)
    transactions.commit(batch(b"k3"))
    second.close()
    assert place.restored() == {b"k3": b"v"}


def test_a_new_owner_waits_for_a_transaction_that_is_not_on_the_changelog_yet(
    place: Place, member: Consumer
) -> None:
    """The former owner's offsets were taken while it owned; its records are still on their way."""
    producer = place.clients.create_producer(uuid.uuid4().hex)
    producer.init_transactions(30)
    log = place.changelog()
    producer.begin_transaction()
    producer.send_offsets_to_transaction(
        [TopicPartition(TOPIC, 0, 1)], member.consumer_group_metadata(), 30
    )

    def late() -> None:
        time.sleep(3)
        producer.produce(log.topic, b"late", b"k1", partition=0)
        producer.commit_transaction(30)

    thread = threading.Thread(target=late)
    thread.start()
    follower = place.clients.create_consumer()
    await_stable(follower, [TopicPartition(TOPIC, 0)])
    assert place.restored() == {b"k1": b"late"}
    thread.join()
    follower.close()


def test_a_new_owner_waits_for_what_is_open_on_the_changelog(place: Place) -> None:
    """A dead planner's records hide those behind them until the broker gives it up."""
    log = place.changelog()
    dead, alive = (place.clients.create_producer(uuid.uuid4().hex) for _ in range(2))
    for producer in (dead, alive):
        producer.init_transactions(30)
        producer.begin_transaction()
    dead.produce(log.topic, b"v", b"k1", partition=0)
    dead.flush(10)
    alive.produce(log.topic, b"v", b"k2", partition=0)
    alive.commit_transaction(30)
    assert place.restored() == {b"k2": b"v"}
