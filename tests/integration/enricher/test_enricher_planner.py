"""Enricher and planner over one broker in memory and real tables: the counters are the table's.

Events are lost, repeated and late, snapshots expire, both services restart.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import RecordCodec, encode_record
from firnline_domain.identity import Scope, bucket_of
from firnline_domain.records.events import TableCommitted, TickPassed
from firnline_domain.records.orders import ResyncTable
from firnline_domain.records.parts.tallies import FileTally
from firnline_domain.records.states import TableState
from firnline_domain.settings.thresholds import Thresholds
from firnline_enricher.handlers import EnricherHandlers
from firnline_enricher.pump import EnricherPump
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.metadata.partition_tally import partition_changes
from firnline_iceberg.scan.planning import live_entries
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_planner.bucket.inputs import InputReader
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from tests.kit.memory_catalog import MemoryCatalog, MemoryTables
from tests.kit.memory_driver import MemoryDriver

SCHEMA = Schema(NestedField(1, "part", LongType()), NestedField(2, "id", LongType()))
SPEC = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "part"))
TARGET = 4096
SECONDS_TO_HEAL = 60  # patience of the planner, then its questions


class Flow:
    """Topics in memory, an enricher and a planner, and their clock."""

    def __init__(self, catalog: MemoryCatalog) -> None:
        self.tables = MemoryTables(catalog)
        self.broker, self.now_ms = MemoryBroker(), 1_800_000_000_000
        self.publisher = MemoryPublisher(self.broker)
        reader = InputReader(RecordCodec(), Log("planner"))
        self.planner = MemoryDriver(self.broker, reader, Thresholds(), lambda: self.now_ms)
        self.restart()

    def restart(self) -> None:
        inbox = MemoryInbox(self.broker, "enricher", ["table-commits", "resync-requests"])
        handlers = EnricherHandlers(self.tables, lambda: self.now_ms)
        self.enricher = EnricherPump(inbox, self.publisher, handlers, Log("enricher"))
        self.planner.restart()

    def tell(self, event: TableCommitted) -> None:
        self.publisher.publish("table-commits", event.table.uuid, event)

    def second(self) -> None:
        """Everybody works off what there is, and a second passes."""
        self.now_ms += 1_000
        self.enricher.step(0)
        for bucket in range(self.broker.buckets):
            tick = TickPassed(bucket, self.now_ms)
            self.broker.logs["ticks", bucket].append((str(bucket), encode_record(tick)))
        self.planner.run()
        self.enricher.step(0)
        self.planner.run()

    def state(self, table_key: str) -> TableState:
        bucket = bucket_of(table_key, self.broker.buckets)
        states = [
            RecordCodec().decode(value)
            for key, value in self.broker.logs["table-states", bucket]
            if key.startswith(table_key)
        ]
        return states[-1]


def rows(*pairs: tuple[int, int]) -> pa.Table:
    part, ids = zip(*pairs, strict=True)
    return pa.table({"part": pa.array(part, pa.int64()), "id": pa.array(ids, pa.int64())})


def commit(table: Table, dice: random.Random, number: int) -> None:
    """One random commit by PyIceberg."""
    part = dice.randrange(3)
    snapshots = [one.snapshot_id for one in table.metadata.snapshots]
    match dice.randrange(8):
        case 0 | 1 | 2:
            table.append(rows((part, number), (dice.randrange(3), number)))
        case 3:
            table.overwrite(rows((part, number)), f"part == {part}")
        case 4:
            table.delete(f"id == {dice.randrange(number + 1)}")
        case 5 if snapshots:
            table.manage_snapshots().set_current_snapshot(dice.choice(snapshots)).commit()
        case 6 if snapshots and snapshots[0] != table.metadata.current_snapshot_id:
            table.maintenance.expire_snapshots().by_id(snapshots[0]).commit()
        case _:
            with table.transaction() as change:
                change.set_properties({"firnline.note": str(number)})


def recount(table: LoadedTable) -> dict[Scope, FileTally]:
    head = table.head_id("main")
    entries = [] if head is None else live_entries(table, head, Detail.COUNTS)
    return {part.scope: part.added for part in partition_changes(entries, TARGET)}


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_lost_the_counters_are_the_tables(
    seed: int, tmp_path: Path, committed: Callable[..., TableCommitted]
) -> None:
    dice = random.Random(seed)
    catalog = MemoryCatalog(f"file://{tmp_path}")
    catalog.make("db.t", SCHEMA, SPEC, **{"write.target-file-size-bytes": str(TARGET)})
    flow = Flow(catalog)
    before = None
    for number in range(20):
        commit(catalog.load_table("db.t"), dice, number)
        now = flow.tables.load_named(("db",), "t")
        event = committed(before, now, f"commit-{number}")
        before = now
        for _ in range(dice.choice([0, 1, 1, 1, 2])):
            flow.tell(event)
        if dice.random() < 0.5:
            flow.second()
        if dice.random() < 0.1:
            flow.restart()
    catalog.load_table("db.t").append(rows((9, 99)))
    table = flow.tables.load_named(("db",), "t")
    flow.tell(committed(before, table, "the last"))  # without one more, a loss stays unseen
    for _ in range(SECONDS_TO_HEAL):
        flow.second()
    state = flow.state(table.identity.uuid)
    assert not state.waiting_for_resync
    assert state.head_snapshot_id == table.head_id("main")
    holds = {one.scope: one.holds for one in state.partitions if one.holds != FileTally()}
    assert holds == recount(table)
    assert flow.broker.records("dead-letters") == []


def test_a_table_that_lived_before_us_is_asked_for_once(
    tmp_path: Path, committed: Callable[..., TableCommitted]
) -> None:
    catalog = MemoryCatalog(f"file://{tmp_path}")
    catalog.make("db.t", SCHEMA, SPEC, **{"write.target-file-size-bytes": str(TARGET)})
    for number in range(3):
        catalog.load_table("db.t").append(rows((number, number)))
    flow = Flow(catalog)
    before = flow.tables.load_named(("db",), "t")
    catalog.load_table("db.t").append(rows((1, 7)))
    table = flow.tables.load_named(("db",), "t")
    flow.tell(committed(before, table, "first seen"))
    for _ in range(5):
        flow.second()
    questions = flow.broker.records("resync-requests")
    assert [type(one) for one in questions] == [ResyncTable]
    state = flow.state(table.identity.uuid)
    assert {one.scope: one.holds for one in state.partitions} == recount(table)
    assert (state.snapshot_count, state.waiting_for_resync) == (4, False)


def test_a_dropped_table_is_forgotten(
    tmp_path: Path, committed: Callable[..., TableCommitted]
) -> None:
    catalog = MemoryCatalog(f"file://{tmp_path}")
    catalog.make("db.t", SCHEMA, SPEC).append(rows((1, 1)))
    flow = Flow(catalog)
    table = flow.tables.load_named(("db",), "t")
    event = committed(None, table, "created")
    flow.tell(event)
    flow.second()
    catalog.drop_table("db.t")
    flow.tell(event)  # late: its table is gone
    flow.second()
    state = flow.state(table.identity.uuid)
    assert (state.removed, state.partitions) == (True, ())
