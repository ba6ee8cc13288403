"""Changes of files, and counters that fold one after the other."""

from __future__ import annotations

from firnline_domain.counters.fold.folding import FoldedCounters, FoldOutcome, fold_change
from firnline_domain.counters.fold.missing_snapshots import next_held
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import ChangeKind, FilesChanged, PartitionChange
from firnline_domain.records.parts.tallies import FileTally, Tally

TABLE = TableName("u", ("db",), "t")
A, B = Scope(0, '["a"]'), Scope(0, '["b"]')
NOW = 1_000_000


def files(count: int) -> FileTally:
    return FileTally(fragments=Tally(count, count * 10, count * 100))


def part(scope: Scope = A, added: int = 1, removed: int = 0) -> PartitionChange:
    return PartitionChange(scope, files(added), files(removed))


def change(snapshot: int | None, parent: int | None, **more: object) -> FilesChanged:
    values: dict[str, object] = {
        "event_id": f"{more.get('kind', 'delta')}:{snapshot}<{parent}",
        "table": TABLE,
        "ref": "main",
        "kind": ChangeKind.DELTA,
        "snapshot_id": snapshot,
        "parent_snapshot_id": parent,
        "sequence_number": 0,  # v1: sequence numbers never help (sequence-clock hazard, H11)
        "timestamp_ms": 500,
        "operation": "append",
        "partitions": (part(),),
        "format_version": 1,
        "observed_at_ms": 100 + (snapshot or 0),
        **more,
    }
    return FilesChanged(**values)  # type: ignore[arg-type]


def delta(
    table: TableName, snapshot: int, at_ms: int, *parts: PartitionChange, **more: object
) -> FilesChanged:
    """A table's next commit, the n-th with the snapshot n, as the enricher tells of it."""
    values: dict[str, object] = {
        "event_id": f"e{snapshot}",
        "table": table,
        "partitions": parts,
        "sequence_number": snapshot,
        "timestamp_ms": at_ms,
        "observed_at_ms": at_ms,
        "format_version": 2,
        **more,
    }
    return change(snapshot, snapshot - 1 or None, **values)


class Side:
    """Folds one change after the other and keeps the entries, as the planner's state does."""

    def __init__(self, *changes: FilesChanged) -> None:
        self.table = TableCounters(TABLE, "main")
        self.entries: dict[Scope, PartitionCounters] = {}
        for one in changes:
            self.take(one)

    def take(self, one: FilesChanged) -> FoldedCounters:
        folded = fold_change(self.table, self.entries, one, NOW)
        self.table = folded.table
        self.entries.update({entry.scope: entry for entry in folded.partitions})
        return folded

    def verdict(self, one: FilesChanged) -> FoldOutcome:
        return self.take(one).verdict

    def drain(self) -> list[FoldOutcome]:
        found = []
        while following := next_held(self.table):
            found.append(self.verdict(following))
        return found

    def count(self, scope: Scope = A) -> int:
        return self.entries[scope].holds.fragments.files

    @property
    def waits_for(self) -> str | None:
        return self.table.waiting.reason if self.table.waiting else None


def born() -> Side:
    return Side(change(1, None), change(2, 1), change(3, 2))


def absolute(snapshot: int, count: int, observed: int, **more: object) -> FilesChanged:
    parts = {"partitions": (part(added=count),), "snapshot_count": 9, "oldest_snapshot_ms": 7}
    return change(
        snapshot, None, kind=ChangeKind.ABSOLUTE, observed_at_ms=observed, **{**parts, **more}
    )
