"""Slices of a conversion among writers, rollbacks and engines that take out what is ours (mark that
does not hold, H23): no commit changes a row; a pass that nobody disturbs removes the deletes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from firnline_domain.base.values import replace
from firnline_domain.commits.commit_plan import spent_deletes
from firnline_domain.commits.conflicts import judge_result
from firnline_domain.commits.conversion_progress import (
    ConversionMark,
    MarkingSlice,
    Marks,
    converted_up_to,
    earlier_marks,
)
from firnline_domain.identity import TableName
from firnline_domain.records.results import (
    AppliedDelete,
    DeleteKind,
    InputFile,
    Mode,
    RewriteFinished,
    RewriteGroup,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.branch_model import A, Data, Delete, Table

EQUALITY, POSITION = DeleteKind.EQUALITY, DeleteKind.POSITION
NOTHING = Marks("u", A, (), {})


def wrote(by: MarkingSlice, path: str) -> bool:
    return path.startswith(f"by-{by.task_id}-")


@dataclass
class Pass:
    """A pass over partition A; `numbers`: of snapshots."""

    table: Table = field(default_factory=Table)
    marks: Marks = NOTHING
    tasks: int = 0
    numbers: dict[int, int] = field(default_factory=dict)
    newest_first: bool = False
    result: RewriteFinished | None = None  # waits for its commit
    masked: dict[str, frozenset[tuple[str, tuple[int, int]]]] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """Of the head."""
        table = self.table
        self.numbers.setdefault(table.head, table.seq)
        return self.numbers[table.head]

    def valid(self) -> dict[str, int]:
        head = self.table.pinned()
        return converted_up_to(self.marks, head.data, head.deletes, wrote)

    def work(self, most: int) -> None:
        """A worker takes the oldest files that no mark answers for."""
        known, start = self.valid(), self.number
        equality = [d for d in self.table.deletes.values() if d.kind is EQUALITY]
        reached = [f for f in self.table.data.values() if any(d.applies(f) for d in equality)]
        todo = sorted((f for f in reached if f.path not in known), key=lambda f: f.sequence_number)
        todo = todo[::-1] if self.newest_first else todo
        self.tasks += 1
        task, groups, self.masked = f"t{self.tasks}", [], {}
        files = dict(self.marks.files)
        for one in todo[:most]:
            dead = [row for row in one.rows if any(d.kills(one, row) for d in equality)]
            self.masked[one.path] = frozenset((one.path, row) for row in dead)
            read = InputFile(one.path, one.sequence_number, one.records, 1)
            rows, gone = one.records, len(dead)
            groups.append(RewriteGroup((read,), (), rows, gone, rows - gone, converts=True))
            files[one.path] = ConversionMark(
                one.sequence_number, rows, gone, len(self.marks.slices)
            )
        mine = MarkingSlice(task, 1, start, {d.path: d.sequence_number for d in equality})
        self.marks = Marks("u", A, (*self.marks.slices, mine), files)
        self.result = self._result(task, start, equality, groups)

    def _result(
        self, task: str, start: int, equality: Sequence[Delete], groups: list[RewriteGroup]
    ) -> RewriteFinished:
        return RewriteFinished(
            task_id=task, table=TableName("u", ("ns",), "t"), ref="main", scope=A, attempt=1,
            worker="w", mode=Mode.NATIVE, start_snapshot_id=self.table.head,
            start_sequence_number=start, schema_id=0, groups=tuple(groups),
            applied_deletes=tuple(
                AppliedDelete(d.path, d.kind, d.sequence_number, d.scope) for d in equality
            ),
            output_list=None, ordered_at_ms=0, started_at_ms=0, first_byte_at_ms=0,
            finished_at_ms=0, format_version=2, last_column_id=2,
        )  # fmt: skip

    def commit(self) -> None:
        """What is left of the result, with the deletes that nothing needs any more."""
        result, self.result = self.result, None
        if result is None:
            return
        head = self.table.pinned()
        verdict = judge_result(result, head)
        lost = verdict.lost | verdict.touched
        fit = [group for n, group in enumerate(result.groups) if n not in lost]
        if not fit:
            return
        result = replace(result, groups=tuple(fit))
        known = converted_up_to(
            earlier_marks(self.marks, result.task_id), head.data, head.deletes, wrote
        )
        spent = spent_deletes([result], head, known)
        self.number  # noqa: B018 - noted before it moves
        added = [
            Delete(
                f"by-{result.task_id}-{n}", -1, A, POSITION,
                named=self.masked[group.inputs[0].path],
                referenced_data_file=group.inputs[0].path,
            )
            for n, group in enumerate(fit) if group.rows_masked
        ]  # fmt: skip
        before = self.table.visible()
        self.table.commit(*added, gone=[delete.path for delete in spent])
        assert self.table.visible() == before
        self.number  # noqa: B018

    # ---- others

    def roll_back(self, to: int) -> None:
        known = sorted(self.table.states)
        if known:
            self.number  # noqa: B018
            self.table.roll_back(known[to % len(known)])

    def lose_ours(self, number: int) -> None:
        ours = sorted(path for path in self.table.deletes if path.startswith("by-"))
        if ours:
            self.table.commit(gone=[ours[number % len(ours)]])

    def take_place(self, number: int) -> None:
        """An engine's own file says of the same data file as many rows, not the same."""
        ours = sorted(path for path in self.table.deletes if path.startswith("by-"))
        if ours:
            old = self.table.deletes[ours[number % len(ours)]]
            other = replace(old, path=self.table.name("pos"), named=frozenset({("no", (0, 0))}))
            self.table.commit(other, gone=[old.path])

    def compact_old(self, number: int) -> None:
        """Another engine's rewrite that began at an older snapshot: its output has that number."""
        named = {d.referenced_data_file for d in self.table.deletes.values()}
        files = sorted(path for path in self.table.data if path not in named)
        if files:
            file = self.table.data[files[number % len(files)]]
            start = file.sequence_number + number % 2
            deletes = [d for d in self.table.deletes.values() if d.sequence_number <= start]
            rows = tuple(row for row in file.rows if not any(d.kills(file, row) for d in deletes))
            new = Data(self.table.name("theirs"), min(start, self.number), A, rows)
            self.table.commit(new, gone=[file.path])

    def delete_with_old_number(self, key: int) -> None:
        number = max(self.number - 1, 1)
        self.table.commit(Delete(self.table.name("old"), number, A, keys=frozenset({key})))

    def again_with_old_number(self, number: int) -> None:
        """A file is taken out and added once more, with another number."""
        files = sorted(self.table.data)
        if files:
            file = self.table.data[files[number % len(files)]]
            self.table.commit(gone=[file.path])
            self.table.commit(replace(file, sequence_number=max(file.sequence_number - 1, 0)))


