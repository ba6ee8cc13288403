"""One contract for publishing and reading, held by the twin in memory and by Kafka itself."""

from __future__ import annotations

import random
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_adapters.kafka.client import Header, KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import encode_record
from firnline_adapters.records.signing import RecordSigner, signer_here
from firnline_domain.errors import RetryLater
from firnline_domain.identity import Scope, TableName, bucket_of
from firnline_domain.ports import Delivery, Inbox, Publisher
from firnline_domain.records.events import DeadLettered, RewriteSkipped
from firnline_domain.records.results import InputFile, Mode, RewriteFinished, RewriteGroup
from firnline_domain.records.signing import Keyring, SigningKey

BUCKETS = 8
TOPIC = "maintenance-events"
Headers = list[tuple[str, bytes]]
SIGNER = signer_here()
THEIRS = RecordSigner(Keyring((SigningKey("theirs", b"t" * 32),)))
FORGED = RecordSigner(Keyring((SigningKey("tests", b"t" * 32),)))  # of a name that is known


@dataclass
class Bus:
    """A publisher and a way to open inboxes of one fresh group."""

    publisher: Publisher
    open_inbox: Callable[[], Inbox]
    write: Callable[[str, bytes, Headers], None]
    letters: Callable[[str], list[DeadLettered]]  # of a key, so far
    run: str  # marks this test's records on a shared broker

    def write_raw(self, key: str, value: bytes) -> None:
        """As the fleet signs it."""
        place = (TOPIC, bucket_of(key, BUCKETS))
        self.write(key, value, SIGNER.sign_headers(*place, key.encode(), value))


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.stack)])
def bus(request: pytest.FixtureRequest) -> Iterator[Bus]:
    run = uuid.uuid4().hex
    if request.param == "memory":
        broker = MemoryBroker(BUCKETS)

        def write_memory(key: str, value: bytes, headers: Headers) -> None:
            broker.append(TOPIC, bucket_of(key, BUCKETS), key, value, headers)

        yield Bus(
            MemoryPublisher(broker, signer=SIGNER),
            lambda: MemoryInbox(broker, run, [TOPIC], SIGNER),
            write_memory,
            lambda key: [one for one in broker.records("dead-letters") if one.key == key.encode()],
            run,
        )
        return
    bootstrap: str = request.getfixturevalue("kafka")
    publisher = KafkaPublisher(bootstrap, BUCKETS, "contract")

    def write_kafka(key: str, value: bytes, headers: Headers) -> None:
        producer = Producer({"bootstrap.servers": bootstrap})
        place, given = bucket_of(key, BUCKETS), list[Header](headers)
        producer.produce(TOPIC, value, key.encode(), partition=place, headers=given)
        producer.flush(10)

    def letters(key: str) -> list[DeadLettered]:
        group = uuid.uuid4().hex
        inbox = KafkaInbox(bootstrap, group, ["dead-letters"], publisher, Log("contract"))
        found: list[DeadLettered] = []
        for _ in range(40):
            found += [one.record for one in inbox.poll(0.5)]
            if mine := [one for one in found if one.key == key.encode()]:
                break
        inbox.close()
        return mine

    yield Bus(
        publisher,
        lambda: KafkaInbox(bootstrap, run, [TOPIC], publisher, Log("contract")),
        write_kafka,
        letters,
        run,
    )


def event(bus: Bus, number: int, table: str = "t") -> RewriteSkipped:
    name = TableName(f"{bus.run}-{table}", ("db",), table)
    return RewriteSkipped(f"task-{number}", name, "main", None, "nothing_to_do", number)


def put(bus: Bus, *events: RewriteSkipped) -> None:
    for one in events:
        bus.publisher.publish(TOPIC, one.table.uuid, one)
    bus.publisher.flush()


def take(bus: Bus, inbox: Inbox, wanted: int) -> list[Delivery]:
    """This test's deliveries; the broker is shared, so others' are dealt with and left out."""
    found: list[Delivery] = []
    for _ in range(60):
        for delivery in inbox.poll(0.5):
            if delivery.key is not None and delivery.key.startswith(bus.run):
                found.append(delivery)
            else:
                inbox.mark_done(delivery)
        if len(found) >= wanted:
            break
    return found


