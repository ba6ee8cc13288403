"""Statistics of snapshots that have expired are removed, unless another table may have them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from firnline_domain.identity import TableName
from firnline_domain.records.orders import TableOrder
from firnline_worker.table_actions.compute_statistics import StatisticsComputer
from pyiceberg.schema import Schema
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.types import LongType, NestedField

from tests.kit.memory_catalog import MemoryCatalog, MemoryTables

GONE = 7  # a snapshot


@pytest.mark.parametrize(
    ("cloned", "properties", "stays"),
    [(False, {}, False), (True, {}, True), (False, {"gc.enabled": "false"}, True)],
)
def test_statistics_stay_that_another_table_may_have(
    tmp_path: Path, cloned: bool, properties: dict[str, str], stays: bool
) -> None:
    catalog = MemoryCatalog(f"file://{tmp_path}")
    made = catalog.make("db.t", Schema(NestedField(1, "id", LongType())))
    if properties:
        with made.transaction() as change:
            change.set_properties(properties)
    if cloned:
        catalog.clone("dev.copy", "db.t")
    name = TableName(str(made.metadata.table_uuid), ("db",), "t")
    tables: Any = MemoryTables(catalog)
    table = tables.load(name)
    path = Path(table.metadata_location.removeprefix("file://")).parent / "7-x.stats"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    sizes = {"file-size-in-bytes": 0, "file-footer-size-in-bytes": 0}
    place = {"snapshot-id": GONE, "statistics-path": path.as_uri(), "blob-metadata": []}
    stale = StatisticsFile(**sizes, **place)
    described = table.metadata.model_copy(update={"statistics": [stale]})
    order = TableOrder("t", name, "compute_statistics", "r", 1, 1, 0, 0)
    unused: Any = None
    computer = StatisticsComputer(tables, unused, "w", lambda: 0)
    computer._remove_stale(order, replace(table, metadata=described), (GONE,))
    assert path.exists() is stays
