"""Whatever is accepted leaves the visible rows as they are; what is refused would not have.

The model below knows rows, sequence numbers and Iceberg's rule for dropping delete files, and
nothing of the code under test. Iceberg itself stands in for it in tests/integration/commits.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from firnline_domain.commits import conflicts
from firnline_domain.commits.commit_plan import (
    CommitPlan,
    PlannedSnapshot,
    forms,
    lost_deletes,
    plan,
    spent_deletes,
)
from firnline_domain.commits.conflicts import Conflict, examine
from firnline_domain.commits.live import Head
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import ConflictReason
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
from firnline_domain.values import Value, replace
from hypothesis import given, settings
from hypothesis import strategies as st

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
    def normal(self) -> str:
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
    def normal(self) -> str:
        return self.path

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
        files = [*self.data.values(), *self.deletes.values()]
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
    return examine(result, head) or plan([result], head).refused.get(result.task_id)


# ---- what may happen between start and commit, one story each


class Story(Value):
    reason: ConflictReason
    table: Table
    result: RewriteFinished
    head: Head


def new_position_delete() -> Story:
    table = Table()
    path = table.append(A, 1, 2)
    result = rewrite(table, A)
    table.pos_delete(path, 1)
    return Story(ConflictReason.NEW_POSITION_DELETES, table, result, table.pinned())


def new_position_delete_of_the_partition() -> Story:
    table = Table()
    path = table.append(A, 1, 2)
    result = rewrite(table, A)
    table.pos_delete(path, 1, whole_partition=True)
    return Story(ConflictReason.NEW_POSITION_DELETES, table, result, table.pinned())


def new_deletion_vector() -> Story:
    story = new_position_delete()
    name, delete = next(iter(story.table.deletes.items()))
    story.table.deletes[name] = replace(delete, kind=DeleteKind.DELETION_VECTOR)
    return replace(story, reason=ConflictReason.NEW_DELETION_VECTORS, head=story.table.pinned())


def applied_delete_rolled_back() -> Story:
    table = Table()
    table.append(A, 1, 2)
    before = table.head
    table.eq_delete(A, 1)
    result = rewrite(table, A)
    table.roll_back(before)
    return Story(ConflictReason.APPLIED_DELETE_GONE, table, result, table.pinned(history=False))


def applied_position_delete_rolled_back() -> Story:
    table = Table()
    path = table.append(A, 1, 2)
    before = table.head
    table.pos_delete(path, 1)
    result = rewrite(table, A)
    table.roll_back(before)
    reason = ConflictReason.APPLIED_POSITION_DELETE_GONE
    return Story(reason, table, result, table.pinned(history=False))


def input_removed() -> Story:
    table = Table()
    path = table.append(A, 1, 2)
    result = rewrite(table, A)
    table.commit(gone=[path])
    return Story(ConflictReason.INPUTS_GONE, table, result, table.pinned())


def delete_below_the_stamp_not_applied() -> Story:
    table = Table()
    table.append(A, 1, 2)
    table.eq_delete(A, 1)
    table.append(A, 3)
    result = rewrite(table, A)
    kept = group(table, list(table.data.values()), ((1, 1), (2, 1), (3, 3)), A)
    missed = replace(result, groups=(kept,), applied_deletes=())
    return Story(ConflictReason.OLD_EQUALITY_DELETE, table, missed, table.pinned())


def global_delete_below_the_stamp_not_applied() -> Story:
    table = Table()
    table.append(A, 1, 2)
    table.eq_delete(ALL, 1)
    result = rewrite(table, A)
    kept = group(table, list(table.data.values()), ((1, 1), (2, 1)), A)
    missed = replace(result, groups=(kept,), applied_deletes=())
    return Story(ConflictReason.OLD_EQUALITY_DELETE, table, missed, table.pinned())


def rows_do_not_add_up() -> Story:
    table = Table()
    table.append(A, 1, 2)
    result = rewrite(table, A)
    (one,) = result.groups
    short = group(table, list(table.data.values()), ((1, 1),), A)
    lost = replace(one, outputs=short.outputs)
    return Story(
        ConflictReason.PROOF_FAILED, table, replace(result, groups=(lost,)), table.pinned()
    )


def stamp_below_an_input() -> Story:
    """H6: a group planned at 3 and stamped 1 comes under a delete older than its rows."""
    table = Table()
    table.append(A, 9)
    table.append(B, 7)
    table.eq_delete(ALL, 1)
    table.append(A, 1)
    result = replace(rewrite(table, A), start_sequence_number=1, applied_deletes=())
    return Story(ConflictReason.PROOF_FAILED, table, result, table.pinned())


def stamp_in_the_future() -> Story:
    table = Table()
    table.append(A, 1)
    table.append(B, 1)
    result = replace(rewrite(table, A), start_sequence_number=3)
    head = table.pinned()
    table.eq_delete(A, 1)
    return Story(ConflictReason.PROOF_FAILED, table, result, head)


def outputs_of_another_spec() -> Story:
    """iceberg-rules 2.4 b: the concurrent delete of the old spec stops applying."""
    table = Table()
    table.append(A, 1, 2)
    result = rewrite(table, A)
    table.eq_delete(A, 1)
    (one,) = result.groups
    (output,) = one.outputs
    OUTPUTS[output.path] = replace(OUTPUTS[output.path], scope=Scope(2, "[]"))
    moved = replace(output, content_file_json='{"spec-id":2,"partition":[]}')
    changed = replace(result, groups=(replace(one, outputs=(moved,)),))
    return Story(ConflictReason.SPEC_CHANGED, table, changed, table.pinned())


def hazard_10312() -> Story:
    table = Table()
    table.append(ALL, 1, 2)
    result = rewrite(table, ALL)
    table.eq_delete(ALL, 1)
    table.append(ALL, 3)
    return Story(ConflictReason.HAZARD_10312, table, result, table.pinned())


def hazard_of_the_stamp_alone() -> Story:
    """H1: nothing concurrent; stamped M = 2 while delete 3 and append 4 exist already."""
    table = Table()
    table.append(ALL, 1)
    table.append(ALL, 2)
    table.eq_delete(ALL, 1)
    table.append(ALL, 4)
    result = rewrite(table, ALL, sequence_number=2)
    return Story(ConflictReason.HAZARD_10312, table, result, table.pinned())


def data_file_twice() -> Story:
    """Of two groups with one entry each only one can be committed, and removes both."""
    table = Table()
    path = table.append(A, 1, 2)
    table.commit(replace(table.data[path], sequence_number=-1))
    both = rewrite(table, A, groups=2)
    result = replace(both, groups=both.groups[:1])
    return Story(ConflictReason.DUPLICATE_FILES, table, result, table.pinned())


def data_file_twice_meanwhile() -> Story:
    table = Table()
    path = table.append(A, 1, 2)
    result = rewrite(table, A)
    table.commit(replace(table.data[path], sequence_number=-1))
    return Story(ConflictReason.DUPLICATE_FILES, table, result, table.pinned())


def delete_file_twice() -> Story:
    """The older entry is spent with the rewrite, and takes the younger along."""
    table = Table()
    table.append(A, 1, 2)
    path = table.eq_delete(A, 1)
    result = rewrite(table, A)
    table.append(A, 1)
    table.append(B, 1)  # old files elsewhere: Iceberg drops nothing by itself
    table.commit(replace(table.deletes[path], sequence_number=-1))
    return Story(ConflictReason.DUPLICATE_FILES, table, result, table.pinned())


def format_changed() -> Story:
    """Rows without ids would get new ones in v3: see tests/integration/commits."""
    table = Table()
    table.append(A, 1, 2)
    head = table.pinned()
    v3 = replace(head, form=replace(head.form, format_version=3))
    return Story(ConflictReason.FORMAT_CHANGED, table, rewrite(table, A), v3)


def encrypted_meanwhile() -> Story:
    table = Table()
    table.append(A, 1, 2)
    head = table.pinned()
    sealed = replace(head, form=replace(head.form, encrypted=True))
    return Story(ConflictReason.FORMAT_CHANGED, table, rewrite(table, A), sealed)


def schema_changed() -> Story:
    """A column that was dropped when it was planned is read again."""
    table = Table()
    table.append(A, 1, 2)
    head = table.pinned()
    result = replace(rewrite(table, A), last_column_id=3)
    other = replace(
        head,
        form=replace(head.form, schema_id=1),
        schemas={**head.schemas, 1: {**COLUMNS, 3: "long"}},
    )
    return Story(ConflictReason.SCHEMA_CHANGED, table, result, other)


def name_mapping_changed() -> Story:
    table = Table()
    table.append(A, 1, 2)
    head = table.pinned()
    other = replace(head, form=replace(head.form, name_mapping="x"))
    return Story(ConflictReason.SCHEMA_CHANGED, table, rewrite(table, A), other)


HARMFUL = [
    new_position_delete,
    new_position_delete_of_the_partition,
    applied_delete_rolled_back,
    applied_position_delete_rolled_back,
    input_removed,
    delete_below_the_stamp_not_applied,
    global_delete_below_the_stamp_not_applied,
    rows_do_not_add_up,
    stamp_below_an_input,
    stamp_in_the_future,
    outputs_of_another_spec,
    hazard_10312,
    hazard_of_the_stamp_alone,
    data_file_twice,
    data_file_twice_meanwhile,
    delete_file_twice,
]
OF_THE_TABLE = [format_changed, encrypted_meanwhile, schema_changed, name_mapping_changed]


@pytest.mark.parametrize("tell", [*HARMFUL, *OF_THE_TABLE, new_deletion_vector])
def test_a_result_is_refused_for_its_reason(tell: Callable[[], Story]) -> None:
    story = tell()
    found = verdict(story.result, story.head)
    assert found is not None
    assert found.reason is story.reason


@pytest.mark.parametrize("tell", HARMFUL)
def test_committing_it_all_the_same_changes_rows(tell: Callable[[], Story]) -> None:
    """Each guard is there for a reason: without it, these rows would be wrong."""
    story = tell()
    before = story.table.visible()
    spent = spent_deletes([story.result], story.head) if tell is delete_file_twice else ()
    story.table.swap([replace(bare(story.result), removed_deletes=spent)])
    assert story.table.visible() != before


def bare(result: RewriteFinished) -> PlannedSnapshot:
    from firnline_domain.commits.commit_plan import PlannedGroup

    parts = (PlannedGroup(result.task_id, result.scope, one) for one in result.groups)
    return PlannedSnapshot(result.start_sequence_number, tuple(parts))


@pytest.mark.parametrize("change", [{"sequence_number": 2}, {"rows": ((1, 1),)}])
def test_another_file_of_the_same_path_is_not_the_input(change: dict[str, object]) -> None:
    table = Table()
    path = table.append(A, 1, 2)
    table.append(B, 1)
    result = rewrite(table, A)
    table.data[path] = replace(table.data[path], **change)  # type: ignore[arg-type]
    found = verdict(result, table.pinned())
    assert found is not None
    assert found.reason is ConflictReason.INPUTS_GONE


def test_a_start_off_the_branch_is_refused_where_history_says_so() -> None:
    table = Table()
    table.append(A, 1)
    before = table.head
    table.append(B, 2)
    result = rewrite(table, A)
    table.roll_back(before)
    found = verdict(result, table.pinned())
    assert found is not None
    assert found.reason is ConflictReason.START_NOT_ANCESTOR
    assert verdict(result, table.pinned(history=False)) is None


@pytest.mark.parametrize("check", conflicts.CHECKS)
def test_every_check_is_needed(
    check: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, some story has another verdict."""
    without = tuple(one for one in conflicts.CHECKS if one is not check)
    monkeypatch.setattr(conflicts, "CHECKS", without)
    told = [tell() for tell in (*HARMFUL, *OF_THE_TABLE)]
    verdicts = [(story, verdict(story.result, story.head)) for story in told]
    if check is conflicts.started_before:
        with pytest.raises(AssertionError):
            test_a_start_off_the_branch_is_refused_where_history_says_so()
    else:
        assert any(found is None or found.reason is not s.reason for s, found in verdicts)


