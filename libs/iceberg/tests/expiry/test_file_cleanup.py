"""After an expiry exactly those files are left that a retained snapshot needs, whatever refs there
are."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from firnline_domain.identity import TableName
from firnline_domain.records.signing import Keyring, SigningKey
from firnline_iceberg.expiry.file_cleanup import ExpiredLists, named_by_snapshots, remove_unneeded
from firnline_iceberg.expiry.journal import (
    ExpiryJournal,
    end_journal,
    journal_path,
    read_journal,
    write_journal,
)
from firnline_iceberg.removal.removal import ExpiredRemoval, NotRemovable, remove_journal
from firnline_iceberg.table.catalog_client import to_loaded_table
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from libs.iceberg.tests.stored_catalog import StoredCatalog

SCHEMA = Schema(NestedField(1, "id", LongType()))


class Site:
    """A table with a history of appends, deletes, tags and branches."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.catalog = StoredCatalog(f"file://{folder}")
        self.made: Any = self.catalog.make(
            "db.t", SCHEMA, **{"commit.manifest.min-count-to-merge": "3",
            "commit.manifest-merge.enabled": "true"},
        )  # fmt: skip
        self.root = Path(self.made.metadata.location.removeprefix("file://"))
        self.random = random.Random(seed)
        self.next = 0

    def append(self, branch: str = "main") -> None:
        ids = [self.next, self.next + 1]
        self.next += 2
        self.made.append(pa.table({"id": pa.array(ids, pa.int64())}), branch=branch)

    def delete(self) -> None:
        """The whole of an append, or one row of it, which rewrites the file."""
        first = 2 * self.random.randrange(max(self.next // 2, 1))
        last = first + self.random.randrange(1, 3)
        self.made.delete(f"id >= {first} and id < {last}")

    def refer(self) -> None:
        """A tag, a branch, a commit to a branch, or one of these less."""
        manage, snapshots = self.made.manage_snapshots(), self.made.metadata.snapshots
        chosen = self.random.choice(snapshots).snapshot_id
        others = [name for name in self.made.metadata.refs if name != "main"]
        name = f"r{len(snapshots)}"
        match self.random.randrange(4):
            case 0:
                manage.create_tag(chosen, name).commit()
            case 1:
                manage.create_branch(chosen, name).commit()
                self.append(name)
            case _ if others:
                manage.remove_tag(self.random.choice(others)).commit()

    def table(self) -> LoadedTable:
        self.made = self.catalog.load_table(("db", "t"))
        uuid = str(self.made.metadata.table_uuid)
        return to_loaded_table(TableName(uuid, ("db",), "t"), self.made)

    def expire(self) -> list[int]:
        """Some of what no ref points at."""
        heads = {ref.snapshot_id for ref in self.made.metadata.refs.values()}
        old = [one.snapshot_id for one in self.made.metadata.snapshots]
        gone = [one for one in old if one not in heads and self.random.random() < 0.7]
        if gone:
            self.made.maintenance.expire_snapshots().by_ids(gone).commit()
        return gone

    def stored(self) -> set[str]:
        found = (path for path in self.root.rglob("*") if path.is_file())
        return {f"file://{path}" for path in found if not path.name.endswith(".metadata.json")}

    def needed(self) -> set[str]:
        """By PyIceberg's own reader of manifests."""
        found = set()
        for snapshot in self.made.metadata.snapshots:
            found.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(self.made.io):
                found.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(self.made.io, discard_deleted=True)
                found |= {entry.data_file.file_path for entry in entries}
        return found


@pytest.mark.parametrize("seed", range(12))
def test_what_is_left_is_what_is_needed(tmp_path: Path, seed: int) -> None:
    site, expiries = Site(tmp_path, seed), 0
    site.append()
    listed = site.needed()  # PyIceberg also writes manifests that no list ever has
    for _ in range(24):
        site.random.choice([site.append, site.append, site.delete, site.refer])()
        listed |= site.needed()
        if site.random.random() < 0.25:
            before = site.table()
            gone = site.expire()
            expiries += bool(gone)
            stored = site.stored()
            cleaned = remove_unneeded(site.table(), named_by_snapshots(before, gone))
            assert cleaned.files == len(stored - site.stored())
            assert site.stored() & listed == site.needed()
    assert expiries


def test_lists_of_snapshots_that_are_there_lead_to_nothing(tmp_path: Path) -> None:
    """A journal of an expiry whose commit never came."""
    site = Site(tmp_path)
    for _ in range(4):
        site.append()
    table, stored = site.table(), site.stored()
    lists = tuple(one.manifest_list for one in table.snapshots)
    assert remove_unneeded(table, ExpiredLists(lists)).files == 0
    assert site.stored() == stored


def test_files_outside_the_tables_locations_stay_unless_their_owner_agrees(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.append()
    other = tmp_path / "others" / "x.parquet"
    other.parent.mkdir()
    other.write_bytes(b"x")
    assert not ExpiredRemoval(site.table(), outside=None).remove_allowed([f"file://{other}"])
    assert other.exists()
    assert ExpiredRemoval(site.table(), outside=lambda _: "").remove_allowed([f"file://{other}"])
    assert not other.exists()


@pytest.mark.parametrize("ending", ["#1", "?1", ";1", "/../{}", "/.", "//", "\\"])
def test_a_path_that_is_read_in_two_ways_takes_no_other_file_along(
    tmp_path: Path, ending: str
) -> None:
    """Also where the owner has agreed that files outside the table's locations may go."""
    site = Site(tmp_path)
    site.append()
    stored = site.stored()
    live = next(one for one in stored if one.endswith(".parquet"))
    odd = live + ending.format(live.rpartition("/")[2])
    removal = ExpiredRemoval(site.table(), outside=lambda _: "")
    assert removal.remove_allowed([odd]) == 0
    assert site.stored() == stored
    assert [*removal.left] == [odd]


def test_files_behind_a_link_stay_and_are_said(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.append()
    victim = tmp_path / "victim.parquet"
    victim.write_bytes(b"x")
    (site.root / "data" / "link").symlink_to(tmp_path)
    removal = ExpiredRemoval(site.table(), outside=lambda _: "")
    paths = [f"file://{site.root}/data/link/victim.parquet"]
    assert removal.remove_allowed(paths) == 0
    assert victim.exists()
    assert "is a link" in removal.left[paths[0]]


KEYS, OTHERS = (
    Keyring([SigningKey(name, secret * 32)]) for name, secret in (("a", b"a"), ("b", b"b"))
)


def test_a_journal_is_the_fleets_own_and_of_this_table(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.append()
    table = site.table()
    assert read_journal(table, KEYS) is None
    journal = ExpiryJournal(table.identity.uuid, (1, 2), ("a", "b"), ("s",))
    write_journal(table, journal, 1_000, KEYS)
    assert read_journal(table, KEYS) == journal
    assert read_journal(table, OTHERS) is None
    end_journal(table)
    assert read_journal(table, KEYS) is None
    write_journal(table, ExpiryJournal("another", (1,), ("a",)), 1_000, KEYS)
    assert read_journal(table, KEYS) is None
    Path(journal_path(table).removeprefix("file://")).write_bytes(b"\xff{")
    assert read_journal(table, KEYS) is None
    with pytest.raises(NotRemovable):
        remove_journal(table, table.metadata_location)
