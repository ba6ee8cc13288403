"""Orders of one table, from first to last, on an engine that answers as it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import RewriteCommitted, RewriteConflicted
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.parts.slices import Slice
from firnline_domain.records.results import RowsCompared, TaskFailed
from firnline_standalone.engine import RunStopped
from firnline_standalone.runs import AT_ONCE, ATTEMPTS, TaskBatches

TABLE, SCOPE = TableName("u", ("db",), "t"), Scope(0, "[]")
Answer = Callable[[RewriteFiles], Sequence[Any]]


def order(number: int = 0) -> RewriteFiles:
    return RewriteFiles(
        f"task{number}", TABLE, "main", Scope(0, f"[{number}]"), "compact", "fragments", 1, 1, 1, 2
    )


def committed(of: RewriteFiles, snapshot: int = 7, after: Slice | None = None) -> RewriteCommitted:
    return RewriteCommitted(
        of.task_id, TABLE, "main", of.scope, (snapshot,), 1, 2, 1, 0, 0, 20, 10, 9, 0, 9, "native",
        False, 5, slice=after,
    )  # fmt: skip


def conflicted(of: RewriteFiles) -> RewriteConflicted:
    reason = ConflictReason.INPUTS_GONE
    return RewriteConflicted(of.task_id, TABLE, "main", of.scope, reason, "", 1, None, 0)


def failed(of: RewriteFiles, reason: str) -> TaskFailed:
    return TaskFailed(
        of.task_id, TABLE, "main", of.scope, "rewrite", of.attempt, "w", reason, "", True, 0
    )


@dataclass
class Engine:
    answer: Answer
    batches: list[list[RewriteFiles]] = field(default_factory=list)
    is_stopping: bool = False
    compared: list[RowsCompared] = field(default_factory=list)

    def carry_out(self, orders: Sequence[RewriteFiles], *_: object) -> list[Any]:
        self.batches.append([*orders])
        return [event for one in orders for event in self.answer(one)]

    def read_back(self) -> list[RowsCompared]:
        return self.compared

    def progress(self) -> tuple[int, int]:
        return 0, 0


@dataclass
class Told:
    ended_with: list[tuple[str, bool]] = field(default_factory=list)

    def on_start(self, *_: object) -> None: ...

    def on_progress(self, *_: object) -> None: ...

    def on_result(self, *_: object) -> None: ...

    def on_comparison(self, *_: object) -> None: ...

    def on_end(self, one: RewriteFiles, event: Any, again: bool) -> None:
        self.ended_with.append((type(event).__name__, again))


def run(engine: Any, *orders: RewriteFiles) -> tuple[bool, Told]:
    told = Told()
    return TaskBatches(engine, told, lambda: 100).execute(orders), told


def test_slices_follow_each_other_each_from_the_commit_before() -> None:
    slices = [Slice("compact", "fragments", 3, 0.0, files, files * 100) for files in (5, 0)]
    left = iter(slices)
    engine = Engine(lambda one: [committed(one, 7 + len(engine.batches), next(left))])
    assert run(engine, order())[0]
    first, second = (batch[0] for batch in engine.batches)
    assert (second.trigger_snapshot_id, second.after is not None) == (8, True)
    assert second.task_id != first.task_id


def test_a_lost_race_is_run_again_and_given_up_in_the_end() -> None:
    engine = Engine(lambda one: [committed(one) if one.attempt == 2 else conflicted(one)])
    fine, told = run(engine, order())
    assert (fine, told.ended_with) == (
        True,
        [("RewriteConflicted", True), ("RewriteCommitted", False)],
    )
    never = Engine(lambda one: [conflicted(one)])
    fine, told = run(never, order())
    assert (fine, len(told.ended_with)) == (False, ATTEMPTS)
    assert [batch[0].attempt for batch in never.batches] == [1, 2, 3]


@pytest.mark.parametrize(("reason", "tries"), [("trigger_gone", ATTEMPTS), ("open_branch", 1)])
def test_of_failures_those_that_another_try_may_mend(reason: str, tries: int) -> None:
    engine = Engine(lambda one: [failed(one, reason)])
    assert not run(engine, order())[0]
    assert len(engine.batches) == tries


def test_many_go_in_batches_that_share_a_commit() -> None:
    engine = Engine(lambda one: [committed(one)])
    assert run(engine, *map(order, range(AT_ONCE + 3)))[0]
    assert [len(batch) for batch in engine.batches] == [AT_ONCE, 3]
    assert {one.batch_size for one in engine.batches[0]} == {AT_ONCE}


def test_told_to_stop_it_begins_nothing_more() -> None:
    engine = Engine(lambda one: [committed(one)], is_stopping=True)
    with pytest.raises(RunStopped):
        run(engine, *map(order, range(AT_ONCE + 1)))
    assert len(engine.batches) == 1
    assert run(Engine(lambda one: [committed(one)], is_stopping=True), order())[0]  # it is done


def test_a_commit_whose_rows_differ_is_no_success() -> None:
    outcome = ("differ", None, "", None, None, "w", 1)
    differ = RowsCompared("task0", TABLE, "main", SCOPE, (7,), *outcome)
    assert not run(Engine(lambda one: [committed(one)], compared=[differ]), order())[0]