def test_records_come_back_as_they_were_in_order_of_their_table(bus: Bus) -> None:
    sent = [event(bus, number) for number in range(20)]
    put(bus, *sent)
    inbox = bus.open_inbox()
    deliveries = take(bus, inbox, 20)
    assert [delivery.record for delivery in deliveries] == sent
    assert {delivery.partition for delivery in deliveries} == {
        bucket_of(sent[0].table.uuid, BUCKETS)
    }
    inbox.close()


def test_what_is_not_done_comes_again(bus: Bus) -> None:
    put(bus, *[event(bus, number) for number in range(5)])
    inbox = bus.open_inbox()
    first = take(bus, inbox, 5)
    for delivery in (first[0], first[1], first[3], first[4]):
        inbox.mark_done(delivery)
    inbox.close()
    again = bus.open_inbox()
    assert [delivery.record.at_ms for delivery in take(bus, again, 3)] == [2, 3, 4]
    again.close()


def test_what_is_done_stays_done(bus: Bus) -> None:
    put(bus, event(bus, 0))
    inbox = bus.open_inbox()
    for delivery in take(bus, inbox, 1):
        inbox.mark_done(delivery)
    inbox.close()
    put(bus, event(bus, 1))
    again = bus.open_inbox()
    assert [delivery.record.at_ms for delivery in take(bus, again, 1)] == [1]
    again.close()


def test_a_poisonous_record_does_not_block_its_partition(bus: Bus) -> None:
    before, after = event(bus, 1), event(bus, 2)
    put(bus, before)
    bus.write_raw(before.table.uuid, b"not avro at all")
    put(bus, after)
    inbox = bus.open_inbox()
    deliveries = take(bus, inbox, 2)
    assert [delivery.record for delivery in deliveries] == [before, after]
    for delivery in deliveries:
        inbox.mark_done(delivery)
    inbox.close()
    again = bus.open_inbox()
    assert take_nothing(bus, again)
    again.close()


def take_nothing(bus: Bus, inbox: Inbox) -> bool:
    """True if a marker sent now is the first of ours that arrives."""
    marker = event(bus, 99)
    put(bus, marker)
    return [delivery.record for delivery in take(bus, inbox, 1)] == [marker]


def test_a_full_partition_is_read_on_when_it_is_not_full_any_more(bus: Bus) -> None:
    """And keeps its order; others are read meanwhile."""
    full = bucket_of(event(bus, 0).table.uuid, BUCKETS)
    other = next(name for name in "abcdefgh" if bucket_of(f"{bus.run}-{name}", BUCKETS) != full)
    put(bus, event(bus, 0), event(bus, 0, other))
    inbox = bus.open_inbox()
    take(bus, inbox, 2)
    inbox.poll(0.1, {(TOPIC, full)})
    put(bus, *[event(bus, number) for number in (1, 2)], event(bus, 1, other))
    found: list[Delivery] = []
    for _ in range(20):
        found += [one for one in inbox.poll(0.2, {(TOPIC, full)}) if one.partition == full]
    assert found == []
    assert [one.record.at_ms for one in take(bus, inbox, 2)] == [1, 2]
    inbox.close()


class Unreachable(KafkaPublisher):
    """A publisher whose broker went away."""

    def flush(self, timeout_s: float = 30.0) -> bool:
        raise RetryLater("no broker")


@pytest.mark.stack
def test_a_partition_that_another_member_takes_is_told_of(kafka: str) -> None:
    run = uuid.uuid4().hex
    publisher = KafkaPublisher(kafka, BUCKETS, "contract")
    places, deadline = {(TOPIC, number) for number in range(BUCKETS)}, time.monotonic() + 120
    first = KafkaInbox(kafka, run, [TOPIC], publisher, Log("contract"))
    while not all(first.owns(*place) for place in places) and time.monotonic() < deadline:
        first.poll(0.1, places)
    second = KafkaInbox(kafka, run, [TOPIC], publisher, Log("contract"))
    moved: set[tuple[str, int]] = set()
    while not moved and time.monotonic() < deadline:
        for inbox in (first, second):
            inbox.poll(0.1, places)
            moved |= set(inbox.take_moved())
    assert 0 < len(moved) < BUCKETS
    assert [*first.take_moved(), *second.take_moved()] == []  # told once
    first.close()
    second.close()


