"""What records ask of the state is there before they are handled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import RecordCodec
from firnline_domain.identity import MAIN, Scope, TableName
from firnline_domain.records.assignments import Board
from firnline_domain.records.events import FilesChanged, PartitionChange, TickPassed
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.bucket.bucket import PlannerBucket
from firnline_planner.bucket.inputs import CHUNK_BYTES, Input, InputReader, split_chunks
from firnline_planner.drivers.kafka.owned_buckets import OwnedBucket
from firnline_planner.placement.routing import BucketFleet, Routing
from firnline_planner.state.encoding import PARTITION, TABLE
from firnline_planner.state.stores import WriteBuffer, keys_needed

from tests.kit.changes import delta
from tests.kit.memory_store import MemoryStore

TABLES = [TableName(f"u{number}", ("db",), "t") for number in range(3)]
DAYS = [Scope(1, f'["{day}"]') for day in range(4)]
NOW_MS = 1_000_000


class Store:
    """A dict that notes what it is asked for."""

    def __init__(self, values: dict[bytes, bytes]) -> None:
        self.values = values
        self.asked: list[list[bytes]] = []
        self.together: list[list[bytes]] = []

    def get(self, key: bytes) -> bytes | None:
        self.asked.append([key])
        return self.values.get(key)

    def get_all(self, keys: list[bytes]) -> list[bytes | None]:
        self.together.append(keys)
        return [self.values.get(key) for key in keys]

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        yield from sorted(pair for pair in self.values.items() if pair[0].startswith(prefix))


def change(table: TableName, commit: int, days: int = 2, ref: str = MAIN) -> FilesChanged:
    held = FileTally(fragments=Tally(1, 10, 100))
    parts = (PartitionChange(day, held, FileTally()) for day in DAYS[:days])
    return delta(table, commit, NOW_MS, *parts, event_id=f"{table.uuid}/{commit}", ref=ref)


def lived() -> dict[bytes, bytes]:
    """The state after a first commit to each table."""
    pairs = MemoryStore()
    bucket = PlannerBucket(pairs, Thresholds())
    for table in TABLES:
        bucket.handle(change(table, 1), NOW_MS)
        bucket.commit()
    return pairs.values


def holding(store: Store, routing: Routing | None = None) -> OwnedBucket:
    pairs = WriteBuffer(store)
    return OwnedBucket(store, pairs, PlannerBucket(pairs, Thresholds(), routing=routing))  # type: ignore[arg-type]


def asked_of_tables(store: Store) -> list[bytes]:
    return [key for [key] in store.asked if key[:1] in (TABLE, PARTITION)]


def test_a_bucket_asks_for_nothing_more() -> None:
    """Of known tables, a new one, and twice of the same."""
    store = Store(lived())
    held = holding(store)
    new = TableName("new", ("db",), "t")
    records = [change(table, 2, days=3) for table in TABLES]
    records += [change(new, 1), change(TABLES[0], 3)]
    held.read_ahead(records)
    for one in records:
        held.bucket.handle(one, NOW_MS)
        held.bucket.commit()
    [together] = store.together
    assert len(together) == len(set(together)) == 3 * 4 + 3
    assert asked_of_tables(store) == []
    held.read_ahead([change(TABLES[0], 4)])
    assert len(store.together) == 1  # all of it is remembered


def test_routes_are_in_memory() -> None:
    routing = BucketFleet(Board(1), RecordCodec()).create_routing(0)
    store = Store(lived())
    held = holding(store, routing)
    records = [change(table, 2) for table in TABLES]
    held.read_ahead(records)
    before = len(store.asked)
    for one in records:
        held.bucket.handle(one, NOW_MS)
    assert len(store.asked) == before


def test_without_it_the_store_is_asked_each_time() -> None:
    store = Store(lived())
    bucket = PlannerBucket(WriteBuffer(store), Thresholds())
    bucket.handle(change(TABLES[0], 2), NOW_MS)
    assert len(asked_of_tables(store)) == 3


def test_other_records_need_nothing_ahead() -> None:
    assert list(keys_needed(change(TABLES[0], 2, ref="audit"))) == []
    assert list(keys_needed(TickPassed(1, 2))) == []
    assert list(keys_needed(ValueError())) == []


def test_chunks_are_all_inputs_in_order_and_bounded() -> None:
    sizes = [10, CHUNK_BYTES, 10, 10, CHUNK_BYTES // 2, CHUNK_BYTES // 2, 10]
    inputs = [Input("t", 0, place, b"k", bytes(size)) for place, size in enumerate(sizes)]
    inputs.append(Input("t", 0, len(sizes), b"k", None))
    found = list(split_chunks(inputs))
    assert [one for few in found for one in few] == inputs
    assert [len(few) for few in found] == [2, 4, 2]
    assert list(split_chunks([])) == []


def test_what_cannot_be_read_is_put_aside_in_its_turn() -> None:
    reader = InputReader(RecordCodec(), Log("planner"))
    came = Input("file-changes", 0, 7, b"u", b"no record")
    bucket = PlannerBucket(MemoryStore(), Thresholds())
    record: Any = reader.decode_input(came)
    assert list(keys_needed(record)) == []
    [output] = reader.handle_input(came, record, bucket, NOW_MS).outputs
    assert (output.topic, output.record.offset) == ("dead-letters", 7)
    bucket.commit()
    assert bucket.next_offset("file-changes") == 8
