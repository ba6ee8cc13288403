"""Statistics that say something else than the rows are turned red."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firnline_chaos import described
from pyiceberg.io.pyarrow import PyArrowFileIO

from tests.kit.file_entries import data
from tests.kit.lake.rows import MARKER, Change, Lineage, Row

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


def table(**metadata: Any) -> Any:
    given = {"statistics": [], "partition_statistics": [], **metadata}
    return SimpleNamespace(
        io=PyArrowFileIO({}),
        snapshots=[SimpleNamespace(snapshot_id=SNAPSHOT)],
        metadata=SimpleNamespace(**given),
        identity=SimpleNamespace(name="t"),
    )


def statistics(path: Path, ndv: int, snapshot_id: int = SNAPSHOT) -> Any:
    blob = SimpleNamespace(fields=[1], properties={"ndv": str(ndv)})
    return SimpleNamespace(statistics_path=str(path), snapshot_id=snapshot_id, blob_metadata=[blob])


def test_distinct_values_of_a_retained_snapshot(tmp_path: Path, lineage: Lineage) -> None:
    (file := tmp_path / "s.stats").write_bytes(b"x")
    assert described.findings(table(statistics=[statistics(file, 2)]), lineage) == []
    assert described.findings(table(statistics=[statistics(file, 3, 6)]), lineage) == []
    [found] = described.findings(table(statistics=[statistics(file, 3)]), lineage)
    assert "has 2 values of id, its statistics say 3" in found
    [found] = described.findings(table(statistics=[statistics(tmp_path / "no", 2)]), lineage)
    assert "is gone" in found


def test_files_and_rows_of_all_partitions(
    tmp_path: Path, lineage: Lineage, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = [data(f"f{n}.parquet") for n in range(3)]
    monkeypatch.setattr(described, "live_entries", lambda *_: live)
    rows = {"data_file_count": pa.array([1, 2]), "data_record_count": pa.array([10, 20])}
    pq.write_table(pa.table(rows), tmp_path / "p.parquet")
    one = SimpleNamespace(statistics_path=str(tmp_path / "p.parquet"), snapshot_id=SNAPSHOT)
    assert described.findings(table(partition_statistics=[one]), lineage) == []
    live.pop()
    [found] = described.findings(table(partition_statistics=[one]), lineage)
    assert "has 2 files of 20 rows, its partition statistics say [3, 30]" in found
