"""What has to be so of a table whatever was done to it, as others than Firnline see it: PyIceberg
reads the metadata, Spark the rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firnline_domain.identity import MAIN, TableName
from firnline_iceberg.commit.rewrite import task_ids
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.table.refs import SnapshotRefType

from firnline_actions.ages import went_of_age
from tests.kit.lake.rows import Change, Lineage, Node
from tests.kit.lake.statistics import find_wrong, statistics_of
from tests.kit.lake.writer import local


@dataclass
class Witness:
    """Looks at one table after each step. `known`: every file that any snapshot had when it was
    looked at."""

    tables: Tables
    spark: Any
    name: TableName
    known: set[str] = field(default_factory=set)
    reached: dict[int, frozenset[str]] = field(default_factory=dict)  # by snapshot
    seen: set[int] = field(default_factory=set)
    read: int = 0
    table: LoadedTable | None = None  # as it was looked at last
    described: set[str] = field(default_factory=set)  # statistics files that were right

    def __post_init__(self) -> None:
        self.lineage = Lineage(self._dropped)

    def _dropped(self, node: Node) -> Change:
        assert self.table is not None
        snapshot = self.table.snapshot(node.snapshot_id)
        return Change(killed=went_of_age(self.table, snapshot))

    def _exact(self, snapshot_id: int) -> dict[int, int]:
        rows = self.lineage.rows(snapshot_id)
        return {**self.lineage.distinct_ids(snapshot_id), 3: len(rows)}  # u is a number of its own

    def load(self) -> LoadedTable:
        return self.tables.load(self.name)

    @property
    def root(self) -> Path:
        return local(self.load().metadata.location)

    def look(self) -> LoadedTable:
        """Raises AssertionError where a snapshot is nobody's, or misses a file."""
        self.table = table = self.load()
        self.lineage.observe_table(table)
        for one in table.snapshots:
            node = self.lineage.nodes[one.snapshot_id]
            is_ours = bool(task_ids(one.summary, table.identity.uuid))
            assert is_ours or node.marker, f"snapshot {one.snapshot_id} is nobody's: {one.summary}"
            self.lineage.rows(one.snapshot_id)
            for path in self._files(table, one):
                assert Path(path).exists(), f"{path} of snapshot {one.snapshot_id} is gone"
        for one in statistics_of(table):
            assert table.retains(one.snapshot_id), f"{one.statistics_path} is of no snapshot"
        assert not [*find_wrong(table, self._exact, self.described)]
        self.described |= {one.statistics_path for one in statistics_of(table)}
        return table

    def _files(self, table: LoadedTable, snapshot: Any) -> frozenset[str]:
        """Of a snapshot: its list, its manifests, and their live entries."""
        number = snapshot.snapshot_id
        if number not in self.reached:
            paths = [snapshot.manifest_list]
            for manifest in snapshot.manifests(table.io):
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                paths += [manifest.manifest_path, *(one.data_file.file_path for one in entries)]
            self.reached[number] = frozenset(str(local(path)) for path in paths)
            self.known |= self.reached[number]
        return self.reached[number]

    def needed(self, table: LoadedTable) -> set[str]:
        """Every file that a retained snapshot has."""
        return {path for one in table.snapshots for path in self._files(table, one)}

    def rows(self, table: LoadedTable, again: bool = False) -> None:
        """Of every retained snapshot that was not read yet, or of all once more, by Spark: files
        are never changed, and `look` misses those that went. Raises AssertionError."""
        retained = (one.snapshot_id for one in table.snapshots)
        ids = [one for one in retained if again or one not in self.seen]
        self.seen.update(ids)
        if not ids:
            return
        name = f"lake.{self.name.namespace[0]}.{self.name.name}"
        parts = [f"SELECT {one}L AS at, u, id, v FROM {name} VERSION AS OF {one}" for one in ids]
        found: dict[int, list[Any]] = defaultdict(list)
        for row in self.spark.sql(" UNION ALL ".join(parts)).collect():
            found[row.at].append((row.u, row.id, row.v))
        for one in ids:
            rows = self.lineage.rows(one)
            wanted = [(row.version, row.key, f"v{row.version}") for row in rows]
            assert_same(found[one], wanted, f"snapshot {one} of {name}")
        self.read += len(ids)

    def stored(self) -> set[str]:
        """All that lies below the table's location, without Hadoop's checksums."""
        found = (path for path in self.root.rglob("*") if path.is_file())
        return {str(path) for path in found if path.suffix != ".crc"}

    def metadata_files(self, table: LoadedTable) -> set[str]:
        """Those that the metadata names: the current one, its log, and statistics."""
        log = [one.metadata_file for one in table.metadata.metadata_log]
        described = [one.statistics_path for one in statistics_of(table)]
        return {str(local(path)) for path in (table.metadata_location, *log, *described)}


def assert_same(seen: Iterable[Any], wanted: Iterable[Any], what: str) -> None:
    there, due = Counter(seen), Counter(wanted)
    gone, more = list((due - there).elements()), list((there - due).elements())
    assert not [*gone, *more], f"{what}: lost {gone[:5]}, too many {more[:5]}"


def refs_of(table: LoadedTable) -> Mapping[str, tuple[str, int]]:
    """By name: kind and snapshot."""
    return {
        name: (str(ref.snapshot_ref_type), ref.snapshot_id)
        for name, ref in table.metadata.refs.items()
    }


def assert_refs_kept(
    before: LoadedTable, after: LoadedTable, lineage: Lineage, most_kept: int, moved: set[str]
) -> None:
    """Tags and branches are where they were, but for those that writers have `moved` meanwhile; of
    each branch the newest snapshots are there, as many as its owner keeps."""
    then, now = refs_of(before), refs_of(after)
    for name, found in then.items():
        if name not in moved:
            assert name in now, f"{name} is gone"
            assert name == MAIN or found == now[name], f"{name} was moved"
    for name, ref in before.metadata.refs.items():
        if ref.snapshot_ref_type is not SnapshotRefType.BRANCH or name in moved:
            continue
        newest = [one.snapshot_id for one in before.ancestors(ref.snapshot_id)][:most_kept]
        for one in newest:
            assert after.retains(one) or name == MAIN, f"{one} of {name} went too early"
    head = after.head_id(MAIN)
    line, was = lineage.ancestors(head), before.head_id(MAIN)
    main = line[:most_kept]
    if was not in line:  # rolled back meanwhile: an expiry has counted from where it was
        kept = lineage.ancestors(was)[:most_kept]
        main = [one for one in main if one in kept]
    for one in main:
        assert after.retains(one), f"{one} of main went too early"
