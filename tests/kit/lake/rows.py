"""What every snapshot ought to show: the rows of its parent, and what its commit does to them.

A commit carries a marker; what it means was written down under that marker before it was sent. So
the model needs no answer to know what has landed: the table's own history says it, and a write
whose answer was lost counts if, and only if, its snapshot is there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from firnline_domain.records.parts.summaries import TASK_ID
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.table.snapshots import Operation, Summary

MARKER = "tests.write"  # snapshot property of every writer's commit
MAIN = "main"
EVERYTHING = "*"
MODULUS = 1_000_003
Place = tuple[int, str]  # spec id and partition text: where a row lies for ever


class Row(NamedTuple):
    """One row. `version`: unique in a table. `top`: the highest column that it was written with."""

    version: int
    key: int | None
    p: str | None
    place: Place
    top: int = 3


Rows = frozenset[Row]


def value_of(row: Row, column: int) -> Any:
    """What a reader sees in a column, by field id. Columns 1-3 are id, v and p; further ones are
    made of the version, and NULL in rows that are older than the column."""
    if column > row.top:
        return None
    fixed = {1: row.key, 2: row.version, 3: row.p}
    return fixed[column] if column in fixed else row.version * column % MODULUS


@dataclass(frozen=True)
class Change:
    """What a commit does to the rows of the snapshot that it lands on: first rows go (by version,
    by equality delete, by partition value), then rows come."""

    added: tuple[Row, ...] = ()
    killed: frozenset[int] = frozenset()
    keys: frozenset[int | None] = frozenset()
    place: Place | None = None  # of the equality delete; one without partition is global
    cleared: str | None = None  # rows of this `p`, or EVERYTHING

    def applied(self, rows: Rows) -> Rows:
        return frozenset(row for row in rows if not self._takes(row)) | set(self.added)

    def _takes(self, row: Row) -> bool:
        if row.version in self.killed or (self.cleared and self.cleared in (EVERYTHING, row.p)):
            return True
        if row.key not in self.keys or self.place is None:
            return False
        return self.place[1] == "[]" or row.place == self.place


@dataclass(frozen=True)
class Node:
    """A snapshot: `marker` of a writer, or `tasks` of Firnline. `drops`: rows, as by a DELETE.
    `moves_files`: adds or removes data or delete files."""

    snapshot_id: int
    parent: int | None
    marker: str | None
    tasks: tuple[str, ...]
    manifest_list: str = ""
    drops: bool = False
    moves_files: bool = False


FILE_COUNTS = (
    "added-data-files",
    "deleted-data-files",
    "added-delete-files",
    "removed-delete-files",
)


def _drops(summary: Mapping[str, str]) -> bool:
    """A conversion of equality deletes is a `delete`, too, and takes no data file."""
    is_delete = summary.get("operation") == Operation.DELETE.value
    return is_delete and int(summary.get("deleted-data-files", 0)) > 0


def _summary(found: Summary | None) -> dict[str, str]:
    if found is None:
        return {}
    return {"operation": found.operation.value, **found.additional_properties}


class Unseen(LookupError):
    """The model has not seen a snapshot, or not what its commit meant."""


class Lineage:
    """Every snapshot that a table ever had, as far as anybody saw it. Safe for many threads.
    `dropped`: what a commit of Firnline's that drops data files does, if any may."""

    def __init__(self, dropped: Callable[[Node], Change] | None = None) -> None:
        self._dropped = dropped
        self._lock = threading.Lock()
        self._nodes: dict[int, Node] = {}
        self._changes: dict[str, Change] = {}
        self._proposed: dict[int, Mapping[str, Any]] = {}
        self._rows: dict[int, Rows] = {}

    def mean(self, marker: str, change: Change) -> None:
        """What the commit of this marker is going to do, if it lands."""
        with self._lock:
            self._changes[marker] = change

    def meant(self, marker: str) -> Change | None:
        """What was said of a marker; nothing of what makes no snapshot."""
        with self._lock:
            return self._changes.get(marker)

    def propose(self, snapshots: Iterable[Mapping[str, Any]]) -> None:
        """Snapshots that a commit wants to add, before anybody knows whether it will be taken."""
        with self._lock:
            self._proposed.update({one["snapshot-id"]: one for one in snapshots})

    def observe(self, snapshots: Iterable[Mapping[str, Any]]) -> None:
        """Snapshots that the table has, as its metadata has them in JSON. What a catalog hides is
        known from the commits: the parent of one that it shows, and so on back: a commit is taken
        on top of its parent alone, so that one has landed, too."""
        with self._lock:
            for one in snapshots:
                self._take(one)

    def observe_table(self, table: LoadedTable) -> None:
        """See `observe`."""
        self.observe(
            {
                "snapshot-id": one.snapshot_id,
                "parent-snapshot-id": one.parent_snapshot_id,
                "manifest-list": one.manifest_list,
                "summary": _summary(one.summary),
            }
            for one in table.snapshots
            if one.snapshot_id not in self._nodes
        )

    def _take(self, shown: Mapping[str, Any]) -> None:
        left: Mapping[str, Any] | None = shown
        while left is not None and (number := left["snapshot-id"]) not in self._nodes:
            parent = left.get("parent-snapshot-id")
            if parent is None and number in self._proposed:
                parent = self._proposed[number].get("parent-snapshot-id")
            summary = left.get("summary") or {}
            tasks = tuple(filter(None, summary.get(TASK_ID, "").split(",")))
            place = left.get("manifest-list", "")
            drops = _drops(summary)
            moves_files = any(int(summary.get(name, 0)) for name in FILE_COUNTS)
            node = Node(number, parent, summary.get(MARKER), tasks, place, drops, moves_files)
            self._nodes[number] = node
            left = self._proposed.get(parent) if parent is not None else None

    @property
    def nodes(self) -> dict[int, Node]:
        with self._lock:
            return dict(self._nodes)

    def ancestors(self, snapshot_id: int | None) -> list[int]:
        """The snapshot and its parents, as far as they were seen."""
        nodes, found = self.nodes, []
        while snapshot_id in nodes:
            found.append(snapshot_id)
            snapshot_id = nodes[snapshot_id].parent
        return found

    def rows(self, snapshot_id: int | None) -> Rows:
        """What a snapshot ought to show. Raises Unseen."""
        with self._lock:
            chain: list[Node] = []
            while snapshot_id is not None and snapshot_id not in self._rows:
                if snapshot_id not in self._nodes:
                    raise Unseen(f"snapshot {snapshot_id} was made and expired unseen")
                chain.append(self._nodes[snapshot_id])
                snapshot_id = chain[-1].parent
            rows = frozenset() if snapshot_id is None else self._rows[snapshot_id]
            for node in reversed(chain):
                rows = self._rows[node.snapshot_id] = self._after(node, rows)
            return rows

    def distinct_ids(self, snapshot_id: int) -> dict[int, int]:
        """Values of the field 1. Raises Unseen."""
        return {1: len({row.key for row in self.rows(snapshot_id)} - {None})}

    def _after(self, node: Node, rows: Rows) -> Rows:
        if node.tasks and node.drops and self._dropped is not None:
            return self._dropped(node).applied(rows)
        if node.tasks:
            return rows  # other maintenance changes no row
        if node.marker is None or node.marker not in self._changes:
            raise Unseen(f"snapshot {node.snapshot_id} is of nobody we know ({node.marker})")
        return self._changes[node.marker].applied(rows)