KEYS = st.integers(0, 4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), KEYS),
        st.tuples(st.just("upsert"), KEYS),
        st.tuples(st.just("eq_delete"), KEYS),
        st.tuples(st.just("work"), st.integers(1, 2)),
        st.tuples(st.just("commit"), KEYS),
        st.tuples(st.just("work"), st.integers(1, 2)),
        st.tuples(st.just("commit"), KEYS),
        st.tuples(st.sampled_from(("roll_back", "lose_ours", "take_place", "compact_old")), KEYS),
        st.tuples(st.sampled_from(("delete_with_old_number", "again_with_old_number")), KEYS),
    ),
    min_size=6,
    max_size=24,
)


@settings(max_examples=1_500, deadline=None)
@given(STEPS)
def test_no_commit_of_a_slice_changes_a_row(steps: list[tuple[str, int]]) -> None:
    life = Pass()
    life.table.append(A, 0, 1)
    life.table.append(A, 1, 2)
    life.table.eq_delete(A, 1)
    for name, value in steps:
        life.number  # noqa: B018
        if name in ("append", "upsert", "eq_delete"):
            getattr(life.table, name)(A, value)
        elif name == "commit":
            life.commit()
        else:
            getattr(life, name)(value)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(KEYS, min_size=1, max_size=4, unique=True), min_size=1, max_size=8), KEYS)
def test_an_undisturbed_pass_takes_the_deletes_one_file_at_a_time(
    files: list[list[int]], key: int
) -> None:
    life = Pass()
    for keys in files:
        life.table.append(A, *keys)
    life.table.eq_delete(A, key)
    for _ in files:
        life.work(1)
        life.commit()
    assert not [d for d in life.table.deletes.values() if d.kind is EQUALITY]


