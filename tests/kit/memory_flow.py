"""Enricher and planner over topics in memory, and one table that PyIceberg changes at random."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import RecordCodec, encode_record
from firnline_domain.identity import Scope, bucket_of
from firnline_domain.records.events import ChangeKind, TableCommitted, TickPassed
from firnline_domain.records.parts.tallies import FileTally
from firnline_domain.records.states import TableState
from firnline_domain.settings.thresholds import Thresholds
from firnline_enricher.handlers import EnricherHandlers
from firnline_enricher.pump import EnricherPump
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.metadata.partition_tally import partition_changes
from firnline_iceberg.scan.planning import live_entries
from firnline_iceberg.table.catalog_client import Tables
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


class Flow:
    """Topics in memory, an enricher and a planner, and their clock. `catalog`: in memory, or the
    client of another one."""

    def __init__(self, catalog: MemoryCatalog | Tables) -> None:
        self.catalog: Any = catalog
        in_memory = isinstance(catalog, MemoryCatalog)
        self.tables: Any = MemoryTables(catalog) if in_memory else catalog
        self.codec = RecordCodec()
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

    def folded_once(self) -> bool:
        """Return whether each snapshot's files were read for the planner once, at the most."""
        deltas = Counter(
            (one.snapshot_id, one.chunk)
            for one in self.broker.records("file-changes")
            if one.kind is ChangeKind.DELTA and one.snapshot_id is not None
        )
        return set(deltas.values()) <= {1}


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


def check_counters(flow: Flow, name: str = "t", namespace: str = "db") -> None:
    table = flow.tables.load_named((namespace,), name)
    state = flow.state(table.identity.key)
    assert not state.waiting_for_resync
    assert state.head_snapshot_id == table.head_id("main")
    holds = {one.scope: one.holds for one in state.partitions if one.holds != FileTally()}
    assert holds == recount(table)
    assert flow.broker.records("dead-letters") == []
