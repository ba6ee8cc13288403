"""Which deletes apply (iceberg-rules 2.1), and what is live."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry, EntryStatus
from firnline_iceberg.scan.planning import DeleteIndex, LiveFiles, live_files
from firnline_iceberg.table.loaded_table import LoadedTable, RefGone, SnapshotGone, TableGone
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from tests.kit.memory_catalog import MemoryCatalog, MemoryTables

EQUALITY, POSITION, VECTOR = DeleteKind.EQUALITY, DeleteKind.POSITION, DeleteKind.DELETION_VECTOR
BASE: dict[str, Any] = {
    "manifest_path": "m",
    "status": EntryStatus.ADDED,
    "snapshot_id": 1,
    "file_sequence_number": 1,
    "format": "PARQUET",
    "records": 1,
    "bytes": 1,
}


def data(sequence: int, path: str = "file:/w/a", spec: int = 0, at: str = "[1]") -> DataFileEntry:
    return DataFileEntry(path=path, sequence_number=sequence, spec_id=spec, partition=at, **BASE)


def delete(
    kind: DeleteKind, sequence: int, spec: int = 0, at: str = "[1]", of: str | None = None
) -> DeleteFileEntry:
    return DeleteFileEntry(
        path=f"{kind}-{sequence}",
        kind=kind,
        sequence_number=sequence,
        spec_id=spec,
        partition=at,
        referenced_data_file=of,
        **BASE,
    )


def applied(deletes: list[DeleteFileEntry], to: DataFileEntry) -> list[int]:
    return [one.sequence_number for one in DeleteIndex(deletes).for_data_file(to)]


def test_an_equality_delete_is_strictly_younger_than_what_it_deletes() -> None:
    deletes = [delete(EQUALITY, number) for number in (3, 1, 2)]
    assert applied(deletes, data(2)) == [3]
    assert applied(deletes, data(1)) == [2, 3]


@pytest.mark.parametrize("of", [None, "file:///w/a"])
def test_a_position_delete_may_be_as_young_as_its_file(of: str | None) -> None:
    deletes = [delete(POSITION, number, of=of) for number in (1, 2, 3)]
    assert applied(deletes, data(2)) == [2, 3]


@pytest.mark.parametrize("kind", [EQUALITY, POSITION])
@pytest.mark.parametrize(("spec", "at"), [(1, "[1]"), (0, "[2]"), (0, "[null]")])
def test_spec_and_partition_must_be_the_same(kind: DeleteKind, spec: int, at: str) -> None:
    assert applied([delete(kind, 9, spec, at)], data(1)) == []


def test_only_equality_deletes_of_an_unpartitioned_spec_are_global() -> None:
    deletes = [delete(EQUALITY, 2, 7, "[]"), delete(POSITION, 3, 7, "[]"), delete(EQUALITY, 4)]
    assert applied(deletes, data(1)) == [2, 4]


def test_a_file_scoped_delete_names_its_file_in_any_spelling() -> None:
    deletes = [delete(POSITION, 2, of="file:///w/a"), delete(POSITION, 3, of="file:///w/b")]
    assert applied(deletes, data(1, path="file:/w/a")) == [2]


def test_a_deletion_vector_hides_position_deletes_and_nothing_else() -> None:
    deletes = [
        delete(POSITION, 2),
        delete(POSITION, 3, of="file:///w/a"),
        delete(EQUALITY, 4),
        delete(VECTOR, 5, of="file:///w/a"),
    ]
    assert applied(deletes, data(1, "file:///w/a")) == [4, 5]
    assert applied(deletes, data(1, "file:///w/b")) == [4, 2]


def test_files_of_a_scope_come_with_their_deletes() -> None:
    here, there = data(1), data(1, "file:/w/b", at="[2]")
    live = LiveFiles(5, (here, there), (delete(EQUALITY, 2),))
    (planned,) = live.files_of_scope(Scope(0, "[1]"))
    assert (planned.data, [one.sequence_number for one in planned.deletes]) == (here, [2])
    assert live.scopes == (Scope(0, "[1]"), Scope(0, "[2]"))
    assert live.data_file("file:///w/b") is there


SCHEMA = Schema(NestedField(1, "part", LongType()), NestedField(2, "id", LongType()))
SPEC = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "part"))


def rows(*pairs: tuple[int, int]) -> pa.Table:
    part, ids = zip(*pairs, strict=True)
    return pa.table({"part": pa.array(part, pa.int64()), "id": pa.array(ids, pa.int64())})


@pytest.fixture
def history(catalog: MemoryCatalog) -> LoadedTable:
    """Three appends of partitions 1 and 2, then partition 1 deleted."""
    table = catalog.make("db.t", SCHEMA, SPEC)
    for number in range(3):
        table.append(rows((1, number), (2, number)))
    table.delete("part == 1")
    return MemoryTables(catalog).load_named(("db",), "t")


def test_live_files_are_those_of_the_snapshot_that_was_asked_for(history: LoadedTable) -> None:
    head, *older = history.ancestors(history.head_id("main"))
    live = live_files(history, head.snapshot_id)
    assert {(one.partition, one.sequence_number) for one in live.data} == {
        ("[2]", 1),
        ("[2]", 2),
        ("[2]", 3),
    }
    assert len(live_files(history, older[0].snapshot_id).data) == 6
    assert live_files(history, None).data == ()


def test_deleted_entries_beside_live_ones_are_not_live(
    catalog: MemoryCatalog, write_manifest: Callable[..., str], tmp_path: Path
) -> None:
    catalog.make("db.t", SCHEMA).append(rows((1, 1)))
    table = MemoryTables(catalog).load_named(("db",), "t")
    old = {"snapshot_id": 1, "sequence_number": 1, "file_sequence_number": 1}
    entries = [{"status": status, "file_path": f"f{status}", **old} for status in (0, 1, 2)]
    names = {500: "manifest_path", 501: "length", 502: "spec", 504: "added", 515: "seq"}
    fields = [
        {"name": name, "type": "string" if key == 500 else "long", "field-id": key}
        for key, name in names.items()
    ]
    values = (write_manifest(2, entries), 9, 0, 1, 4)
    path = tmp_path / "list.avro"
    with path.open("wb") as stream:
        schema = {"type": "record", "name": "manifest_file", "fields": fields}
        fastavro.writer(stream, schema, [dict(zip(names.values(), values, strict=True))])
    snapshot = table.snapshots[0].model_copy(update={"manifest_list": f"file://{path}"})
    changed = table.metadata.model_copy(update={"snapshots": [snapshot]})
    live = live_files(replace(table, metadata=changed), snapshot.snapshot_id)
    assert [one.path for one in live.data] == ["f0", "f1"]


def test_a_table_says_what_is_gone(history: LoadedTable, catalog: MemoryCatalog) -> None:
    tables = MemoryTables(catalog)
    with pytest.raises(SnapshotGone):
        history.snapshot(1)
    with pytest.raises(RefGone):
        history.head("audit")
    with pytest.raises(TableGone):
        tables.load(TableName("another-uuid", ("db",), "t"))
    with pytest.raises(TableGone):
        tables.load_named(("db",), "u")


def test_ancestors_end_where_snapshots_are_not_retained(catalog: MemoryCatalog) -> None:
    table = catalog.make("db.t", SCHEMA)
    for number in range(3):
        table.append(rows((1, number)))
    chain = [one.snapshot_id for one in table.metadata.snapshots]
    table.maintenance.expire_snapshots().by_id(chain[0]).commit()
    loaded = MemoryTables(catalog).load_named(("db",), "t")
    assert [one.snapshot_id for one in loaded.ancestors(chain[2])] == [chain[2], chain[1]]
    assert not loaded.retains(chain[0])
