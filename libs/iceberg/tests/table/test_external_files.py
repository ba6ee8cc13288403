"""Which files are a table's own, and that each list and manifest is read once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firnline_iceberg.table import external_files
from firnline_iceberg.table.external_files import ExternalFiles, OwnLocations
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.retained_names import content_paths
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.kit.memory_catalog import MemoryCatalog, MemoryTables


@pytest.mark.parametrize(
    ("location", "properties", "path", "own"),
    [
        ("s3://b/t", {}, "s3://b/t/data/f.parquet", True),
        ("s3://b/t/", {}, "s3a://b/t/data/f.parquet", True),  # one store, two clients
        ("s3://b/t", {}, "s3://b/t2/f.parquet", False),
        ("s3://b/t", {}, "s3://other/t/f.parquet", False),
        ("s3://b/t", {}, "s3://b/t/../u/f.parquet", False),
        ("s3://b/t", {}, "s3://b/t/%2e%2E/u/f.parquet", False),  # for who decodes it
        ("s3://b/t", {}, "s3://b/t/%252e%252e/u/f.parquet", False),
        ("s3://b/t", {}, "s3://b/t/a..b/f.parquet", True),
        ("s3://b/t", {"write.data.path": "s3://d/t"}, "s3://d/t/f.parquet", True),
        ("s3://b/t", {"write.metadata.path": "s3://m"}, "s3://m/x.avro", True),
        ("s3://b/t", {"write.object-storage.path": "s3://o"}, "s3://o/0101/f.parquet", True),
        ("file:/w/t", {}, "file:///w/t/f.parquet", True),
        ("/w/t", {}, "file:/w/t/f.parquet", True),
        ("hdfs://a/w/t", {}, "hdfs://a/hive/p=1/f.parquet", False),
    ],
)
def test_only_what_is_clearly_below_a_location_is_the_tables_own(
    location: str, properties: dict[str, str], path: str, own: bool
) -> None:
    assert OwnLocations.from_properties(location, properties).contains(path) is own


@pytest.fixture
def catalog(tmp_path: Path) -> MemoryCatalog:
    made = MemoryCatalog(f"file://{tmp_path}/warehouse")
    made.make("db.t", Schema(NestedField(1, "id", LongType())))
    return made


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def loaded(catalog: MemoryCatalog) -> LoadedTable:
    return MemoryTables(catalog).load_named(("db",), "t")


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    def content(table: LoadedTable, path: str, live_alone: bool) -> list[str]:
        found.append(path)
        return list(content_paths(table, path, live_alone))

    monkeypatch.setattr(external_files, "content_paths", content)
    return found


def test_a_file_that_only_an_older_snapshot_has_is_found(
    catalog: MemoryCatalog, tmp_path: Path
) -> None:
    table = catalog.load_table("db.t")
    table.append(rows(1))
    assert ExternalFiles().find_first(loaded(catalog)) is None
    path = f"{tmp_path}/others.parquet"
    pq.write_table(rows(2), path)
    table.add_files([path])
    assert ExternalFiles().find_first(loaded(catalog)) == path
    table.overwrite(rows(3))  # our compaction would do the same to it
    assert ExternalFiles().find_first(loaded(catalog)) == path


def test_what_was_read_once_is_not_read_again(
    catalog: MemoryCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, looked = catalog.load_table("db.t"), ExternalFiles()
    for number in range(3):
        table.append(rows(number))
    read = reads(monkeypatch)
    assert looked.find_first(loaded(catalog)) is None
    assert len(read) == len(set(read)) == 3
    assert looked.find_first(loaded(catalog)) is None
    assert len(read) == 3
    table.append(rows(9))
    assert looked.find_first(loaded(catalog)) is None
    assert len(read) == 4


def test_a_table_that_was_given_another_location_is_read_anew(catalog: MemoryCatalog) -> None:
    table, looked = catalog.load_table("db.t"), ExternalFiles()
    table.append(rows(1))
    assert looked.find_first(loaded(catalog)) is None
    with table.transaction() as change:
        change.set_properties({"write.data.path": "s3://elsewhere/t"})
    assert looked.find_first(loaded(catalog)) is None
    metadata = loaded(catalog).metadata.model_copy(update={"location": "s3://elsewhere/t"})
    assert looked.find_first(replace(loaded(catalog), metadata=metadata)) is not None


def test_little_is_remembered(catalog: MemoryCatalog) -> None:
    table, looked = catalog.load_table("db.t"), ExternalFiles(most=2)
    for number in range(5):
        table.append(rows(number))
    assert looked.find_first(loaded(catalog)) is None
    assert len(looked._clean) == 2