@pytest.mark.stack
def test_a_partition_that_was_full_when_it_was_taken_is_read_on_when_it_is_back(kafka: str) -> None:
    run = uuid.uuid4().hex
    publisher = KafkaPublisher(kafka, BUCKETS, "contract")
    first = KafkaInbox(kafka, run, [TOPIC], publisher, Log("contract"))
    bus = Bus(publisher, lambda: first, lambda *_: None, lambda _: [], run)
    put(bus, event(bus, 0))
    for delivery in take(bus, first, 1):  # it has all partitions
        first.mark_done(delivery)
    everything = {(TOPIC, number) for number in range(BUCKETS)}
    first.poll(0.1, everything)
    second = KafkaInbox(kafka, run, [TOPIC], publisher, Log("contract"))
    taken: set[tuple[str, int]] = set()
    deadline = time.monotonic() + 60
    while not taken and time.monotonic() < deadline:
        second.poll(0.1, everything)
        first.poll(0.1, everything)
        taken |= set(first.take_moved())
    second.close()
    tables = [
        next(name for name in map(str, range(999)) if bucket_of(f"{run}-{name}", BUCKETS) == one)
        for _, one in taken
    ]
    put(bus, *[event(bus, 1, name) for name in tables])
    found = take(bus, first, len(tables))
    assert {(TOPIC, one.partition) for one in found} == taken
    first.close()


@pytest.mark.stack
def test_an_inbox_leaves_its_group_though_its_last_commit_fails(kafka: str) -> None:
    """The next reader need not wait for the end of a session, nor the process at its end."""
    run = uuid.uuid4().hex
    publisher = KafkaPublisher(kafka, BUCKETS, "contract")
    broken = Unreachable(kafka, BUCKETS, "contract")
    inbox = KafkaInbox(kafka, run, [TOPIC], broken, Log("contract"))
    bus = Bus(publisher, lambda: inbox, lambda *_: None, lambda _: [], run)
    put(bus, event(bus, 0))
    for delivery in take(bus, inbox, 1):
        inbox.mark_done(delivery)
    with pytest.raises(RetryLater):
        inbox.close()
    with pytest.raises(RuntimeError, match="closed"):
        inbox.poll(0.1)


@pytest.mark.stack
def test_a_result_of_very_many_files_arrives(kafka: str) -> None:
    """A table that nobody looked after: 200,000 files are 28 MB, and a fifth of that on its way."""
    table = TableName(str(uuid.uuid4()), ("db",), "t")
    place = f"s3://lake/db.db/t-{table.uuid}/data/day=2026-11-22"
    paths = [f"{place}/{number:05d}-1-{uuid.uuid4()}-00001.parquet" for number in range(200_000)]
    group = RewriteGroup(tuple(InputFile(path, 5, 50, 9_000) for path in paths), (), 0, 0, 0)
    sent = RewriteFinished(
        "task", table, "main", Scope(0, "[]"), 1, "w", Mode.NATIVE, 1, 5, 0, (group,), (), None,
        1, 2, 3, 4,
    )  # fmt: skip
    publisher = KafkaPublisher(kafka, BUCKETS, "contract")
    publisher.publish("task-results", table.uuid, sent)
    publisher.flush()
    inbox = KafkaInbox(kafka, uuid.uuid4().hex, ["task-results"], publisher, Log("contract"))
    found: list[Delivery] = []
    deadline = time.monotonic() + 60
    while not found and time.monotonic() < deadline:
        found = [one for one in inbox.poll(1.0) if one.key == table.uuid]
    assert [one.record for one in found] == [sent]
    inbox.close()


@pytest.fixture
def narrow(kafka: str) -> str:
    """A topic that takes less than its file says: somebody has set it by hand."""
    name = f"narrow-{uuid.uuid4().hex}"
    new = NewTopic(name, BUCKETS, 1, config={"max.message.bytes": "10000"})
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([new])[name].result()
    return name


def skipped(reason: str) -> RewriteSkipped:
    table = TableName(str(uuid.uuid4()), ("db",), "t")
    return RewriteSkipped("t", table, "main", None, reason, 1)


