"""What a try has read of files that never change is not read again by the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from firnline_committer.examine.cached_reads import cached_reads_of
from firnline_deletes.deletes import position_files, row_map
from firnline_domain.identity import TableName
from firnline_iceberg.metadata.entry_cache import ENTRY_BYTES, FileCache


@dataclass
class Opened:
    """A FileIO that counts."""

    paths: list[str] = field(default_factory=list)

    def new_input(self, path: str) -> Opened:
        self.paths.append(path)
        return self

    def open(self) -> Any:
        return pa.OSFile(self.paths[-1])


@dataclass
class Table:
    """What is asked of a loaded table: one per try, with the committer's cache."""

    io: Opened
    cache: FileCache | None
    identity: TableName = field(default_factory=lambda: TableName("u", ("ns",), "t"))


@pytest.fixture
def deletes(tmp_path: Path) -> str:
    path = str(tmp_path / "d.parquet")
    rows = pa.concat_tables(
        [position_files.of_one_file(name, np.arange(3)) for name in ("file:/a", "file:///b")]
    )
    position_files.write_positions(path, rows, lambda name: pa.OSFile(name, "wb"))
    return path


def named(table: Any, path: str) -> dict[str, list[int]]:
    return {name: where.tolist() for name, where in cached_reads_of(table).read_file(path)}


@pytest.mark.parametrize(("cache", "opens"), [(FileCache(), 1), (None, 2)])
def test_a_next_try_opens_no_file_again(deletes: str, cache: FileCache | None, opens: int) -> None:
    io = Opened()
    found = [named(Table(io, cache), deletes) for _ in range(2)]
    assert found == [{"file:/a": [0, 1, 2], "file:///b": [0, 1, 2]}] * 2
    assert io.paths == [deletes] * opens


def test_another_table_has_files_of_its_own(deletes: str) -> None:
    io, cache = Opened(), FileCache()
    named(Table(io, cache), deletes)
    named(Table(io, cache, TableName("v", ("ns",), "t")), deletes)
    assert len(io.paths) == 2


def test_a_row_map_weighs_what_its_rows_do() -> None:
    rows = np.arange(ENTRY_BYTES)  # eight entries' worth
    lost, reads = {"file:/a": row_map.Lost(rows, row_map.NONE)}, []

    def read() -> Any:
        reads.append(1)
        return lost

    for most, times in ((20, 1), (8, 2)):
        table: Any = Table(Opened(), FileCache(most))
        reads.clear()
        for _ in range(2):
            assert cached_reads_of(table).row_map("m", read) is lost
        assert len(reads) == times
