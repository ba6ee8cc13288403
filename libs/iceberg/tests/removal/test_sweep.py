"""Which lists are swept, and where they are looked for."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import TableName
from firnline_domain.records.signing import Keyring, SigningKey
from firnline_iceberg.outputs import write_ahead_list
from firnline_iceberg.outputs.names import TaskRun
from firnline_iceberg.outputs.write_ahead_list import UNSIGNED, ListPlace, OutputList
from firnline_iceberg.removal import sweep as sweeping
from firnline_iceberg.removal.removal import FURTHEST_MS, storage_now_ms, too_young
from firnline_iceberg.removal.sweep import OutputSweeper
from pyiceberg.io import load_file_io
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.kit.memory_catalog import MemoryCatalog, MemoryTables

AGE, NOW = 1_000, 5_000
LISTED = OutputList("task", 1, "uuid", "w", 3_000, ("file:///x",))
PLACE = ListPlace("file:///l", 2_000)


@pytest.mark.parametrize(
    ("listed", "stored", "reason"),
    [
        ({}, 2_000, None),
        ({"written_at_ms": 4_000}, 2_000, None),
        ({"written_at_ms": 4_001}, 2_000, "young"),
        ({"written_at_ms": 0}, 4_001, "young"),  # a writer's clock that went wrong
        ({"deadline_ms": 5_001}, 2_000, "in_flight"),
        ({"deadline_ms": NOW + FURTHEST_MS + 1}, 2_000, "future"),
        ({"written_at_ms": NOW + FURTHEST_MS + 1}, 2_000, "future"),
    ],
)
def test_a_list_is_left_alone_while_somebody_may_need_it(listed, stored, reason) -> None:
    place = replace(PLACE, stored_at_ms=stored)
    left = too_young(replace(LISTED, **listed), place, AGE, NOW)
    assert (left and left[0]) == reason


def test_the_moment_is_told_when_time_alone_lets_it_go() -> None:
    young = too_young(replace(LISTED, written_at_ms=4_500), PLACE, AGE, NOW)
    assert young == ("young", 5_500)


def test_only_lists_of_the_directory_itself_are_found(tmp_path: Path) -> None:
    io = load_file_io({}, str(tmp_path))
    for name in ("firnline-a-1-r.json", "firnline-a-1-r.rows.puffin", "00001-x.metadata.json"):
        (tmp_path / name).write_text("{}")
    below = tmp_path / "below"
    below.mkdir()
    (below / "firnline-b.json").write_text("{}")
    os.utime(tmp_path / "firnline-a-1-r.json", (7, 7))
    folders = [f"file://{tmp_path}", f"file://{tmp_path}/not-there"]
    found = list(write_ahead_list.list_places(io, folders))
    assert found == [ListPlace(f"file://{tmp_path}/firnline-a-1-r.json", 7_000, 2)]


class Made:
    """An empty table, with its metadata directory and a run's files in it."""

    def __init__(self, catalog: MemoryCatalog) -> None:
        self.table = catalog.make("ns.t", Schema(NestedField(1, "id", LongType())))
        self.tables = MemoryTables(catalog)
        self.name = TableName(str(self.table.metadata.table_uuid), ("ns",), "t")
        self.folder = Path(self.table.metadata_location.removeprefix("file://")).parent
        self.run = TaskRun(self.name.uuid, "task", 1, "cafe0000")
        self.output = self.folder.parent / "data" / self.run.output_name(0, 0)
        self.output.parent.mkdir()
        self.output.write_text("x")
        os.utime(self.output, (7, 7))

    def listed(self, keys: Keyring = UNSIGNED, **more: Any) -> Path:
        body = OutputList("task", 1, self.name.uuid, "w", 0, (f"file://{self.output}",))
        path = self.folder / self.run.list_name
        write_ahead_list.write_list(self.table.io, f"file://{path}", replace(body, **more), keys)
        os.utime(path, (7, 7))
        return path

    def sweep(self, keys: Keyring = UNSIGNED) -> sweeping.Swept:
        later = int(time.time() * 1000)
        sweeper = OutputSweeper(self.tables, lambda: later, AGE, lambda _: later, keys=keys)
        return sweeper.sweep(self.name)

    @property
    def left(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()} - {"in-memory.json"}


@pytest.fixture
def made(catalog: MemoryCatalog) -> Made:
    return Made(catalog)


def test_the_storage_tells_the_time_and_nothing_is_left(made: Made) -> None:
    found = storage_now_ms(made.tables.load(made.name))
    assert found is not None
    assert abs(found - time.time() * 1000) < 60_000
    assert made.left == set()


