"""When a partition's files came, by the snapshots that are left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from firnline_domain.identity import Scope, TableName
from firnline_iceberg.commit.partition_last_change import LastChanges
from firnline_iceberg.metadata.entries import DataFileEntry, EntryStatus
from firnline_iceberg.table.catalog_client import to_loaded_table
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.kit.memory_catalog import MemoryCatalog

SCHEMA = Schema(NestedField(1, "id", LongType()))
ROWS = pa.table({"id": pa.array([1], pa.int64())})


def entry(snapshot_id: int | None, number: int | None, at: str = "[1]") -> DataFileEntry:
    return DataFileEntry(
        path="p", manifest_path="m", status=EntryStatus.EXISTING, snapshot_id=snapshot_id,
        sequence_number=1, file_sequence_number=number, spec_id=0, partition=at,
        format="PARQUET", records=1, bytes=1,
    )  # fmt: skip


def made(catalog: MemoryCatalog) -> LoadedTable:
    table = catalog.make("db.t", SCHEMA, **{"format-version": "2"})
    for _ in range(3):
        table.append(ROWS)
    name = TableName(str(table.metadata.table_uuid), ("db",), "t")
    found = to_loaded_table(name, catalog.load_table("db.t"))
    snapshots = [
        one.model_copy(update={"timestamp_ms": 1000 * (number + 1)})
        for number, one in enumerate(found.metadata.snapshots)
    ]
    metadata = found.metadata.model_copy(update={"snapshots": snapshots})
    return replace(found, metadata=metadata)


def noted(table: LoadedTable, *entries: DataFileEntry) -> LastChanges:
    changes = LastChanges(table)
    assert [*changes.note_entries(entries)] == [*entries]
    return changes


def test_the_newest_file_of_each_partition_says_it(catalog: MemoryCatalog) -> None:
    table = made(catalog)
    first, second, third = (one.snapshot_id for one in table.snapshots)
    found = noted(table, entry(second, 2), entry(first, 1), entry(third, 3, "[2]"))
    scopes = [Scope(0, at) for at in ("[1]", "[2]", "[3]")]
    assert [found.changed_ms(one) for one in scopes] == [2000, 3000, None]


def test_a_file_of_an_expired_snapshot_is_no_younger_than_the_next_one(
    catalog: MemoryCatalog,
) -> None:
    table = made(catalog)
    left: Any = table.metadata.model_copy(update={"snapshots": table.metadata.snapshots[1:]})
    expired, table = table.snapshots[0].snapshot_id, replace(table, metadata=left)
    assert noted(table, entry(expired, 1)).changed_ms(Scope(0, "[1]")) == 2000
    assert noted(table, entry(expired, None)).changed_ms(Scope(0, "[1]")) == 3000  # nobody knows
    assert noted(table, entry(None, 3)).changed_ms(Scope(0, "[1]")) == 3000
