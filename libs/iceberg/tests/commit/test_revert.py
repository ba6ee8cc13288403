"""What an undo takes for a task's own, by metadata alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from firnline_domain.identity import TableName
from firnline_iceberg.commit.revert import CannotUndo, UndoPlan, undo_of
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.kit.memory_catalog import MemoryCatalog, MemoryTables

CLAIM = {"firnline.task-id": "task"}


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def catalog(tmp_path: Path) -> MemoryCatalog:
    return MemoryCatalog(f"file://{tmp_path}")


def undo(catalog: MemoryCatalog, made: Any) -> UndoPlan | CannotUndo:
    name = TableName(str(made.metadata.table_uuid), ("db",), "t")
    return undo_of(MemoryTables(catalog).load(name), "main", "task")


@pytest.mark.parametrize("kind", ["append", "overwrite"])
def test_rows_of_a_writer_stay_whatever_its_summary_says(catalog: MemoryCatalog, kind: str) -> None:
    """It may even have copied the summary of our commit."""
    made = catalog.make("db.t", Schema(NestedField(1, "id", LongType())))
    made.append(rows_of(1, 2))
    made.delete("id == 1", snapshot_properties=CLAIM)  # as ours: with no row more
    assert isinstance(undo(catalog, made), UndoPlan)
    if kind == "append":
        made.append(rows_of(3), snapshot_properties=CLAIM)
    else:
        made.overwrite(rows_of(2, 4), snapshot_properties=CLAIM)
    found = undo(catalog, made)
    assert isinstance(found, CannotUndo)
    assert found.reason == "later_commits"
    assert str(made.current_snapshot().snapshot_id) in found.detail
