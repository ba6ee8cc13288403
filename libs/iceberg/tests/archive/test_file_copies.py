"""A copy has the same bytes, or is none; and says of itself what the file said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from firnline_domain.errors import StorageUnreachable, TaskRefused
from firnline_iceberg.archive.file_copies import copy_data_file, copy_json, copy_key
from firnline_iceberg.metadata.entries import DataFileEntry, EntryStatus, FileLayout, FileStats
from firnline_iceberg.outputs.names import TaskRun, parse_copy_name
from pyiceberg.io import FileIO, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

BODY = bytes(range(256)) * 1000


def entry(path: Path, size: int = len(BODY)) -> DataFileEntry:
    return DataFileEntry(
        path=f"file:{path}", manifest_path="m", status=EntryStatus.ADDED, snapshot_id=1,
        sequence_number=1, file_sequence_number=1, spec_id=3, partition='["a"]',
        format="PARQUET", records=7, bytes=size, sort_order_id=2,
        stats=FileStats({1: 7}, {1: 0}, {}, {1: b"\x01\xff"}, {1: b"\x02"}),
        layout=FileLayout({1: 70}, (4, 90)),
    )  # fmt: skip


class Lossy(PyArrowFileIO):
    """Storage that keeps less than it says."""

    def new_output(self, location: str) -> OutputFile:
        found = super().new_output(location)
        create = found.create

        def created(overwrite: bool = False) -> Any:
            sink = create(overwrite)
            return _Cut(sink)

        found.create = created  # type: ignore[method-assign]
        return found


class _Cut:
    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def __enter__(self) -> _Cut:
        return self

    def __exit__(self, *_: object) -> None:
        self._sink.close()

    def write(self, chunk: bytes) -> None:
        self._sink.write(chunk[:-1] + b"?")


@pytest.fixture
def source(tmp_path: Path) -> DataFileEntry:
    path = tmp_path / "f.parquet"
    path.write_bytes(BODY)
    return entry(path)


def test_the_same_bytes(source: DataFileEntry, tmp_path: Path, io: FileIO) -> None:
    copy_data_file(io, source, io, f"file:{tmp_path}/c.parquet")
    assert (tmp_path / "c.parquet").read_bytes() == BODY


def test_other_bytes_are_no_copy(source: DataFileEntry, tmp_path: Path, io: FileIO) -> None:
    with pytest.raises(StorageUnreachable, match="other bytes"):
        copy_data_file(io, source, Lossy(), f"file:{tmp_path}/c.parquet")


def test_a_file_that_is_not_what_its_table_says(tmp_path: Path, io: FileIO) -> None:
    (tmp_path / "f.parquet").write_bytes(BODY)
    for wrong in (entry(tmp_path / "f.parquet", size=5), entry(tmp_path / "g.parquet")):
        with pytest.raises(TaskRefused) as refused:
            copy_data_file(io, wrong, io, f"file:{tmp_path}/c.parquet")
        assert refused.value.reason == "unreadable_file"


def test_what_a_copy_says_of_itself(source: DataFileEntry) -> None:
    found = json.loads(copy_json(source, "s3://b/c.parquet", 0, 1))
    assert (found["file-path"], found["spec-id"], found["partition"]) == (
        "s3://b/c.parquet", 0, ["a"],
    )  # fmt: skip
    assert found["lower-bounds"] == {"keys": [1], "values": ["01FF"]}
    assert (found["column-sizes"], found["split-offsets"]) == (
        {"keys": [1], "values": [70]},
        [4, 90],
    )
    assert "nan-value-counts" not in found
    assert "sort-order-id" not in found


def test_its_name_says_of_which_file_it_is(source: DataFileEntry) -> None:
    run, key = TaskRun("uuid", "task", 1, "0a1b2c3d"), copy_key("u", source.normal_path)
    name = run.copy_name(3, key, "PARQUET")
    assert parse_copy_name(name) == (run.stem, key)
    assert run.names_content(name)
    assert parse_copy_name(run.output_name(1, 2)) is None
    assert copy_key("v", source.normal_path) != key
