"""Tables made by Iceberg's Java API and by Spark, and their commits as the gateway tells them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest
from firnline_domain.counters.activity.other_maintainers import is_others_maintenance
from firnline_domain.identity import Scope, TableName
from firnline_domain.ports import Delivery
from firnline_domain.records.events import (
    ChangeKind,
    FilesChanged,
    RefMoved,
    TableChange,
    TableCommitted,
)
from firnline_domain.records.orders import ResyncTable
from firnline_domain.records.parts.tallies import FileTally
from firnline_enricher.handlers import EnricherHandlers
from firnline_enricher.resyncs import to_snapshot_added
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable

from tests.kit.lake.writer import TableWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Follower:
    """An enricher and a planner's counters of `main` behind one table."""

    tables: Tables
    handlers: EnricherHandlers
    name: TableName
    seen: LoadedTable | None = None
    offset: int = 0
    head: int | None = None
    holds: dict[Scope, FileTally] = field(default_factory=dict)
    kinds: list[str] = field(default_factory=list)
    others: list[FilesChanged] = field(default_factory=list)  # somebody else's maintenance

    def follow(self) -> LoadedTable:
        """Take in what was committed since the last call, by what differs in the metadata."""
        before, now = self.seen, self.tables.load(self.name)
        self.seen = now
        for change in self._handle(committed(before, now, f"commit-{self.offset}")):
            self._fold(change)
        self.holds = {scope: tally for scope, tally in self.holds.items() if tally != FileTally()}
        return now

    def _handle(self, record: object) -> list[FilesChanged]:
        self.offset += 1
        delivery = Delivery("table-commits", 0, self.offset, None, record)
        self.handlers.follow_offsets(delivery)
        return self.handlers.handle(delivery)

    def _fold(self, change: FilesChanged) -> None:
        if change.ref != "main" or change.snapshot_id is None:
            return
        self.kinds.append(change.kind)
        if is_others_maintenance(change):
            self.others.append(change)
        if change.kind is ChangeKind.REF_MOVED:
            question = ResyncTable(self.name, "main", self.head, None, "ref_moved", self.offset)
            for answer in self._handle(question):
                self._fold(answer)
            return
        if change.kind is ChangeKind.ABSOLUTE and change.chunk == 0:
            self.holds = {}
        elif change.kind is ChangeKind.DELTA:
            assert change.parent_snapshot_id == self.head, "a missing parent"
        for part in change.partitions:
            before = self.holds.get(part.scope, FileTally())
            self.holds[part.scope] = before + part.added - part.removed
        self.head = change.snapshot_id


def committed(before: LoadedTable | None, now: LoadedTable, event_id: str) -> TableCommitted:
    """What the gateway would tell of one commit, by what differs in the metadata."""
    known = {one.snapshot_id for one in before.snapshots} if before else set()
    old_refs = before.metadata.refs if before else {}
    moved = [
        RefMoved(name, ref.snapshot_ref_type, ref.snapshot_id)
        for name, ref in now.metadata.refs.items()
        if name not in old_refs or old_refs[name].snapshot_id != ref.snapshot_id
    ]
    moved += [RefMoved(name, "branch", None) for name in old_refs if name not in now.metadata.refs]
    left = {one.snapshot_id for one in now.snapshots}
    return TableCommitted(
        event_id=event_id,
        table=now.identity,
        change=TableChange.COMMITTED,
        snapshots=tuple(
            to_snapshot_added(one) for one in now.snapshots if one.snapshot_id not in known
        ),
        refs=tuple(moved),
        expired_snapshot_ids=tuple(known - left),
        metadata_changed=before is None or before.properties != now.properties,
        committed_at_ms=0,
        source="gateway",
    )


@pytest.fixture(name="committed")
def committed_fixture() -> Callable[[LoadedTable | None, LoadedTable, str], TableCommitted]:
    """`committed(before, now, event_id)`: the event of what lies between two loads of a table."""
    return committed


@pytest.fixture
def follower(catalog_uri: str, namespace: str) -> Callable[[str], Follower]:
    """`follower(name)` for a table of this test's namespace."""
    tables = Tables(catalog_uri)
    return lambda name: Follower(
        tables, EnricherHandlers(tables, lambda: 1), tables.load_named((namespace,), name).identity
    )