# ---- what does not conflict


def test_concurrent_appends_and_upserts_do_not_conflict() -> None:
    table = Table()
    table.append(A, 1, 2)
    table.upsert(A, 1)
    result = rewrite(table, A)
    table.upsert(A, 2)
    table.append(A, 5)
    before = table.visible()
    head = table.pinned()
    assert verdict(result, head) is None
    table.swap(plan([result], head).snapshots)
    assert table.visible() == before


def test_a_deletion_vector_hides_position_deletes() -> None:
    """A v3 table upgraded from v2: the worker applied the DV only, and that is right."""
    table = Table()
    path = table.append(A, 1, 2)
    old = table.pos_delete(path, 1)
    table.commit(replace(table.deletes[old], path="dv", kind=DeleteKind.DELETION_VECTOR))
    result = rewrite(table, A)
    seen = replace(
        result, applied_deletes=tuple(d for d in result.applied_deletes if d.path == "dv")
    )
    assert verdict(seen, table.pinned()) is None


def test_a_hazardous_swap_of_two_groups_goes_in_two() -> None:
    table = Table()
    table.append(ALL, 1)
    table.append(ALL, 2)
    result = rewrite(table, ALL, groups=2)
    table.eq_delete(ALL, 1)
    table.append(ALL, 3)
    before, head = table.visible(), table.pinned()
    swaps = plan([result], head).snapshots
    assert [len(swap.parts) for swap in swaps] == [1, 1]
    table.swap(swaps)
    assert table.visible() == before


