"""Which lists are swept, and where they are looked for."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from firnline_domain.identity import TableName
from firnline_iceberg import output_lists
from firnline_iceberg.memory import MemoryCatalog, MemoryTables
from firnline_iceberg.output_lists import OutputList, Place
from firnline_iceberg.sweeping import Sweeper, why_left
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

AGE, NOW = 1_000, 5_000
LISTED = OutputList("task", 1, "uuid", "w", 3_000, ("file:///x",))
PLACE = Place("file:///l", 2_000)


@pytest.mark.parametrize(
    ("listed", "stored", "reason"),
    [
        ({}, 2_000, None),
        ({"written_at_ms": 4_000}, 2_000, None),
        ({"written_at_ms": 4_001}, 2_000, "young"),
        ({"written_at_ms": 0}, 4_001, "young"),  # a writer's clock that went wrong
        ({"deadline_ms": 5_001}, 2_000, "in_flight"),
        ({"table_uuid": "other"}, 2_000, "other_table"),
    ],
)
def test_a_list_is_left_alone_while_somebody_may_need_it(listed, stored, reason) -> None:
    place = replace(PLACE, stored_at_ms=stored)
    left = why_left(replace(LISTED, **listed), place, "uuid", AGE, NOW)
    assert (left and left.reason) == reason


def test_the_moment_is_told_when_time_alone_lets_it_go() -> None:
    young = why_left(replace(LISTED, written_at_ms=4_500), PLACE, "uuid", AGE, NOW)
    assert young is not None
    assert young.until_ms == 5_500


def test_only_lists_of_the_directory_itself_are_found(tmp_path: Path) -> None:
    io = load_file_io({}, str(tmp_path))
    for name in ("firnline-a-1-r.json", "firnline-a-1-r.rows.puffin", "00001-x.metadata.json"):
        (tmp_path / name).write_text("{}")
    below = tmp_path / "below"
    below.mkdir()
    (below / "firnline-b.json").write_text("{}")
    os.utime(tmp_path / "firnline-a-1-r.json", (7, 7))
    folders = [f"file://{tmp_path}", f"file://{tmp_path}/not-there"]
    found = list(output_lists.places(io, folders))
    assert found == [Place(f"file://{tmp_path}/firnline-a-1-r.json", 7_000)]


def test_the_storage_tells_the_time_and_nothing_is_left(tmp_path: Path) -> None:
    io = load_file_io({}, str(tmp_path))
    found = output_lists.storage_now_ms(io, f"file://{tmp_path}")
    assert found is not None
    assert abs(found - time.time() * 1000) < 60_000
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def made(catalog: MemoryCatalog) -> tuple[TableName, Path, FileIO]:
    """An empty table, with its metadata directory."""
    table = catalog.make("ns.t", Schema(NestedField(1, "id", LongType())))
    name = TableName(str(table.metadata.table_uuid), ("ns",), "t")
    folder = Path(table.metadata_location.removeprefix("file://")).parent
    folder.mkdir(parents=True)
    return name, folder, table.io


def test_a_file_that_is_no_list_is_told_of_and_stays(catalog: MemoryCatalog, made) -> None:
    name, folder, io = made
    output = folder / "output"
    output.write_text("x")
    listed = OutputList("task", 1, name.uuid, "w", 0, (f"file://{output}",))
    output_lists.write(io, f"file://{folder}/firnline-good.json", listed)
    (folder / "firnline-torn.json").write_text('{"task_id": "t", "outpu')
    later = int(folder.stat().st_mtime * 1000) + 60_000
    swept = Sweeper(MemoryTables(catalog), lambda: later, 1_000, lambda *_: later).sweep(name)
    assert swept.reasons == {"unreadable": 1}
    assert (swept.removed, len(swept.lists)) == ([f"file://{output}"], 1)
    assert [path.name for path in folder.iterdir()] == ["firnline-torn.json"]