def test_a_clones_sweep_leaves_the_outputs_of_its_source(
    made: Made, catalog: MemoryCatalog
) -> None:
    """A list of the source lies in the folder of both, and only the source has its outputs."""
    made.listed()
    catalog.clone("dev.copy", "ns.t")
    name = TableName(made.name.uuid, ("dev",), "copy")
    later = int(time.time() * 1000)
    sweeper = OutputSweeper(made.tables, lambda: later, AGE, lambda _: later)
    for one in (name, made.name):
        swept = sweeper.sweep(one)
        assert swept.skipped_by_reason == {"shared_identity": 1}
        assert swept.removed == []
        assert made.output.exists()
    catalog.drop_table("dev.copy")
    made.tables = MemoryTables(catalog)
    assert made.sweep().removed == [f"file://{made.output}"]


def test_a_file_that_is_no_list_is_told_of_and_stays(made: Made) -> None:
    made.listed()
    torn = made.folder / "firnline-torn.json"
    torn.write_text('{"task_id": "t", "outpu')
    os.utime(torn, (7, 7))
    swept = made.sweep()
    assert swept.skipped_by_reason == {"unreadable": 1}
    assert (swept.removed, len(swept.lists)) == ([f"file://{made.output}"], 1)
    assert made.left == {"firnline-torn.json"}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"table_key": "other"}, "other_table"),
        ({"task_id": "other"}, "invalid_outputs"),
        ({"attempt": 2}, "invalid_outputs"),
        ({"outputs": ("file:///etc/passwd",)}, "invalid_outputs"),
        ({"written_at_ms": 2**50}, "future"),
    ],
)
def test_a_forged_list_is_told_of_and_removes_nothing(made: Made, more, reason) -> None:
    path = made.listed(**more)
    assert made.sweep().skipped_by_reason == {reason: 1}
    assert path.exists()
    assert made.output.exists()


def test_a_list_in_another_place_or_under_another_name_is_no_list(made: Made) -> None:
    path = made.listed()
    path.rename(made.folder / "firnline-another.json")
    assert made.sweep().skipped_by_reason == {"invalid_outputs": 1}
    assert made.output.exists()


def test_a_flood_of_lists_is_read_in_parts(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "MAX_LISTS", 3)
    path = made.listed()
    for number in range(5):
        other = made.folder / f"firnline-{number}.json"
        other.write_bytes(path.read_bytes())
        os.utime(other, (8, 8))
    swept = made.sweep()
    assert (len(swept.left), len(swept.lists)) == (2, 1)


def test_a_list_that_is_too_long_is_not_read(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made.listed()
    monkeypatch.setattr(write_ahead_list, "MAX_BYTES", 10)
    monkeypatch.setattr(write_ahead_list, "read_list", None)
    assert made.sweep().skipped_by_reason == {"unreadable": 1}


def test_nothing_goes_while_the_metadata_file_cannot_be_read(made: Made) -> None:
    """The catalog's answer alone is not believed."""
    made.listed()
    load = made.tables.load

    def without_file(name: TableName) -> Any:
        table = load(name)
        Path(table.metadata_location.removeprefix("file://")).write_text("{}")
        return table

    made.tables.load = without_file  # type: ignore[method-assign]
    with pytest.raises(TaskRefused, match=r"in-memory\.json"):
        made.sweep()
    assert made.output.exists()


OURS = Keyring((SigningKey("k", b"o" * 32),))
THEIRS = Keyring((SigningKey("k", b"t" * 32),))


def test_a_list_of_the_fleets_is_swept(made: Made) -> None:
    path = made.listed(OURS)
    swept = made.sweep(OURS)
    assert (swept.left, swept.removed) == ([], [f"file://{made.output}"])
    assert not path.exists()
    assert not made.output.exists()


@pytest.mark.parametrize("keys", [UNSIGNED, THEIRS], ids=["unsigned", "forged"])
def test_a_list_that_the_fleet_has_not_signed_removes_nothing(made: Made, keys: Keyring) -> None:
    """Though it is as good as ours in everything else."""
    path = made.listed(keys)
    swept = made.sweep(OURS)
    assert [(one.path, one.reason) for one in swept.left] == [(f"file://{path}", "not_signed")]
    assert swept.removed == []
    assert made.output.exists()


def test_a_list_that_was_altered_removes_nothing(made: Made) -> None:
    path = made.listed(OURS)
    path.write_bytes(path.read_bytes().replace(b'"attempt": 1', b'"attempt": 2'))
    os.utime(path, (7, 7))
    assert [one.reason for one in made.sweep(OURS).left] == ["not_signed"]
    assert made.output.exists()