def test_what_iceberg_drops_with_the_first_half_is_not_removed_by_the_second() -> None:
    """The catalog would refuse the whole: "Missing required files to delete"."""
    table = Table()
    table.append(ALL, 1, 2)
    spent = table.eq_delete(ALL, 1)
    table.append(ALL, 3)
    result = rewrite(table, ALL, groups=2)
    table.eq_delete(ALL, 2)
    table.append(ALL, 4)
    before, head = table.visible(), table.pinned()
    assert spent in {delete.path for delete in head.deletes}
    table.swap(plan([result], head).snapshots)
    assert table.visible() == before
    assert spent not in table.deletes


def test_a_delete_that_went_with_another_groups_file_is_no_conflict() -> None:
    """Who removes a file lets Iceberg drop the deletes that apply to nothing else."""
    table = Table()
    old = table.append(ALL, 1, 2)
    spent = table.eq_delete(ALL, 1)
    table.append(ALL, 3)
    result = rewrite(table, ALL, groups=2)
    table.commit(gone=[old, spent])
    found = conflicts.judge(result, table.pinned())
    assert found.lost.keys() == {0}
    assert not found.touched


def test_only_the_exposed_result_is_refused() -> None:
    table = Table()
    table.append(ALL, 1)
    first = rewrite(table, ALL, task="first")
    table.eq_delete(ALL, 1)
    table.append(A, 2)
    table.append(B, 3)
    second = rewrite(table, A, task="second")
    made = plan([first, second], table.pinned())
    assert made.refused.keys() == {"first"}
    assert [swap.task_ids for swap in made.snapshots] == [("second",)]


