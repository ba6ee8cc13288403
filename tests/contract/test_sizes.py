"""A record that is too large for its topic is made smaller, or goes aside alone; what is behind it
flows on, in memory and on a broker."""

from __future__ import annotations

import json
import random
import time
import uuid
from typing import Any

import pytest
from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import RecordCodec, encode_record
from firnline_adapters.records.record_sizes import OVERHEAD, TooLarge, check_size, encode_to_fit
from firnline_adapters.records.signing import keys_here
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.work import ExpiryWork, Table
from firnline_domain.errors import PoisonousRecord
from firnline_domain.identity import Scope, TableName
from firnline_domain.policy.table_action.snapshot_retention import after_expired
from firnline_domain.ports import Delivery, Publisher
from firnline_domain.records.events import (
    DeadLettered,
    PartitionChange,
    RefMoved,
    SnapshotAdded,
    TableChange,
    TableCommitted,
)
from firnline_domain.records.parts.summaries import TASK_ID, sign_summary
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_enricher.file_changes import ChangeContext, absolute_changes, delta_changes
from firnline_enricher.handlers import EnricherHandlers
from firnline_enricher.kept_settings import KNOWN, select_table_settings
from firnline_gateway.rest.call import Call
from firnline_gateway.rest.commit_body import MAX_EXPIRED_IDS, changes_of, event_of
from firnline_schemas.topics import all_topics, max_bytes
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import FOLDER, make
from tests.kit.memory_catalog import MemoryCatalog, MemoryTables

BUCKETS = 8
COMMITS = "table-commits"
MIB = 1024 * 1024
RECORDS = [
    make(f"{folder.name}/{min(one.name for one in folder.iterdir()).removesuffix('.json')}")
    for folder in sorted(FOLDER.iterdir(), key=lambda one: one.name)
]


def noise(size: int) -> str:
    """Text that halves when compressed, at best."""
    return random.Random(size).randbytes(size // 2).hex()


def commit(table: TableName, **changes: Any) -> TableCommitted:
    snapshot = SnapshotAdded(7, 6, 3, 1, "append", "file:///m.avro", {"added-records": "5"})
    event = TableCommitted(
        "e", table, TableChange.COMMITTED, (snapshot,), (RefMoved("main", "branch", 7, 6),),
        (), False, 1, "gateway",
    )  # fmt: skip
    return replace(event, **changes)


def new_table(name: str = "t") -> TableName:
    return TableName(str(uuid.uuid4()), ("db",), name)


def summarised(event: TableCommitted, **summary: str) -> TableCommitted:
    (snapshot,) = event.snapshots
    return replace(event, snapshots=(replace(snapshot, summary={**snapshot.summary, **summary}),))


class Bus:
    """A publisher, and what it has put on a topic since."""

    publisher: Publisher

    def read(self, topic: str, count: int) -> list[Any]: ...


class MemoryBus(Bus):
    def __init__(self) -> None:
        self.broker = MemoryBroker(BUCKETS)
        self.publisher = MemoryPublisher(self.broker)

    def read(self, topic: str, count: int) -> list[Any]:
        return self.broker.records(topic)[-count:]


class KafkaBus(Bus):
    def __init__(self, bootstrap: str) -> None:
        self.publisher = KafkaPublisher(bootstrap, BUCKETS, f"sizes-{uuid.uuid4().hex}")
        self._bootstrap = bootstrap
        self._began_ms = int(time.time() * 1000)

    def read(self, topic: str, count: int) -> list[Any]:
        inbox = KafkaInbox(self._bootstrap, uuid.uuid4().hex, [topic], self.publisher, Log("sizes"))
        found: list[Any] = []
        deadline = time.monotonic() + 60
        try:
            while len(found) < count and time.monotonic() < deadline:
                found += [one.record for one in inbox.poll(1.0) if self._is_ours(one.record)]
        finally:
            inbox.close()
        return found

    def _is_ours(self, record: Any) -> bool:
        if isinstance(record, DeadLettered):
            return record.service == self.publisher._service  # type: ignore[attr-defined]
        return bool(getattr(record, "committed_at_ms", 0) == self._began_ms)


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.stack)])
def bus(request: pytest.FixtureRequest) -> Bus:
    if request.param == "memory":
        return MemoryBus()
    return KafkaBus(request.getfixturevalue("kafka"))


