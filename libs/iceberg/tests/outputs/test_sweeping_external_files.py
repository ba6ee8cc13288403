"""A table that may share files is not swept, unless it says itself that these may go."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firnline_iceberg.outputs import write_ahead_list
from firnline_iceberg.outputs.names import TaskRun
from firnline_iceberg.outputs.write_ahead_list import OutputList
from firnline_iceberg.removal.sweep import OutputSweeper
from firnline_iceberg.table.external_files import ExternalFiles
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.kit.memory_catalog import MemoryCatalog, MemoryTables

ROWS = pa.table({"id": pa.array([1], pa.int64())})
AGREED = {"firnline.expire.enabled": "true"}


@pytest.mark.parametrize(
    ("added", "properties", "kept"),
    [
        (False, {}, False),
        (True, {}, True),
        (False, {"migrated": "true"}, True),
        (False, {"snapshot": "true"}, True),
        (True, AGREED, False),
        (False, {"migrated": "true", **AGREED}, False),
        (True, {"firnline.expire.enabled": "false"}, True),
    ],
)
def test_who_keeps_it_back(
    catalog: MemoryCatalog, tmp_path: Path, added: bool, properties: dict[str, str], kept: bool
) -> None:
    table = catalog.make("ns.t", Schema(NestedField(1, "id", LongType())), **properties)
    table.append(ROWS)
    if added:
        pq.write_table(ROWS, f"{tmp_path}/others.parquet")
        table.add_files([f"{tmp_path}/others.parquet"])
    tables = MemoryTables(catalog)
    name = tables.load_named(("ns",), "t").identity
    assert ExternalFiles().keep_back(tables.load(name)) is kept
    folder = Path(table.metadata_location.removeprefix("file://")).parent
    run = TaskRun(name.uuid, "task", 1, "cafe0000")
    output = f"file://{folder.parent}/data/{run.output_name(0, 0)}"
    listed = OutputList("task", 1, name.uuid, "w", 0, (output,))
    write_ahead_list.write_list(table.io, f"file://{folder}/{run.list_name}", listed)
    later = int(folder.stat().st_mtime * 1000) + 60_000
    swept = OutputSweeper(tables, lambda: later, 1_000, lambda *_: later).sweep(name)
    assert swept.skipped_by_reason == ({"external_files": 1} if kept else {})
