"""Manifests whose schema has other types than the specification's."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from firnline_iceberg.metadata.avro_reader import _HEADER, MetadataUnreadable, read_records
from firnline_iceberg.metadata.field_ids import ENTRY_PATHS
from firnline_iceberg.metadata.manifest_reader import (
    Detail,
    ManifestFile,
    read_manifest,
    read_manifest_list,
)
from firnline_iceberg.metadata.partition_text import PartitionText
from firnline_iceberg.metadata.repeated_rows import RepeatedRows
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, NestedField


def manifest_of(path: str, holds_deletes: bool = False) -> ManifestFile:
    return ManifestFile(
        path=path,
        length=1,
        spec_id=0,
        added_snapshot_id=77,
        sequence_number=5,
        holds_deletes=holds_deletes,
    )


def of_types(tmp_path: Path, entry_of: dict[str, Any], **kinds: Any) -> str:
    """Write a manifest with fields of these types."""

    def field(name: str, field_id: int, kind: Any) -> dict[str, Any]:
        return {"name": name, "type": kinds.get(name, kind), "field-id": field_id}

    partition = {"type": "record", "name": "r102", "fields": [field("day", 1000, "int")]}
    ids = ["null", {"type": "array", "items": "int"}]
    file = [
        field("content", 134, "int"),
        field("file_path", 100, "string"),
        field("file_format", 101, "string"),
        field("partition", 102, partition),
        field("record_count", 103, "long"),
        field("file_size_in_bytes", 104, "long"),
        field("equality_ids", 135, ids),
        field("referenced_data_file", 143, ["null", "string"]),
    ]
    top = [
        field("status", 0, "int"),
        field("sequence_number", 3, ["null", "long"]),
        field("data_file", 2, {"type": "record", "name": "r2", "fields": file}),
    ]
    usual = {"status": 1, "content": 0, "file_path": "s3://b/f", "file_format": "PARQUET"}
    more = {"record_count": 1, "file_size_in_bytes": 1, "day": 1, **usual, **entry_of}
    record = {**more, "data_file": {**more, "partition": {"day": more["day"]}}}
    path = tmp_path / "odd.avro"
    schema = {"type": "record", "name": "manifest_entry", "fields": top}
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, [record])
    return f"file://{path}"


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("record_count", ["null", "long"], None),
        ("record_count", "string", "many"),
        ("record_count", "double", 1.5),
        ("file_size_in_bytes", ["null", "long"], None),
        ("file_path", ["null", "string"], None),
        ("file_path", "long", 5),
        ("file_format", ["null", "string"], None),
        ("status", "int", 7),
        ("content", "int", 9),
        ("sequence_number", ["null", "string"], "late"),
        ("equality_ids", ["null", "int"], 5),
        ("referenced_data_file", ["null", "long"], 7),
        ("day", "string", "tomorrow"),
        ("day", "double", float("inf")),
        ("day", {"type": "array", "items": "int"}, [1]),
    ],
)
@pytest.mark.parametrize("detail", list(Detail))
def test_an_entry_of_other_types_is_unreadable(
    io: FileIO, tmp_path: Path, name: str, kind: Any, value: Any, detail: Detail
) -> None:
    """Whoever reads it says so of the manifest, and takes it for no error of Firnline's."""
    content = {"content": 1 + (name == "equality_ids")} if name[0] in "er" else {}
    path = of_types(tmp_path, {**content, name: value}, **{name: kind})
    manifest = manifest_of(path, bool(content))
    by_day = PartitionText(
        PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "day")),
        [Schema(NestedField(1, "day", DateType()))],
    )
    with pytest.raises(MetadataUnreadable) as refused:
        list(read_manifest(io, manifest, by_day, detail))
    assert path in str(refused.value)


def test_a_manifest_whose_schema_is_none_is_unreadable(io: FileIO, tmp_path: Path) -> None:
    path = tmp_path / "none.avro"
    content = Path(of_types(tmp_path, {}).removeprefix("file://")).read_bytes()
    path.write_bytes(content.replace(b'"name": "r102"', b'"nome": "r102"'))
    with pytest.raises(MetadataUnreadable):
        list(read_manifest(io, manifest_of(f"file://{path}"), PartitionText(PartitionSpec(), [])))


NOTHING = {"type": "record", "name": "r508", "fields": []}
AGAIN = {"type": "record", "name": "again", "fields": [{"name": "r", "type": "again"}]}


@pytest.mark.parametrize(
    "kind",
    [AGAIN, {"type": "array", "items": "null"}, {"type": "array", "items": NOTHING}],
    ids=["within itself", "of nothing", "of empty records"],
)
@pytest.mark.parametrize("field_id", [999, 507])
@pytest.mark.parametrize(
    "read", [read_manifest_list, lambda io, path: RepeatedRows().manifest_paths(io, path)]
)
def test_no_schema_of_a_manifest_list_ends_or_holds_the_process(
    tmp_path: Path, kind: Any, field_id: int, read: Any
) -> None:
    """fastavro reads a record within itself until the stack ends, and 2**40 items of nothing."""
    fields = [
        {"name": "manifest_path", "type": "string", "field-id": 500},
        {"name": "manifest_length", "type": "long", "field-id": 501},
        {"name": "partition_spec_id", "type": "int", "field-id": 502},
        {"name": "partitions", "type": kind, "field-id": field_id},
    ]
    schema = json.dumps({"type": "record", "name": "manifest_file", "fields": fields})
    row = b"\x02m\x00\x00" + b"\x80" * 5 + b"\x40\x00"  # and an array of 2**40 items
    stream = BytesIO()
    header = {"magic": b"Obj\1", "meta": {"avro.schema": schema.encode(), "avro.codec": b"null"}}
    fastavro.schemaless_writer(stream, _HEADER, header)
    sync = b"s" * 16
    path = tmp_path / "snap.avro"
    path.write_bytes(stream.getvalue() + sync + b"\x02" + bytes([2 * len(row)]) + row + sync)
    with pytest.raises(MetadataUnreadable, match=r"within itself|take no bytes"):
        read(PyArrowFileIO(), f"file://{path}")


def test_a_path_that_is_no_text_in_its_schema_is_unreadable(tmp_path: Path) -> None:
    """2**60 rows of a path that is null take no byte."""
    path = of_types(tmp_path, {"file_path": None}, file_path="null")
    with pytest.raises(MetadataUnreadable, match="file_path has the type null"):
        list(read_records(PyArrowFileIO(), path, ENTRY_PATHS))