def test_one_that_is_too_large_goes_aside_and_those_behind_it_arrive(bus: Bus) -> None:
    at_ms = getattr(bus, "_began_ms", 1)
    first, last = (commit(new_table(), committed_at_ms=at_ms) for _ in range(2))
    huge = commit(new_table(noise(20 * MIB)), committed_at_ms=at_ms)
    sent = [bus.publisher.publish(COMMITS, one.table.uuid, one) for one in (first, huge, last)]
    assert bus.publisher.flush()
    assert sent == [True, False, True]
    arrived = bus.read(COMMITS, 2)
    assert {one.table for one in arrived} == {first.table, last.table}
    (letter,) = bus.read("dead-letters", 1)
    assert (letter.topic, letter.reason) == (COMMITS, "too_large")
    assert letter.key == huge.table.uuid.encode()
    assert letter.value_bytes == len(encode_record(huge)) > 20 * MIB
    assert encode_record(huge).startswith(letter.value)
    assert str(letter.value_bytes) in letter.message


def test_a_summary_of_a_megabyte_is_capped_and_its_counts_stay(bus: Bus) -> None:
    event = summarised(commit(new_table()), note=noise(2 * MIB), **{TASK_ID: "a,b"})
    event = replace(event, committed_at_ms=getattr(bus, "_began_ms", 1))
    assert bus.publisher.publish(COMMITS, event.table.uuid, event)
    assert bus.publisher.flush()
    (read,) = bus.read(COMMITS, 1)
    assert read.snapshots[0].summary == {"added-records": "5", TASK_ID: "a,b"}
    assert replace(read, snapshots=event.snapshots) == event


def test_a_commit_that_cannot_be_told_whole_says_where_its_branches_are() -> None:
    """The planner asks for what lies between: a lost commit would leave it with an old count."""
    paths = [replace(commit(new_table()).snapshots[0], manifest_list=noise(MIB))] * 3
    refs = (RefMoved("main", "branch", 6, 5), RefMoved("main", "branch", 7, 5))
    long = RefMoved("b" * 2_000_000, "branch", 7)
    event = commit(new_table(), snapshots=tuple(paths), refs=(*refs, long))
    told = RecordCodec().decode(encode_to_fit(COMMITS, event.table.uuid, event))
    assert (told.event_id, told.table, told.snapshots) == (event.event_id, event.table, ())
    assert told.refs == (RefMoved("main", "branch", 7, 5),)


@pytest.mark.parametrize("record", RECORDS, ids=lambda one: type(one).__name__)
def test_every_record_that_fits_is_sent_as_it_is(record: Any) -> None:
    for topic in all_topics():
        if type(record).__name__ in topic.records:
            assert encode_to_fit(topic.name, "key", record) == encode_record(record)


def test_whatever_is_in_a_dead_letter_it_fits() -> None:
    text, data = noise(20 * MIB), noise(20 * MIB).encode()
    letter = DeadLettered(text, 1, 2, data, data, text, text, text, 3)
    told = RecordCodec().decode(encode_to_fit("dead-letters", "k", letter))
    assert data.startswith(told.value)
    assert told.value_bytes == len(data)
    again = replace(letter, value=told.value, value_bytes=told.value_bytes)
    assert RecordCodec().decode(encode_to_fit("dead-letters", "k", again)).value_bytes == len(data)


def test_what_compression_carries_past_a_topics_limit_is_no_record(bus: Bus) -> None:
    """17 MB of one letter are 17 kB on the topic, and 17 MB in whoever reads them."""
    event = summarised(commit(new_table()), note="x" * 17 * MIB)
    with pytest.raises(PoisonousRecord) as caught:
        check_size(COMMITS, encode_record(event))
    assert caught.value.reason == "too_large"


def test_an_inbox_puts_it_aside() -> None:
    broker, event = MemoryBroker(BUCKETS), commit(new_table())
    large = encode_record(summarised(event, note="x" * 17 * MIB))
    broker.logs[COMMITS, 0] += [("k", large), ("k", encode_record(event))]
    inbox = MemoryInbox(broker, "g", [COMMITS])
    assert [one.record for one in inbox.poll(0)] == [event]
    [letter] = broker.records("dead-letters")
    assert (letter.reason, letter.value_bytes) == ("too_large", len(large))


