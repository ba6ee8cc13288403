"""What a run may write is written down first; what is read is taken for what stands there."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from firnline_iceberg.outputs import write_ahead_list
from firnline_iceberg.outputs.write_ahead_list import OutputList
from pyiceberg.io import FileIO, load_file_io

LISTED = OutputList("task", 2, "uuid", "w", 5, ("file:/a", "file:/b"), 7)


@pytest.fixture
def io(tmp_path: Path) -> FileIO:
    return load_file_io({}, str(tmp_path))


def test_what_was_written_is_read(tmp_path: Path, io: FileIO) -> None:
    write_ahead_list.write_list(io, str(tmp_path / "l"), LISTED)
    assert write_ahead_list.read_list(io, str(tmp_path / "l")) == LISTED


def test_a_list_is_never_written_over(tmp_path: Path, io: FileIO) -> None:
    write_ahead_list.write_list(io, str(tmp_path / "l"), LISTED)
    with pytest.raises(FileExistsError):
        write_ahead_list.write_list(io, str(tmp_path / "l"), LISTED)


def test_what_nobody_would_read_is_not_written(
    tmp_path: Path, io: FileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_ahead_list, "MAX_BYTES", 50)
    with pytest.raises(ValueError, match="2 outputs"):
        write_ahead_list.write_list(io, str(tmp_path / "l"), LISTED)
    assert list(tmp_path.iterdir()) == []


def changed(**fields: Any) -> bytes:
    return json.dumps({**asdict(LISTED), **fields}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'{"outputs": []}',
        b"[]",
        b"null",
        b"\xff\xfe" + changed(),
        changed().decode().encode("utf-16"),
        changed()[:-1] + b', "outputs": []}',  # a key twice
        b"[" * 100_000,
        changed(more=1),
        changed(attempt="2"),
        changed(attempt=-1),
        changed(attempt=True),
        changed(attempt=1.0),
        changed(written_at_ms=-1),
        changed(written_at_ms=10**18),
        changed(deadline_ms=None),
        changed(task_id=None),
        changed(task_id="\ud800"),
        changed(table_key=["u"]),
        changed(outputs="file:/a"),
        changed(outputs=[1]),
        changed(outputs=["file:/\ud800"]),
        b" " * 20_000 + changed(),
    ],
)
def test_a_file_that_is_no_list_says_so(
    tmp_path: Path, io: FileIO, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_ahead_list, "MAX_BYTES", 10_000)
    (tmp_path / "l").write_bytes(content)
    with pytest.raises(ValueError, match="/l: "):
        write_ahead_list.read_list(io, str(tmp_path / "l"))
