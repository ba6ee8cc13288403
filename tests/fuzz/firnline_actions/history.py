"""What the rows of each snapshot are: a writer's commit names what it did to its parent's, a commit
of maintenance keeps them, but for rows that were too old to stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from firnline_iceberg.commit.rewrite import task_ids
from firnline_iceberg.table.loaded_table import LoadedTable

from firnline_actions.ages import went_of_age

MARKER = "test-step"  # in a snapshot's summary: the number of the writer's step
Rows = Mapping[int, int]  # number of a row -> its key


@dataclass(frozen=True)
class Change:
    """Rows of these keys go, then those of these numbers, then some come."""

    keys: frozenset[int] = frozenset()
    gone: frozenset[int] = frozenset()
    new: Rows = field(default_factory=dict)

    def after(self, rows: Rows) -> Rows:
        kept = {u: k for u, k in rows.items() if k not in self.keys and u not in self.gone}
        return {**kept, **self.new}


@dataclass
class History:
    """Of one table, those of its snapshots that have expired as well."""

    changes: dict[int, Change] = field(default_factory=dict)
    rows: dict[int, Rows] = field(default_factory=dict)
    parents: dict[int, int | None] = field(default_factory=dict)
    ours: set[int] = field(default_factory=set)

    def planned(self, change: Change) -> int:
        """The number to mark its snapshot with."""
        self.changes[number := len(self.changes) + 1] = change
        return number

    def fold(self, table: LoadedTable) -> None:
        """Raises AssertionError where a snapshot is nobody's, or its parent was never seen."""
        for one in sorted(table.snapshots, key=lambda one: one.sequence_number or 0):
            if one.snapshot_id in self.rows:
                continue
            assert one.summary is not None
            marker = one.summary.additional_properties.get(MARKER)
            is_ours = bool(task_ids(one.summary, table.identity.uuid))
            assert is_ours or marker, f"snapshot {one.snapshot_id} is nobody's: {one.summary}"
            parent = one.parent_snapshot_id
            assert parent is None or parent in self.rows, f"unknown parent of {one.snapshot_id}"
            before = self.rows[parent] if parent is not None else {}
            self.parents[one.snapshot_id] = parent
            change = self.changes[int(marker)] if marker else Change(gone=went_of_age(table, one))
            self.rows[one.snapshot_id] = change.after(before)
            if is_ours:
                self.ours.add(one.snapshot_id)