def test_a_file_that_comes_back_with_an_older_number_comes_under_other_deletes() -> None:
    life, table = Pass(newest_first=True), Table()
    life.table = table
    table.append(A, 9)
    table.eq_delete(A, 1)  # does not reach the next file, as it is
    path = table.append(A, 1)
    table.eq_delete(A, 9)
    life.work(1)
    life.commit()
    file = table.data[path]
    assert path in life.valid()
    table.commit(gone=[path])
    table.commit(replace(file, sequence_number=1))
    assert (1, 3) not in table.visible()
    life.newest_first = False
    life.work(1)
    life.commit()
    assert len([d for d in table.deletes.values() if d.kind is EQUALITY]) == 2


def test_a_delete_that_comes_with_an_old_number_was_not_answered() -> None:
    life, table = Pass(), Table()
    life.table = table
    path = table.append(A, 1, 2)
    table.append(A, 3)
    table.eq_delete(A, 1)
    life.work(1)
    life.commit()
    assert path in life.valid()
    table.commit(Delete("late", 3, A, keys=frozenset({2})))
    assert set(table.visible()) == {(3, 2)}
    life.work(2)
    assert life.result is not None
    life.result = replace(life.result, groups=life.result.groups[-1:])  # of the other file
    life.commit()
    assert "late" in table.deletes


MASKED = ConversionMark(3, 9, 2, 0)
BY = MarkingSlice("t1", 1, 7, {"eq": 5})
FILE = Data("a", 3, A, tuple((n, n) for n in range(9)))
SAID = Delete(
    "by-t1-0", 8, A, POSITION, named=frozenset({("a", (1, 1)), ("a", (2, 2))}),
    referenced_data_file="a",
)  # fmt: skip
EQ = Delete("eq", 5, A, keys=frozenset({1, 2}))


@pytest.mark.parametrize(
    ("case", "file", "deletes", "holds"),
    [
        ("as it was", FILE, [EQ, SAID], True),
        ("the delete is gone already", FILE, [SAID], True),
        ("another number", replace(FILE, sequence_number=2), [EQ, SAID], False),
        ("other rows", replace(FILE, rows=FILE.rows[1:]), [EQ, SAID], False),
        ("not said", FILE, [EQ], False),
        ("said of another file", FILE, [EQ, replace(SAID, referenced_data_file="b")], False),
        ("said of the partition", FILE, [EQ, replace(SAID, referenced_data_file=None)], False),
        ("said by another", FILE, [EQ, replace(SAID, path="by-t2-0")], False),
        ("said of fewer rows", FILE, [EQ, replace(SAID, named=frozenset())], False),
        ("said before the file was", FILE, [EQ, replace(SAID, sequence_number=2)], False),
        (
            "hidden by a vector",
            FILE,
            [EQ, SAID, replace(SAID, path="v", kind=DeleteKind.DELETION_VECTOR)],
            False,
        ),
        ("a delete that it did not see", FILE, [EQ, SAID, replace(EQ, path="x")], False),
        ("one of that name, with another number", FILE, [replace(EQ, sequence_number=6)], False),
        (
            "a later delete that it did not see",
            FILE,
            [EQ, SAID, replace(EQ, path="x", sequence_number=8)],
            True,
        ),
        (
            "an older delete that does not reach it",
            FILE,
            [EQ, SAID, replace(EQ, path="x", sequence_number=3)],
            True,
        ),
    ],
)
def test_a_mark_holds_as_far_as_the_table_bears_it_out(
    case: str, file: Data, deletes: list[Delete], holds: bool
) -> None:
    marks = Marks("u", A, (BY,), {"a": MASKED})
    assert converted_up_to(marks, {"a": file}, deletes, wrote) == ({"a": 7} if holds else {})


def test_of_a_file_without_dead_rows_nothing_has_to_be_said() -> None:
    marks = Marks("u", A, (BY,), {"a": replace(MASKED, masked=0)})
    assert converted_up_to(marks, {"a": FILE}, [EQ], wrote) == {"a": 7}
    assert converted_up_to(marks, {}, [EQ], wrote) == {}


def test_what_a_result_says_of_its_own_files_is_not_taken_from_its_marks() -> None:
    again = MarkingSlice("t2", 1, 9, {})
    marks = Marks("u", A, (BY, again), {"a": MASKED, "b": replace(MASKED, slice=1)})
    assert earlier_marks(marks, "t2") == Marks("u", A, (BY,), {"a": MASKED})
    assert earlier_marks(marks, "t1").files == {"b": MASKED}