def test_another_result_of_the_commit_may_keep_an_old_file_alive() -> None:
    table = Table()
    table.append(ALL, 1)
    first = rewrite(table, ALL, task="first")
    table.append(A, 2)
    table.eq_delete(ALL, 1)
    table.append(B, 3)
    second = rewrite(table, A, task="second")
    before, head = table.visible(), table.pinned()
    assert plan([first], head).refused == {}
    table.swap(plan([first, second], head).snapshots)
    assert table.visible() == before


def test_one_rewrite_per_stamp() -> None:
    """H6."""
    table = Table()
    table.append(ALL, 1)
    table.append(A, 1)
    first = rewrite(table, A, task="first")
    table.append(B, 1)
    table.eq_delete(B, 1)
    table.append(B, 1)
    second = rewrite(table, B, task="second")
    before, head = table.visible(), table.pinned()
    swaps = plan([second, first], head).snapshots
    assert [(swap.sequence_number, swap.task_ids) for swap in swaps] == [
        (2, ("first",)),
        (5, ("second",)),
    ]
    one = PlannedSnapshot(2, (*bare(first).parts, *bare(second).parts))  # what H6 warns of
    together = dataclasses.replace(table, data=dict(table.data), deletes=dict(table.deletes))
    table.swap(swaps)
    assert table.visible() == before
    together.swap([one])
    assert together.visible() != before


def removed(table: Table, *results: RewriteFinished) -> set[str]:
    made = plan(results, table.pinned())
    assert not any(swap.removed_deletes for swap in made.snapshots[:-1])
    return {delete.path for delete in made.snapshots[-1].removed_deletes}


