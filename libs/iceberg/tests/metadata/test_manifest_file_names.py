"""Names in a manifest are the same, decoded or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from firnline_iceberg.metadata import manifest_file_names
from firnline_iceberg.metadata.avro_reader import MetadataFileGone, MetadataUnreadable
from firnline_iceberg.metadata.manifest_file_names import names_in
from pyiceberg.io.pyarrow import PyArrowFileIO

from libs.iceberg.tests.removal.test_orphans import Site

FORMATS = ["PARQUET", "parquet", "ORC", "AVRO", "PUFFIN", "puffin"]
PATHS = [
    "s3://b/t/data/p=a%3Db/00000-0-789899ae-0b29-457b-90dc-39ce718a5b2a-00001.parquet",
    "file:/t/data/ü€/\U0001f600.parquet",
    "/t/PARQUET",
    "s3://b/t/x\ny.orc",
    "s3://b/t/data/",
    "s3://b//t/data//a b.parquet",
    *(f"s3://b/t/data/{n % 7}/{n:06}-{'x' * (n % 300)}.parquet" for n in range(2_000)),
]
FILE = {
    "type": "record",
    "name": "r2",
    "fields": [
        {"name": "content", "type": "int", "field-id": 134},
        {"name": "file_path", "type": "string", "field-id": 100},
        {"name": "file_format", "type": "string", "field-id": 101},
        {"name": "record_count", "type": "long", "field-id": 103},
        {"name": "bound", "type": "bytes", "field-id": 125},
    ],
}


def written(path: Path, rows: list[dict[str, Any]], file: Any = None, codec: str = "null") -> str:
    schema = {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            {"name": "status", "type": "int", "field-id": 0},
            {"name": "data_file", "type": file or FILE, "field-id": 2},
        ],
    }
    with path.open("wb") as out:
        fastavro.writer(out, schema, [{"status": 1, "data_file": one} for one in rows], codec)
    return f"file://{path}"


def row(path: str, kind: str = "PARQUET", bound: bytes = b"", records: int = 1) -> dict[str, Any]:
    return {
        "content": 0, "file_path": path, "file_format": kind, "record_count": records,
        "bound": bound,
    }  # fmt: skip


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Manifests that were decoded."""
    seen, real = list[str](), manifest_file_names.read_records

    def records(io: Any, path: str, wanted: Any) -> Any:
        seen.append(path)
        return real(io, path, wanted)

    monkeypatch.setattr(manifest_file_names, "read_records", records)
    return seen


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_names_of_all_kinds_come_undecoded(tmp_path: Path, decoded: list[str], codec: str) -> None:
    bounds = [b"", b"/left/right", b"s3://b/t/data/other.parquet", b"\x0e", b"/"]
    rows = [
        row(path, FORMATS[n % len(FORMATS)], bounds[n % len(bounds)], n * 997)
        for n, path in enumerate(PATHS)
    ]
    place = written(tmp_path / "m.avro", rows, codec=codec)
    assert names_in(PyArrowFileIO(), place) == {one.rsplit("/", 1)[-1] for one in PATHS}
    assert decoded == []


@pytest.mark.parametrize(
    "rows",
    [
        [row("relative.parquet")],
        [row("s3://b/a.lance", "LANCE")],
        [row("s3://b/a.parquet", bound=b"/x\x0ePARQUET"), row("s3://b/c.parquet")],
        [row("s3://b/a\x0ePARQUET-b/c.parquet")],
    ],
)
def test_what_looks_otherwise_is_decoded(
    tmp_path: Path, decoded: list[str], rows: list[dict[str, Any]]
) -> None:
    place = written(tmp_path / "m.avro", rows)
    names = {one["file_path"].rsplit("/", 1)[-1] for one in rows}
    assert names_in(PyArrowFileIO(), place) == names
    assert len(decoded) == 1


@pytest.mark.parametrize("order", [[0, 2, 1, 3, 4], [0, 1, 3, 2, 4], [2, 0, 3, 4, 1]])
def test_a_schema_in_another_order_is_decoded(
    tmp_path: Path, decoded: list[str], order: list[int]
) -> None:
    file = json.loads(json.dumps(FILE))
    file["fields"] = [file["fields"][one] for one in order]
    place = written(tmp_path / "m.avro", [row("s3://b/a.parquet"), row("s3://b/c.parquet")], file)
    assert names_in(PyArrowFileIO(), place) == {"a.parquet", "c.parquet"}
    assert len(decoded) == 1


def test_manifests_of_pyiceberg_come_undecoded(tmp_path: Path, decoded: list[str]) -> None:
    site = Site(tmp_path)
    table = site.table()
    found = set[str]()
    for snapshot in table.metadata.snapshots:
        for manifest in site.made.metadata.snapshot_by_id(snapshot.snapshot_id).manifests(table.io):
            found |= names_in(table.io, manifest.manifest_path)
    stored = {Path(one).name for one in site.stored() if one.endswith(".parquet")}
    assert found == stored
    assert decoded == []


def test_what_is_gone_or_broken_is_told(tmp_path: Path) -> None:
    with pytest.raises(MetadataFileGone):
        names_in(PyArrowFileIO(), f"file://{tmp_path}/no.avro")
    place = written(tmp_path / "m.avro", [row(one) for one in PATHS])
    path = tmp_path / "m.avro"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(MetadataUnreadable):
        names_in(PyArrowFileIO(), place)
