"""Real tables by PyIceberg in a catalog in memory; its commits as the gateway tells them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from firnline_domain.identity import Scope, TableName
from firnline_domain.ports import Delivery
from firnline_domain.records.events import (
    ChangeKind,
    FilesChanged,
    RefMoved,
    SnapshotAdded,
    TableChange,
    TableCommitted,
)
from firnline_domain.records.parts.tallies import FileTally
from firnline_enricher.handlers import EnricherHandlers
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
)
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from tests.kit.memory_catalog import Commit, MemoryCatalog, MemoryTables

NOW_MS = 1_800_000_000_000
SCHEMA = Schema(NestedField(1, "part", LongType()), NestedField(2, "id", LongType()))
SPEC = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "part"))
Rows = Callable[..., pa.Table]


@pytest.fixture
def rows() -> Rows:
    """`rows((part, id), ...)`."""

    def make(*pairs: tuple[int, int]) -> pa.Table:
        part, ids = zip(*pairs, strict=True)
        return pa.table({"part": pa.array(part, pa.int64()), "id": pa.array(ids, pa.int64())})

    return make


@dataclass
class Lake:
    """One table `db.t`, the handlers that follow it, and what they have sent."""

    catalog: MemoryCatalog
    tables: MemoryTables
    handlers: EnricherHandlers
    told: int = 0  # commits that were handed on
    offset: int = 0
    sent: list[FilesChanged] = field(default_factory=list)

    @property
    def table(self) -> Table:
        return self.catalog.load_table("db.t")

    @property
    def name(self) -> TableName:
        return self.tables.load_named(("db",), "t").identity

    def commits(self) -> list[TableCommitted]:
        """What the gateway would tell of the commits since the last call."""
        new, self.told = self.catalog.commits[self.told :], len(self.catalog.commits)
        return [committed(commit) for commit in new]

    def handle(self, record: object) -> list[FilesChanged]:
        delivery = Delivery("table-commits", 0, self.offset, None, record)
        self.handlers.follow_offsets(delivery)
        changes = self.handlers.handle(delivery)
        self.offset += 1
        self.sent.extend(changes)
        return changes

    def follow(self) -> list[FilesChanged]:
        """Hand on all commits since the last call."""
        return [change for event in self.commits() for change in self.handle(event)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    catalog = MemoryCatalog(f"file://{tmp_path}/warehouse")
    catalog.make("db.t", SCHEMA, SPEC, **{"write.target-file-size-bytes": "4096"})
    tables = MemoryTables(catalog)
    return Lake(catalog, tables, EnricherHandlers(tables, lambda: NOW_MS))


def committed(commit: Commit) -> TableCommitted:
    """A commit's updates in the words of the gateway."""
    expected = {
        need.ref: need.snapshot_id
        for need in commit.requirements
        if isinstance(need, AssertRefSnapshotId)
    }
    snapshots, refs, expired, news = [], [], [], False
    for update in commit.updates:
        if isinstance(update, AddSnapshotUpdate):
            snapshots.append(snapshot_added(update))
        elif isinstance(update, SetSnapshotRefUpdate):
            name = update.ref_name
            refs.append(RefMoved(name, update.type, update.snapshot_id, expected.get(name)))
        elif isinstance(update, RemoveSnapshotRefUpdate):
            refs.append(RefMoved(update.ref_name, "branch", None))
        elif isinstance(update, RemoveSnapshotsUpdate):
            expired.extend(update.snapshot_ids)
        else:
            news = True
    return TableCommitted(
        event_id=f"commit-{commit.updates!r}",
        table=commit.table,
        change=TableChange.COMMITTED,
        snapshots=tuple(snapshots),
        refs=tuple(refs),
        expired_snapshot_ids=tuple(expired),
        expired_snapshots=len(expired),
        metadata_changed=news,
        committed_at_ms=NOW_MS,
        source="gateway",
    )


def snapshot_added(update: AddSnapshotUpdate) -> SnapshotAdded:
    snapshot = update.snapshot
    assert snapshot.summary is not None
    return SnapshotAdded(
        snapshot.snapshot_id,
        snapshot.parent_snapshot_id,
        snapshot.sequence_number or 0,
        snapshot.timestamp_ms,
        snapshot.summary.operation.value,
        snapshot.manifest_list,
        dict(snapshot.summary.additional_properties),
    )


class Counters:
    """Folds as the planner must, in its simplest form; fails where an event does not fit."""

    def __init__(self) -> None:
        self.head: int | None = None
        self.holds: dict[Scope, FileTally] = {}
        self._epoch: dict[Scope, FileTally] = {}

    def fold(self, changes: Iterable[FilesChanged], ref: str = "main") -> Counters:
        for change in changes:
            if change.ref != ref or change.snapshot_id is None:
                continue
            if change.kind is ChangeKind.ABSOLUTE and change.chunk == 0:
                self.holds = {}
            elif change.kind is ChangeKind.DELTA:
                assert change.parent_snapshot_id == self.head, "a missing parent"
            for part in change.partitions:
                before = self.holds.get(part.scope, FileTally())
                self.holds[part.scope] = before + part.added - part.removed
            if change.chunk == change.chunks - 1:
                self.head = change.snapshot_id
        self.holds = {scope: tally for scope, tally in self.holds.items() if tally != FileTally()}
        return self


@pytest.fixture
def counters() -> Counters:
    return Counters()
