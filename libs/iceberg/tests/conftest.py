"""Tables of a catalog in memory over real files, and manifests written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from libs.iceberg.tests.removal_world import World
from libs.iceberg.tests.stored_catalog import StoredCatalog
from tests.kit.memory_catalog import MemoryCatalog

Fields = list[dict[str, Any]]
WriteManifest = Callable[..., str]


@pytest.fixture
def io() -> FileIO:
    return PyArrowFileIO()


@pytest.fixture
def catalog(tmp_path: Path) -> MemoryCatalog:
    return StoredCatalog(f"file://{tmp_path}/warehouse")


def field(key: int, name: str, kind: Any, optional: bool = False) -> dict[str, Any]:
    kind = ["null", kind] if optional else kind
    return {"name": name, "type": kind, "field-id": key, **({"default": None} if optional else {})}


def stat_map(key: int, name: str, value: str) -> dict[str, Any]:
    pair = {
        "type": "record",
        "name": f"k{key}",
        "fields": [field(key * 10, "key", "int"), field(key * 10 + 1, "value", value)],
    }
    return field(key, name, {"type": "array", "logicalType": "map", "items": pair}, optional=True)


DATA_FILE: Fields = [
    field(100, "file_path", "string"),
    field(101, "file_format", "string"),
    field(103, "record_count", "long"),
    field(104, "file_size_in_bytes", "long"),
]
DATA_FILE_V2: Fields = [
    field(134, "content", "int"),
    *DATA_FILE,
    stat_map(109, "value_counts", "long"),
    stat_map(110, "null_value_counts", "long"),
    stat_map(125, "lower_bounds", "bytes"),
    stat_map(128, "upper_bounds", "bytes"),
    field(131, "key_metadata", "bytes", optional=True),
    field(135, "equality_ids", {"type": "array", "items": "int"}, optional=True),
    field(140, "sort_order_id", "int", optional=True),
    field(143, "referenced_data_file", "string", optional=True),
]
DATA_FILE_V3: Fields = [
    *DATA_FILE_V2,
    field(142, "first_row_id", "long", optional=True),
    field(144, "content_offset", "long", optional=True),
    field(145, "content_size_in_bytes", "long", optional=True),
]
ENTRY: Fields = [
    field(0, "status", "int"),
    field(1, "snapshot_id", "long", optional=True),
    field(3, "sequence_number", "long", optional=True),
    field(4, "file_sequence_number", "long", optional=True),
]
ENTRY_V1: Fields = [field(0, "status", "int"), field(1, "snapshot_id", "long")]


@pytest.fixture
def write_manifest(tmp_path: Path) -> WriteManifest:
    """`write_manifest(version, entries, partition_fields=[], optional=False)` -> path.

    An entry is flat: {"status": 1, "file_path": ..., "partition": {...}, ...}. `optional`: whether
    the partition tuple may be null.
    """
    written = 0

    def write(
        version: int,
        entries: list[dict[str, Any]],
        partition: Fields | None = None,
        optional: bool = False,
    ) -> str:
        nonlocal written
        written += 1
        own = {1: DATA_FILE, 2: DATA_FILE_V2, 3: DATA_FILE_V3}[version]
        tuple_type = {"type": "record", "name": "r102", "fields": partition or []}
        file = {
            "type": "record",
            "name": "r2",
            "fields": [*own, field(102, "partition", tuple_type, optional)],
        }
        top = [*(ENTRY_V1 if version == 1 else ENTRY), field(2, "data_file", file)]
        path = tmp_path / f"manifest-{written}.avro"
        with path.open("wb") as stream:
            schema = {"type": "record", "name": "manifest_entry", "fields": top}
            fastavro.writer(stream, schema, [_entry(entry) for entry in entries], codec="deflate")
        return f"file://{path}"

    return write


def _entry(flat: dict[str, Any]) -> dict[str, Any]:
    base = {"file_format": "PARQUET", "record_count": 10, "file_size_in_bytes": 100, "content": 0}
    return {**flat, "data_file": {**base, "partition": {}, **flat}}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture
def world(made: World) -> Iterator[World]:
    made.restore()
    yield made
    made.restore()
