"""Statistics that say something else than the rows are turned red."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent

from tests.kit.lake.rows import MARKER, Change, Lineage, Row
from tests.kit.lake.statistics import find_wrong

SNAPSHOT = 7
PLACE = (0, "[]")


@pytest.fixture
def lineage() -> Lineage:
    found = Lineage()
    keys = (1, 1, 2, None)
    added = tuple(Row(n, key, "a", PLACE, 4) for n, key in enumerate(keys))
    found.mean("w", Change(added))
    found.observe([{"snapshot-id": SNAPSHOT, "summary": {MARKER: "w"}}])
    return found


def findings(lineage: Lineage, files: int = 0, **metadata: Any) -> list[str]:
    """`files`: in the snapshot's manifest, of ten rows each."""
    given = {"statistics": [], "partition_statistics": [], **metadata}
    file = SimpleNamespace(
        content=DataFileContent.DATA, file_format="PARQUET", partition=[1], record_count=10
    )
    entries = [SimpleNamespace(data_file=file)] * files
    manifest = SimpleNamespace(partition_spec_id=0, fetch_manifest_entry=lambda *_, **__: entries)
    snapshot = SimpleNamespace(snapshot_id=SNAPSHOT, manifests=lambda _: [manifest])
    table: Any = SimpleNamespace(
        io=PyArrowFileIO({}),
        snapshots=[snapshot],
        snapshot=lambda _: snapshot,
        metadata=SimpleNamespace(**given),
    )
    return list(find_wrong(table, lineage.distinct_ids))


def statistics(path: Path, ndv: int, snapshot_id: int = SNAPSHOT) -> Any:
    blob = SimpleNamespace(fields=[1], properties={"ndv": str(ndv)})
    return SimpleNamespace(statistics_path=str(path), snapshot_id=snapshot_id, blob_metadata=[blob])


def test_distinct_values_of_a_retained_snapshot(tmp_path: Path, lineage: Lineage) -> None:
    (file := tmp_path / "s.stats").write_bytes(b"x")
    assert findings(lineage, statistics=[statistics(file, 2)]) == []
    assert findings(lineage, statistics=[statistics(file, 3, 6)]) == []
    [found] = findings(lineage, statistics=[statistics(file, 3)])
    assert "has 2 values of field 1, its statistics say 3" in found
    [found] = findings(lineage, statistics=[statistics(tmp_path / "no", 2)])
    assert "is gone" in found


def test_files_and_rows_of_each_partition(tmp_path: Path, lineage: Lineage) -> None:
    row = {"partition": {"p": 1}, "spec_id": 0, "data_file_count": 3, "data_record_count": 30}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "p.parquet")
    one = SimpleNamespace(statistics_path=str(tmp_path / "p.parquet"), snapshot_id=SNAPSHOT)
    assert findings(lineage, 3, partition_statistics=[one]) == []
    [found] = findings(lineage, 2, partition_statistics=[one])
    assert "'data_file_count'): (3, 2)" in found
    assert "'data_record_count'): (30, 20)" in found
