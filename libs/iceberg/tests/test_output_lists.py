"""What a run may write is written down first, and removed by that list."""

from __future__ import annotations

from pathlib import Path

import pytest
from firnline_iceberg import output_lists
from firnline_iceberg.output_lists import OutputList
from pyiceberg.io import FileIO, load_file_io


@pytest.fixture
def io(tmp_path: Path) -> FileIO:
    return load_file_io({}, str(tmp_path))


def test_losers_are_removed_by_the_list(tmp_path: Path, io: FileIO) -> None:
    made, never = tmp_path / "made.parquet", tmp_path / "never.parquet"
    for path in (made, tmp_path / "kept.parquet"):
        path.write_text("x")
    listed = OutputList("task", 2, "uuid", "w", 5, (str(made), str(never)))
    place = str(tmp_path / "list.json")
    output_lists.write(io, place, listed)
    assert output_lists.read(io, place) == listed
    assert output_lists.remove(io, [*listed.outputs, place]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["kept.parquet"]


def test_a_list_is_never_written_over(tmp_path: Path, io: FileIO) -> None:
    listed = OutputList("task", 2, "uuid", "w", 5, ())
    output_lists.write(io, str(tmp_path / "l"), listed)
    with pytest.raises(FileExistsError):
        output_lists.write(io, str(tmp_path / "l"), listed)


@pytest.mark.parametrize("text", ["", "{}", '{"outputs": []}', "[]"])
def test_a_file_that_is_no_list_says_so(tmp_path: Path, io: FileIO, text: str) -> None:
    (tmp_path / "l").write_text(text)
    with pytest.raises(ValueError, match="/l: "):
        output_lists.read(io, str(tmp_path / "l"))