def test_a_result_is_measured_compressed() -> None:
    """How many files fit is shown in `test_inbox`."""
    result = make("rewrite_finished/native")
    repeated = replace(result, worker="worker" * (20 * MIB // 6))
    assert len(encode_record(repeated)) > max_bytes("task-results")
    assert encode_to_fit("task-results", "k", repeated) == encode_record(repeated)
    random_paths = replace(result, worker=noise(40 * MIB))
    with pytest.raises(TooLarge):
        encode_to_fit("task-results", "k", random_paths)


def test_the_limit_is_that_of_the_topics_file() -> None:
    assert all(topic.config["max.message.bytes"] for topic in all_topics())
    assert max_bytes("rewrite-tasks-heavy.etl") == max_bytes("rewrite-tasks-heavy")
    event = commit(new_table())
    largest = max_bytes(COMMITS) - OVERHEAD
    spare = largest - len(encode_record(event)) - len(event.table.uuid)
    text = "x" * (spare - 100)
    assert encode_to_fit(
        COMMITS, event.table.uuid, replace(event, user_agent=text)
    ) == encode_record(replace(event, user_agent=text))


def expiry(count: int) -> TableCommitted:
    """As the gateway makes an event of the request."""
    ids = [7_000_000_000_000_000_000 + number for number in range(count)]
    update = {"action": "remove-snapshots", "snapshot-ids": ids}
    need = {"type": "assert-table-uuid", "uuid": "u"}
    body = json.dumps({"requirements": [need], "updates": [update]}).encode()
    call = Call("c", "POST", "/v1/namespaces/db/tables/t", body, 5)
    [change] = changes_of(call)
    assert change.expired_snapshot_ids == tuple(ids)
    return event_of(change, call, "u", 9, "gateway")


@pytest.mark.parametrize("count", [1, MAX_EXPIRED_IDS, MAX_EXPIRED_IDS + 1, 125_000])
@pytest.mark.parametrize("ours", [0, 1, 50_000, 125_000])
def test_however_many_snapshots_expire_the_state_is_that_of_the_whole_list(
    count: int, ours: int
) -> None:
    """Through gateway, topic, enricher and planner; `ours` of them our own expiry has told of."""
    event = expiry(count)
    told = RecordCodec().decode(encode_to_fit(COMMITS, "u", event))
    assert told == event
    assert len(encode_record(told)) < max_bytes(COMMITS)
    handlers = EnricherHandlers(MemoryTables(MemoryCatalog("file:///nowhere")), lambda: 9)
    [change] = handlers.handle(Delivery(COMMITS, 0, 0, "u", told))
    before = Table(TableCounters(event.table, "main", snapshot_count=200_000))
    before = replace(before, work=replace(before.work, expiry=ExpiryWork(unobserved=ours)))
    assert change.expired_snapshots == count
    assert after_expired(before, change.expired_snapshots) == after_expired(before, count)


@given(st.integers(1, 100), st.integers(1, 100), st.integers(0, 250))
def test_one_number_is_told_for_one_commit(first: int, second: int, ours: int) -> None:
    """Two chunks fold to the state of the whole only where all of it is ours, or nothing of either:
    what is ours in part counts as somebody else's."""
    table = Table(TableCounters(new_table(), "main", snapshot_count=500))
    table = replace(table, work=replace(table.work, expiry=ExpiryWork(unobserved=ours)))
    chunked = after_expired(after_expired(table, first), second)
    same = chunked == after_expired(table, first + second)
    assert same is (ours >= first + second or ours < min(first, second))


def wide(count: int, name: str) -> list[PartitionChange]:
    tally = FileTally(fragments=Tally(1, 1, 1))
    scopes = [Scope(0, f'["{number:06}{name}"]').counted_scope for number in range(count)]
    return [PartitionChange(scope, tally, FileTally()) for scope in scopes]


@pytest.mark.parametrize("name", ["", "x" * 1_900, "🏔" * 1_900, "y" * 1_000_000])
@pytest.mark.parametrize("count", [1, 700])
def test_whatever_a_table_is_like_its_changes_fit(name: str, count: int) -> None:
    """In chunks that are the same at every reading: else an answer would never be complete."""
    properties = {**dict.fromkeys(KNOWN, "🏔" * 600_000), "firnline.note": "z" * 2_400_000}
    subject = ChangeContext(new_table(), "main", "c", 5, 2, select_table_settings(properties))
    tasks = {TASK_ID: ",".join(["t" * 32] * 100_000)}
    ours = sign_summary(tasks, subject.table.uuid, keys_here(), 1)
    snapshot = SnapshotAdded(7, 6, 3, 1, "o" * MIB, "m", {**ours, "engine-name": "e" * MIB})
    partitions = wide(count, name)
    for kind in (delta_changes(subject, snapshot, partitions),
                 absolute_changes(subject, snapshot, partitions, 5, 1)):  # fmt: skip
        assert [part for one in kind for part in one.partitions] == partitions
        assert [one.chunk for one in kind] == list(range(len(kind)))
        for one in kind:
            assert encode_to_fit("file-changes", "u", one) == encode_record(one)
            assert all(len(task) == 32 for task in (one.task_id or "").split(","))
