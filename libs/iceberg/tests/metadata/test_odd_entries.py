"""Manifests whose schema has other types than the specification's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastavro
import pytest
from firnline_iceberg.metadata.avro_reader import MetadataUnreadable
from firnline_iceberg.metadata.manifest_reader import Detail, ManifestFile, read_manifest
from firnline_iceberg.metadata.partition_text import PartitionText
from pyiceberg.io import FileIO
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