class History:
    """Random commits of files that exist only in metadata: every kind, no rows.

    `part` is the one partition column; specs of the table are used at random, so that deletes
    of unpartitioned specs are global.
    """

    def __init__(self, spark: SparkSession, table: str, seed: int) -> None:
        self.spark, self.table, self.dice = spark, table, random.Random(seed)
        self.jvm: Any = spark._jvm
        self.made = 0
        self.writer = TableWriter(self.jvm, lambda: self.java)

    @cached_property
    def java(self) -> Any:
        """The table in Java; it follows its own commits, `refresh` takes in those of Spark."""
        loader = self.jvm.org.apache.iceberg.spark.Spark3Util
        return loader.loadIcebergTable(self.spark._jsparkSession, self.table)

    @property
    def version(self) -> int:
        return int(self.java.operations().current().formatVersion())

    def content_file(self, spec_id: int, **more: Any) -> Any:
        """A DataFile or DeleteFile of any shape, through Iceberg's own JSON form."""
        table = self.java
        self.made += 1
        partitioned = table.specs().get(spec_id).isPartitioned()
        value = self.dice.choice([1, 2, None]) if partitioned else None
        fields = {str(f.fieldId()): value for f in table.specs().get(spec_id).fields()}
        flat = {
            "spec-id": spec_id,
            "content": "data",
            "file-path": f"file:/nowhere/{self.table}/{self.made}.parquet",
            "file-format": "parquet",
            "partition": {key: one for key, one in fields.items() if one is not None},
            "file-size-in-bytes": self.dice.randrange(1, 5000),
            "record-count": 10,
            **more,
        }
        return self.writer.java_file(table, json.dumps(flat))

    def any_spec(self) -> int:
        return self.dice.choice(sorted(self.java.specs().keySet()))

    def key_range(self) -> dict[str, Any]:
        """Statistics of column 1, sometimes: a range, nulls or neither."""
        if self.dice.random() < 0.3:
            return {}
        low, nulls = self.dice.randrange(100), self.dice.choice([0, 0, 3, 10])
        counts = {
            "value-counts": {"keys": [1], "values": [10]},
            "null-value-counts": {"keys": [1], "values": [nulls]},
        }
        if nulls == 10:
            return counts
        bounds = {
            name: {"keys": [1], "values": [bound.to_bytes(8, "little").hex().upper()]}
            for name, bound in (("lower-bounds", low), ("upper-bounds", low + 40))
        }
        return counts | bounds

    def live(self) -> list[Any]:
        """Data files of main's head, as Java objects with their specs."""
        snapshot = self.java.currentSnapshot()
        return (
            [] if snapshot is None else [task.file() for task in self.tasks(snapshot.snapshotId())]
        )

    def tasks(self, snapshot_id: int) -> list[Any]:
        """By path: Java plans manifests at once, in an order of its own."""
        iterator = self.java.newScan().useSnapshot(snapshot_id).planFiles().iterator()
        found = []
        while iterator.hasNext():
            found.append(iterator.next())
        return sorted(found, key=lambda task: task.file().location())

    def step(self) -> None:
        """One random commit."""
        steps = [
            self.append,
            self.append,
            self.equality,
            self.equality,
            self.position,
            self.position,
            self.overwrite,
            self.rewrite,
            self.two_at_once,
            self.rewrite_manifests,
            self.roll_back,
            self.branch,
            self.delete,
        ]
        self.java.refresh()
        self.dice.choice(steps)()

    def upgrade_to_v3(self) -> None:
        self.spark.sql(f"ALTER TABLE {self.table} SET TBLPROPERTIES ('format-version'='3')")

    def append(self, to: str = "main") -> None:
        commit = self.java.newAppend() if self.dice.random() < 0.5 else self.java.newFastAppend()
        commit = commit.toBranch(to)
        for _ in range(self.dice.randrange(1, 4)):
            commit.appendFile(self.content_file(self.any_spec(), **self.key_range()))
        commit.commit()

    def equality(self) -> None:
        delete = self.content_file(
            self.any_spec(),
            **{"content": "equality-deletes", "equality-ids": [1], **self.key_range()},
        )
        self.writer.row_delta(deletes=[delete])

    def position(self) -> None:
        """A position delete of a partition or of one file; a deletion vector in v3."""
        files = self.live()
        if not files:
            return
        if self.version == 3:
            self.vector(self.dice.choice(files))
            return
        target = self.dice.choice(files)
        shape: dict[str, Any] = {"content": "position-deletes"}
        if self.dice.random() < 0.5:
            shape["referenced-data-file"] = target.location()
        delete = self.at(target, shape)
        self.writer.row_delta(deletes=[delete])

    def at(self, target: Any, shape: dict[str, Any]) -> Any:
        """A file of the same spec and partition as `target`."""
        spec = self.java.specs().get(target.specId())
        if spec.isUnpartitioned():  # the parser refuses files of a spec that is all void
            return self.content_file(target.specId(), **shape)
        parser = self.jvm.org.apache.iceberg.ContentFileParser
        partition = json.loads(parser.toJson(target, spec))["partition"]
        return self.content_file(target.specId(), **{**shape, "partition": partition})

    def vector(self, target: Any) -> None:
        """Replaces the file's vector, if it has one: there may only be one."""
        old = [
            delete
            for task in self.tasks(self.java.currentSnapshot().snapshotId())
            if task.file().location() == target.location()
            for delete in task.deletes()
            if delete.format().name() == "PUFFIN"
        ]
        shape = {
            "content": "position-deletes",
            "file-format": "puffin",
            "file-path": f"file:/nowhere/{self.table}/shared.puffin",
            "referenced-data-file": target.location(),
            "content-offset": 4 + self.made,
            "content-size-in-bytes": 40,
        }
        head = self.java.currentSnapshot().snapshotId()
        self.writer.row_delta(deletes=[self.at(target, shape)], removed=old, read_at=head)

    def overwrite(self) -> None:
        commit = self.java.newOverwrite().addFile(self.content_file(self.any_spec()))
        for file in self.live()[:1]:
            commit.deleteFile(file)
        commit.commit()

    def delete(self) -> None:
        for file in self.live()[:1]:
            self.java.newDelete().deleteFile(file).commit()

    def rewrite(self) -> None:
        """A compaction that keeps its inputs' age (and drops vectors with their files)."""
        files = self.live()[:2]
        if not files:
            return
        number = min(int(file.dataSequenceNumber()) for file in files)
        start = self.java.currentSnapshot().snapshotId()
        commit = self.java.newRewrite().validateFromSnapshot(start).dataSequenceNumber(number)
        for file in files:
            commit.deleteFile(file)
        commit.addFile(self.at(files[0], {"record-count": 5})).commit()

    def two_at_once(self) -> None:
        """One POST with two snapshots (shared-number hazard, H6)."""
        transaction = self.java.newTransaction()
        for _ in range(2):
            file = self.content_file(self.any_spec())
            transaction.newAppend().appendFile(file).commit()
        transaction.commitTransaction()

    def rewrite_manifests(self) -> None:
        if self.java.currentSnapshot() is not None:
            _, namespace, name = self.table.split(".")
            self.spark.sql(f"CALL lake.system.rewrite_manifests('{namespace}.{name}', false)")

    def roll_back(self) -> None:
        snapshots = [one.snapshotId() for one in self.java.snapshots()]
        if snapshots:
            chosen = self.dice.choice(snapshots)
            self.java.manageSnapshots().setCurrentSnapshot(chosen).commit()

    def branch(self) -> None:
        """Work on a branch, then move main onto it."""
        head = self.java.currentSnapshot()
        if head is None:
            return
        name = f"b{self.made}"
        self.java.manageSnapshots().createBranch(name, head.snapshotId()).commit()
        self.append(to=name)
        self.java.manageSnapshots().fastForwardBranch("main", name).removeBranch(name).commit()


@pytest.fixture
def make_history(spark: SparkSession, namespace: str) -> Callable[[str, int], History]:
    """`make_history(name, seed)`: a table with a partitioned and an unpartitioned spec.

    Even seeds start as v2 and begin unpartitioned; odd ones start as v1, where a partition
    field that is dropped stays as `void`. Manifests merge early, so that most hold EXISTING
    entries as well.
    """

    def make(name: str, seed: int) -> History:
        table = f"lake.{namespace}.{name}"
        properties = (
            "'commit.manifest.min-count-to-merge'='3','write.target-file-size-bytes'='4096'"
        )
        history = History(spark, table, seed)
        columns = "(id BIGINT, part BIGINT) USING iceberg"
        if seed % 2:
            spark.sql(
                f"CREATE TABLE {table} {columns} PARTITIONED BY (part)"
                f" TBLPROPERTIES ('format-version'='1',{properties})"
            )
            history.append()
            spark.sql(f"ALTER TABLE {table} DROP PARTITION FIELD part")
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version'='2')")
        else:
            spark.sql(
                f"CREATE TABLE {table} {columns} TBLPROPERTIES ('format-version'='2',{properties})"
            )
            history.append()
            spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD part")
        return history

    return make