NOISE = random.Random(1).randbytes(50_000).hex()  # halves when compressed


@pytest.mark.stack
def test_what_the_broker_will_never_take_goes_aside_and_is_said_once(
    kafka: str, narrow: str
) -> None:
    service = f"contract-{uuid.uuid4().hex}"
    publisher = KafkaPublisher(kafka, BUCKETS, service)
    large = skipped(NOISE)
    publisher.publish(narrow, large.table.uuid, large)
    assert not publisher.flush()
    publisher.publish(narrow, large.table.uuid, skipped("small"))
    assert publisher.flush()
    letters = KafkaInbox(kafka, uuid.uuid4().hex, ["dead-letters"], publisher, Log("contract"))
    found: list[Delivery] = []
    deadline = time.monotonic() + 60
    while not found and time.monotonic() < deadline:
        found = [one for one in letters.poll(1.0) if one.record.service == service]
    assert [(one.record.topic, one.record.reason) for one in found] == [(narrow, "too_large")]
    assert found[0].record.key == large.table.uuid.encode()
    letters.close()


@pytest.mark.stack
def test_each_thread_is_told_of_its_own_records(kafka: str, narrow: str) -> None:
    """Else another task's result would count as sent."""
    publisher = KafkaPublisher(kafka, BUCKETS, "contract")
    with ThreadPoolExecutor(1) as other:
        other.submit(publisher.publish, narrow, "k", skipped(NOISE)).result()
        publisher.publish(TOPIC, "k", skipped("small"))
        assert publisher.flush()
        assert not other.submit(publisher.flush).result()


def sent_by(signer: RecordSigner, value: bytes, topic: str, partition: int, key: str) -> Headers:
    return signer.sign_headers(topic, partition, key.encode(), value)


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (lambda *_: [], "unsigned"),
        (lambda *_: [("firnline-signature", b"what is this")], "unsigned"),
        (lambda value, *place: sent_by(THEIRS, value, *place), "unknown_key"),
        (lambda value, *place: sent_by(FORGED, value, *place), "bad_signature"),
        (lambda value, *place: sent_by(SIGNER, b"another", *place), "bad_signature"),
        (lambda value, _, *more: sent_by(SIGNER, value, "task-results", *more), "bad_signature"),
        (lambda value, topic, at, key: sent_by(SIGNER, value, topic, at + 1, key), "bad_signature"),
        (lambda value, topic, at, _: sent_by(SIGNER, value, topic, at, "other"), "bad_signature"),
    ],
    ids=["unsigned", "odd", "theirs", "forged", "value", "topic", "partition", "table"],
)
def test_what_the_fleet_has_not_said_here_is_not_believed(
    bus: Bus, forge: Callable[[bytes, str, int, str], Headers], reason: str
) -> None:
    """Everybody who reaches the broker can write an event that is as good as ours, and one of ours
    again, elsewhere."""
    before, forged, after = (event(bus, number) for number in range(3))
    key, value = forged.table.uuid, encode_record(forged)
    put(bus, before)
    bus.write(key, value, forge(value, TOPIC, bucket_of(key, BUCKETS), key))
    put(bus, after)
    inbox = bus.open_inbox()
    deliveries = take(bus, inbox, 2)
    assert [delivery.record for delivery in deliveries] == [before, after]
    for delivery in deliveries:
        inbox.mark_done(delivery)
    inbox.close()
    (letter,) = bus.letters(key)
    assert (letter.reason, letter.value) == (reason, value)


STARTED_AND_FAILED = """
import sys, time
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
publisher = KafkaPublisher(sys.argv[1], 8, "failed")
inbox = KafkaInbox(sys.argv[1], sys.argv[2], ["maintenance-events"], publisher, Log("failed"))
inbox.poll(0.05)
time.sleep(5)  # Spark starts; the group gives out its partitions
raise SystemExit(7)
"""


@pytest.mark.stack
def test_a_process_that_fails_at_its_start_ends(kafka: str) -> None:
    asked = [sys.executable, "-c", STARTED_AND_FAILED, kafka, uuid.uuid4().hex]
    assert subprocess.run(asked, timeout=30).returncode == 7