def test_applied_deletes_go_in_the_same_commit() -> None:
    table = Table()
    first = table.append(A, 1, 2)
    old = table.eq_delete(A, 1)
    named = table.pos_delete(first, 2)
    table.append(A, 1)
    newest = table.eq_delete(A, 7)
    result = rewrite(table, A)
    later = table.eq_delete(A, 8)
    gone = removed(table, result)
    assert gone == {old, named, newest}
    assert later not in gone


def test_deletes_that_still_apply_stay() -> None:
    table = Table()
    first = table.append(A, 1, 2)
    other = table.append(B, 1)
    everywhere = table.eq_delete(ALL, 1)
    partition = table.pos_delete(first, 2, whole_partition=True)
    result = rewrite(table, A)
    assert everywhere not in removed(table, result)
    assert partition in removed(table, result)
    table.commit(replace(table.data[first], path="brought-back"))
    assert partition not in removed(table, result)
    assert other in table.data


def test_a_position_delete_of_its_own_commit_stays() -> None:
    """Flink writes a data file and position deletes on it in one commit: equal numbers."""
    table = Table()
    table.append(A, 1)
    result = rewrite(table, A)
    rows = ((2, 90), (2, 91))
    named = frozenset({("flink", rows[0])})
    table.commit(Data("flink", -1, A, rows), Delete("pos", -1, A, DeleteKind.POSITION, named=named))
    before, head = table.visible(), table.pinned()
    applied = AppliedDelete("pos", DeleteKind.POSITION, 2, A)
    table.swap(plan([replace(result, applied_deletes=(applied,))], head).snapshots)
    assert table.visible() == before


def test_a_global_delete_goes_when_every_spec_is_past_it() -> None:
    table = Table()
    table.append(A, 1)
    table.append(B, 1)
    everywhere = table.eq_delete(ALL, 1)
    table.append(A, 3)
    first, second = rewrite(table, A, task="first"), rewrite(table, B, task="second")
    assert everywhere not in removed(table, first)
    assert everywhere in removed(table, first, second)


# ---- any story at all

moves = st.lists(
    st.tuples(
        st.sampled_from(["append", "delete", "upsert", "position", "remove", "rollback"]),
        st.sampled_from([ALL, A, B]),
        st.integers(0, 2),
    ),
    max_size=7,
)


def live(table: Table, moved: list[tuple[str, Scope, int]]) -> None:
    for move, scope, key in moved:
        files = sorted(table.data)
        if move == "append":
            table.append(scope, key, (key + 1) % 3)
        elif move == "delete":
            table.eq_delete(scope, key)
        elif move == "upsert":
            table.upsert(scope, key)
        elif move == "position" and files:
            table.pos_delete(files[key % len(files)], key, whole_partition=scope is A)
        elif move == "remove" and files:
            table.commit(gone=[files[key % len(files)]])
        elif move == "rollback" and table.states:
            table.roll_back(1 + key % max(table.states))


@settings(max_examples=400, deadline=None)
@given(moves, moves, st.booleans(), st.integers(1, 2), st.integers(0, 9))
def test_what_is_accepted_never_changes_a_row(
    earlier: list[tuple[str, Scope, int]],
    later: list[tuple[str, Scope, int]],
    history: bool,
    groups: int,
    sequence_number: int,
) -> None:
    table = Table()
    table.append(ALL, 0, 1)
    table.append(A, 0, 1)
    live(table, earlier)
    results = [
        rewrite(table, ALL, groups, min(sequence_number, table.seq), "all"),
        rewrite(table, A, groups, None, "a"),
    ]
    live(table, later)
    head = table.pinned(history)
    accepted = [one for one in results if one.groups and examine(one, head) is None]
    made: CommitPlan = plan(accepted, head)
    before = table.visible()
    for swap in made.snapshots:  # each snapshot is right, not only the last one
        table.swap([swap])
        assert table.visible() == before


def test_forms_never_lose_a_group() -> None:
    table = Table()
    for key in range(4):
        table.append(ALL, key)
    swap = bare(rewrite(table, ALL, groups=4))
    for form in forms((swap,)):
        assert Counter(part for one in form for part in one.parts) == Counter(swap.parts)
    assert not lost_deletes((swap,), table.pinned())
