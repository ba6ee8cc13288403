"""A branch of a table as rows, sequence numbers and Iceberg's rule for dropping delete files.

It knows nothing of the code under test. In tests/integration/commits Iceberg takes its place.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from firnline_domain.base.values import Value, replace
from firnline_domain.commits.commit_plan import (
    PlannedGroup,
    PlannedSnapshot,
    plan_commit,
)
from firnline_domain.commits.conflicts import Conflict, find_conflict
from firnline_domain.commits.pinned_head import Head
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.results import (
    AppliedDelete,
    DeleteKind,
    InputFile,
    Mode,
    OutputFile,
    RewriteFinished,
    RewriteGroup,
    TableForm,
)

ALL = Scope(0, "[]")
COLUMNS = {1: "long", 2: "string"}
A, B = Scope(1, '["a"]'), Scope(1, '["b"]')
Row = tuple[int, int]  # key, version


class Data(Value):
    path: str
    sequence_number: int
    scope: Scope
    rows: tuple[Row, ...]

    @property
    def normal_path(self) -> str:
        return self.path

    @property
    def records(self) -> int:
        return len(self.rows)


class Delete(Value):
    path: str
    sequence_number: int
    scope: Scope
    kind: DeleteKind = DeleteKind.EQUALITY
    keys: frozenset[int] = frozenset()
    named: frozenset[tuple[str, Row]] = frozenset()  # rows of data files
    referenced_data_file: str | None = None

    @property
    def normal_path(self) -> str:
        return self.path

    @property
    def records(self) -> int:
        return len(self.keys) + len(self.named)

    @property
    def is_global(self) -> bool:
        return self.kind is DeleteKind.EQUALITY and self.scope == ALL

    def kills(self, data: Data, row: Row) -> bool:
        if self.kind is DeleteKind.EQUALITY:
            concerned = self.is_global or self.scope == data.scope
            return concerned and data.sequence_number < self.sequence_number and row[0] in self.keys
        in_place = self.scope == data.scope and data.sequence_number <= self.sequence_number
        return in_place and (data.path, row) in self.named

    def applies(self, data: Data) -> bool:
        """By the rules of the spec alone, whether it holds a matching row or not."""
        if self.kind is DeleteKind.EQUALITY:
            concerned = self.is_global or self.scope == data.scope
            return concerned and data.sequence_number < self.sequence_number
        named = self.referenced_data_file in (None, data.path)
        return named and self.scope == data.scope and data.sequence_number <= self.sequence_number


@dataclasses.dataclass
class Table:
    """One branch: commits append to `history`; files are numbered, never reused."""

    data: dict[str, Data] = dataclasses.field(default_factory=dict)
    deletes: dict[str, Delete] = dataclasses.field(default_factory=dict)
    seq: int = 0
    head: int = 0
    parents: dict[int, int] = dataclasses.field(default_factory=dict)
    states: dict[int, tuple[dict[str, Data], dict[str, Delete]]] = dataclasses.field(
        default_factory=dict
    )
    made: int = 0

    def commit(self, *added: Data | Delete, gone: Iterable[str] = ()) -> int:
        self.seq += 1
        snapshot = max(self.states, default=0) + 1
        self.parents[snapshot], self.head = self.head, snapshot
        lost = set(gone)  # by path, as Iceberg does: every entry of it
        self.data = {key: one for key, one in self.data.items() if one.path not in lost}
        self.deletes = {key: one for key, one in self.deletes.items() if one.path not in lost}
        for file in added:
            own = replace(file, sequence_number=self.seq) if file.sequence_number < 0 else file
            places = self.data if isinstance(own, Data) else self.deletes
            key = own.path
            while key in places:
                key += "+"  # the same path once more
            places[key] = own  # type: ignore[assignment,index]
        self.states[snapshot] = (dict(self.data), dict(self.deletes))
        return snapshot

    def name(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    def append(self, scope: Scope, *keys: int) -> str:
        path = self.name("data")
        self.commit(Data(path, -1, scope, tuple((key, self.made) for key in keys)))
        return path

    def eq_delete(self, scope: Scope, *keys: int) -> str:
        path = self.name("eq")
        self.commit(Delete(path, -1, scope, keys=frozenset(keys)))
        return path

    def upsert(self, scope: Scope, *keys: int) -> None:
        path = self.name("data")
        rows = tuple((key, self.made) for key in keys)
        self.commit(
            Data(path, -1, scope, rows),
            Delete(self.name("eq"), -1, scope, keys=frozenset(keys)),
        )

    def pos_delete(self, data: str, key: int, whole_partition: bool = False) -> str:
        file, path = self.data[data], self.name("pos")
        named = frozenset((data, row) for row in file.rows if row[0] == key)
        reference = None if whole_partition else data
        self.commit(
            Delete(
                path, -1, file.scope, DeleteKind.POSITION, named=named,
                referenced_data_file=reference,
            )
        )  # fmt: skip
        return path

    def roll_back(self, snapshot: int) -> None:
        self.data, self.deletes = map(dict, self.states[snapshot])  # type: ignore[assignment]
        self.head = snapshot

    def visible(self) -> Counter[Row]:
        return Counter(
            row
            for file in self.data.values()
            for row in file.rows
            if not any(delete.kills(file, row) for delete in self.deletes.values())
        )

    def pinned(self, history: bool = True) -> Head:
        ancestors, snapshot = set(), self.head
        while snapshot in self.states:
            ancestors.add(snapshot)
            snapshot = self.parents[snapshot]
        kept = frozenset(ancestors) if history else frozenset({self.head})
        files: list[Any] = [*self.data.values(), *self.deletes.values()]
        times = Counter(file.path for file in files)
        return Head(
            self.head, self.seq, dict(self.data), tuple(self.deletes.values()),
            kept, frozenset(self.states) if history else kept, history,
            TableForm(2, 0, 2), {0: COLUMNS}, frozenset(path for path, n in times.items() if n > 1),
        )  # fmt: skip

    def swap(self, plan: Iterable[PlannedSnapshot]) -> None:
        """Commit as Iceberg 1.12 does, its rule for old delete files included."""
        for swap in plan:
            gone, named = set(swap.input_paths), {d.path for d in swap.removed_deletes}
            assert named <= self.deletes.keys(), "Missing required files to delete"
            numbers = [f.sequence_number for path, f in self.data.items() if path not in gone]
            oldest = min([self.seq, *numbers])
            old = {p for p, d in self.deletes.items() if 0 < d.sequence_number < oldest}
            files = [file for part in swap.parts for file in part.group.outputs]
            added = [replace(OUTPUTS[f.path], sequence_number=swap.sequence_number) for f in files]
            self.commit(*added, gone=gone | old | named)


OUTPUTS: dict[str, Data] = {}


def rewrite(
    table: Table,
    scope: Scope,
    groups: int = 1,
    sequence_number: int | None = None,
    task: str = "task",
) -> RewriteFinished:
    """What a right worker makes of the scope's files up to that number (default: the start's)."""
    start_number = table.seq if sequence_number is None else sequence_number
    files = [
        f for f in table.data.values() if f.scope == scope and f.sequence_number <= start_number
    ]
    applied = {
        d.path: d
        for d in table.deletes.values()
        if (d.kind is not DeleteKind.EQUALITY or d.sequence_number <= start_number)
        and any(d.applies(f) for f in files)
    }
    made = []
    for number in range(groups):
        inputs = files[number::groups]
        rows = tuple(
            row
            for file in inputs
            for row in file.rows
            if not any(d.kills(file, row) for d in applied.values())
        )
        if inputs:
            made.append(group(table, inputs, rows, scope))
    return RewriteFinished(
        task_id=task, table=TableName("u", ("ns",), "t"), ref="main", scope=scope, attempt=1,
        worker="w", mode=Mode.NATIVE, start_snapshot_id=table.head,
        start_sequence_number=start_number, schema_id=0, groups=tuple(made),
        applied_deletes=tuple(
            AppliedDelete(d.path, d.kind, d.sequence_number, d.scope) for d in applied.values()
        ),
        output_list=None, ordered_at_ms=0, started_at_ms=0, first_byte_at_ms=0, finished_at_ms=0,
        format_version=2, last_column_id=2,
    )  # fmt: skip


def group(table: Table, inputs: list[Data], rows: tuple[Row, ...], scope: Scope) -> RewriteGroup:
    outputs = ()
    if rows:
        path = f"{table.name('out')}-{id(table)}"
        OUTPUTS[path] = Data(path, -1, scope, rows)
        body = {"spec-id": scope.spec_id, "partition": json.loads(scope.partition)}
        outputs = (OutputFile(path, len(rows), 1, json.dumps(body)),)
    total = sum(file.records for file in inputs)
    return RewriteGroup(
        tuple(InputFile(f.path, f.sequence_number, f.records, 1) for f in inputs),
        outputs, total, total - len(rows), len(rows),
    )  # fmt: skip


def verdict(result: RewriteFinished, head: Head) -> Conflict | None:
    return find_conflict(result, head) or plan_commit([result], head).refused.get(result.task_id)


def bare(result: RewriteFinished) -> PlannedSnapshot:
    parts = (PlannedGroup(result.task_id, result.scope, one) for one in result.groups)
    return PlannedSnapshot(result.start_sequence_number, tuple(parts))
