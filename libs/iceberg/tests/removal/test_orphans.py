"""Files that a table does not name, and those that only look so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import TableName
from firnline_iceberg.removal.moves import Mover
from firnline_iceberg.removal.orphan_quarantine import move_in, release_files
from firnline_iceberg.removal.orphans import find_orphans, refuse_unclear
from firnline_iceberg.removal.removal import QUARANTINE, FileMove, NotRemovable, remove_quarantined
from firnline_iceberg.table import retained_names as module
from firnline_iceberg.table.catalog_client import to_loaded_table
from firnline_iceberg.table.listing import Storage
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.retained_names import RetainedNames
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from libs.iceberg.tests.stored_catalog import StoredCatalog
from tests.kit.memory_catalog import MemoryTables

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "p", StringType()))
BY_P = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))
RUN = "3f6f1f0a-1b1c-4e5d-8a2b-0123456789ab"  # of a job that came to nothing
NOW_S = 1_900_000_000  # what is written now is older than that
OLD_S, LIMIT_MS = NOW_S - 10 * 86_400, (NOW_S - 3 * 86_400) * 1000


def left(number: int = 0) -> str:
    """The name that a writer gave a data file."""
    return f"00000-{number}-{RUN}-00001.parquet"


class Site:
    """One table with two live files, one that only history has, and metadata of all its past."""

    def __init__(self, folder: Path, **properties: str) -> None:
        self.catalog = StoredCatalog(f"file://{folder}")
        self.made: Any = self.catalog.make("db.t", SCHEMA, BY_P, **properties)
        self.root = Path(self.made.metadata.location.removeprefix("file://"))
        for p in ("a=b/c", "x"):
            self.append(1, p)
        self.made.delete("p == 'x'")
        self.append(2, "y")

    def append(self, number: int, p: str) -> None:
        self.made.append(pa.table({"id": pa.array([number], pa.int64()), "p": [p]}))

    def put(self, place: str, at_s: int = OLD_S) -> Path:
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")
        os.utime(path, (at_s, at_s))
        return path

    def table(self) -> LoadedTable:
        found = self.catalog.load_table(("db", "t"))
        return to_loaded_table(TableName(str(found.metadata.table_uuid), ("db",), "t"), found)

    def orphans(self, forced: bool = False) -> list[str]:
        table = self.table()
        found = find_orphans(table, RetainedNames(table), Storage(table), LIMIT_MS, forced=forced)
        return sorted(one.place for one in found.files)

    def stored(self) -> set[str]:
        return {str(one.relative_to(self.root)) for one in self.root.rglob("*") if one.is_file()}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_all_that_a_table_retains_is_no_orphan(site: Site) -> None:
    """Data of every snapshot, below encoded partitions, manifests, lists and metadata files."""
    assert len([one for one in site.stored() if one.endswith(".parquet")]) == 3
    assert any("%3D" in one for one in site.stored())
    assert site.orphans() == []


def test_what_nobody_names_is_one_from_a_certain_age_on(site: Site) -> None:
    site.put(f"data/{left()}")
    site.put(f"data/p=x/{left()}")
    site.put(f"metadata/{RUN}-m0.avro")
    site.put(f"data/{left(1)}", NOW_S - 2 * 86_400)
    assert site.orphans() == [
        f"data/{left()}", f"data/p=x/{left()}", f"metadata/{RUN}-m0.avro",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "place",
    [
        "data/firnline-1-2-3.parquet",  # ours: on a write-ahead list
        f"{QUARANTINE}/123/data/{left()}",
        "metadata/version-hint.text",
        f"data/_temporary/0/{left()}",
        "data/.left.parquet.crc",
        "_SUCCESS",
    ],
)
def test_hidden_files_are_left_alone(site: Site, place: str) -> None:
    site.put(place)
    assert site.orphans() == []


def test_a_partition_whose_name_begins_like_a_hidden_one_is_looked_at(site: Site) -> None:
    with site.made.update_spec() as change:
        change.add_field("id", IdentityTransform(), "_p")
    site.put(f"data/_p=1/{left()}")
    assert site.orphans() == [f"data/_p=1/{left()}"]


def test_a_file_with_the_name_of_a_live_one_stays(site: Site) -> None:
    """Whatever scheme, host or encoding the table has it under."""
    live = next(one for one in site.stored() if one.endswith(".parquet"))
    site.put(f"data/elsewhere/{Path(live).name}")
    assert site.orphans() == []


@pytest.mark.parametrize(
    ("stored", "named"),
    [
        (f"metadata/7-{RUN}.stats", f"s3://b/metadata/7-{RUN}.stats"),
        (f"metadata/7-{RUN}.stats", f"file:/metadata/7%2D{RUN}.stats"),
        (f"metadata/7-{RUN}.stats", f"/metadata/7-{RUN}.stats#1"),
    ],
)
def test_what_the_metadata_names_stays_however_it_is_spelled(
    site: Site, monkeypatch: Any, stored: str, named: str
) -> None:
    site.put(stored)
    assert site.orphans() == [stored]
    known = module.named_by_metadata
    monkeypatch.setattr(module, "named_by_metadata", lambda *of: [*known(*of), named])
    assert site.orphans() == []


def test_another_table_below_the_location_ends_it(site: Site) -> None:
    site.put("nested/metadata/00000-a.metadata.json", NOW_S)
    site.put(f"nested/data/{left()}")
    with pytest.raises(TaskRefused, match=r"another Iceberg table.*nested/metadata/") as refused:
        site.orphans()
    assert refused.value.reason == "shared_location"


def test_old_metadata_files_in_the_quarantine_are_no_other_tables(site: Site) -> None:
    """The log names the last few; those before it are orphans, too."""
    old = "metadata/00000-0d5f8c2e-53ff-4d9e-8f0a-2f1f0a8f3d11.metadata.json"
    made = site.put(old)
    made.write_text(f'{{"table-uuid": "{site.table().metadata.table_uuid}"}}')
    os.utime(made, (OLD_S, OLD_S))
    table = site.table()
    names, storage = RetainedNames(table), Storage(table)
    move_in(storage, find_orphans(table, names, storage, LIMIT_MS).files, 5_000)
    assert f"{QUARANTINE}/5000/{old}" in site.stored()
    assert site.orphans() == []


def test_more_than_half_is_a_mistake_of_somebody(site: Site) -> None:
    for number in range(101):
        site.put(f"data/{left(number)}")
    with pytest.raises(TaskRefused) as refused:
        site.orphans()
    assert refused.value.reason == "too_many_orphans"
    assert len(site.orphans(forced=True)) == 101


def test_shared_files_and_unclear_places_are_refused(tmp_path: Path) -> None:
    shared = Site(tmp_path / "shared", **{"gc.enabled": "false"})
    catalogs = MemoryTables(shared.catalog)
    with pytest.raises(TaskRefused) as refused:
        refuse_unclear(catalogs, shared.table())
    assert refused.value.reason == "gc_disabled"
    moved = Site(tmp_path / "moved").table()
    elsewhere = moved.metadata.model_copy(update={"location": f"file://{tmp_path}/shared/db/t"})
    there = LoadedTable(moved.identity, elsewhere, moved.io, moved.metadata_location)
    with pytest.raises(TaskRefused) as refused:
        refuse_unclear(catalogs, there)
    assert refused.value.reason == "unclear_location"
    root = moved.metadata.model_copy(update={"location": "s3://bucket"})
    there = LoadedTable(moved.identity, root, moved.io, "s3://bucket/metadata/1.json")
    with pytest.raises(TaskRefused) as refused:
        refuse_unclear(catalogs, there)
    assert refused.value.reason == "unclear_location"


def test_the_quarantine_keeps_a_file_for_its_time(site: Site) -> None:
    place = f"data/p=x/{left()}"
    site.put(place)
    table = site.table()
    names, storage = RetainedNames(table), Storage(table)
    move_in(storage, find_orphans(table, names, storage, LIMIT_MS).files, 5_000)
    there = f"{QUARANTINE}/5000/{place}"
    assert there in site.stored()
    assert place not in site.stored()
    assert release_files(table, names, storage, before_ms=5_000).deleted == 0
    assert there in site.stored()
    gone = release_files(table, names, storage, before_ms=5_001)
    assert (gone.deleted, gone.deleted_bytes) == (1, 5)
    assert there not in site.stored()


def test_what_the_table_names_after_all_goes_back(site: Site) -> None:
    live = next(one for one in site.stored() if one.startswith("data/") and "y" in one)
    table = site.table()
    names, storage = RetainedNames(table), Storage(table)
    Mover(storage).move_all([FileMove(live, f"{QUARANTINE}/5000/{live}")])
    assert release_files(table, names, storage, before_ms=9_000).restored == 1
    assert live in site.stored()
    Mover(storage).move_all([FileMove(live, f"{QUARANTINE}/5000/{live}")])
    site.put(live, NOW_S)  # somebody has put it there again
    assert release_files(table, names, storage, before_ms=9_000).restored == 0


def test_what_the_table_names_in_its_quarantine_stays_there(site: Site) -> None:
    """A missing file was added again from there, or a writer was told to write there."""
    folder = f"{QUARANTINE}/5000/data"
    location = site.made.metadata.location
    with site.made.transaction() as change:
        change.set_properties({"write.data.path": f"{location}/{folder}"})
    site.append(3, "z")
    [live] = (one for one in site.stored() if one.startswith(folder))
    table = site.table()
    found = release_files(table, RetainedNames(table), Storage(table), before_ms=9_000)
    assert (found.restored, found.deleted) == (0, 0)
    assert found.left == {live: "the table names it in the quarantine"}
    assert live in site.stored()


@pytest.mark.parametrize(
    ("place", "to"),
    [
        ("data/live.parquet", "data/other.parquet"),
        ("data/live.parquet", f"{QUARANTINE}/5/data/other.parquet"),
        ("data/live.parquet", f"{QUARANTINE}/05/data/live.parquet"),
        ("data/live.parquet", f"{QUARANTINE}/x/data/live.parquet"),
        ("data/live.parquet", f"../victim/{QUARANTINE}/5/data/live.parquet"),
        ("../victim/live.parquet", f"{QUARANTINE}/5/../victim/live.parquet"),
        (f"{QUARANTINE}/5/data/live.parquet", f"{QUARANTINE}/6/{QUARANTINE}/5/data/live.parquet"),
        (f"{QUARANTINE}/5//etc/x", "/etc/x"),
        ("data/live.parquet", "data/live.parquet"),
        ("linked/live.parquet", f"{QUARANTINE}/5/linked/live.parquet"),
        ("data#/live.parquet", f"{QUARANTINE}/5/data#/live.parquet"),
    ],
)
def test_a_move_is_into_the_quarantine_or_back(site: Site, place: str, to: str) -> None:
    live = site.put("data/live.parquet")
    (site.root / "linked").symlink_to(live.parent)
    (site.root.parent / "victim").mkdir()
    (site.root.parent / "victim" / "live.parquet").write_bytes(b"x")
    before = {one for one in site.root.parent.rglob("*") if one.is_file()}
    moved = Mover(Storage(site.table())).move_all([FileMove(place, to)])
    assert (moved.files, [*moved.left]) == (0, [place])
    assert {one for one in site.root.parent.rglob("*") if one.is_file()} == before


@pytest.mark.parametrize("place", ["data/live.parquet", f"{QUARANTINE}/../data/live.parquet", ""])
def test_nothing_else_is_deleted_as_quarantined(site: Site, place: str) -> None:
    site.put("data/live.parquet")
    with pytest.raises(NotRemovable):
        remove_quarantined(site.table(), [place])
