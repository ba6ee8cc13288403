"""One snapshot per sequence number, in a form in which Iceberg drops no delete that is needed."""

from __future__ import annotations

import dataclasses
from collections import Counter

from firnline_domain.base.values import replace
from firnline_domain.commits import conflicts
from firnline_domain.commits.commit_plan import (
    PlannedSnapshot,
    alternative_plans,
    lost_deletes,
    plan_commit,
)
from firnline_domain.records.results import (
    AppliedDelete,
    DeleteKind,
    RewriteFinished,
)

from tests.kit.branch_model import (
    ALL,
    A,
    B,
    Data,
    Delete,
    Table,
    bare,
    rewrite,
)


def test_a_hazardous_swap_of_two_groups_goes_in_two() -> None:
    table = Table()
    table.append(ALL, 1)
    table.append(ALL, 2)
    result = rewrite(table, ALL, groups=2)
    table.eq_delete(ALL, 1)
    table.append(ALL, 3)
    before, head = table.visible(), table.pinned()
    swaps = plan_commit([result], head).snapshots
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
    table.swap(plan_commit([result], head).snapshots)
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
    found = conflicts.judge_result(result, table.pinned())
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
    made = plan_commit([first, second], table.pinned())
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
    assert plan_commit([first], head).refused == {}
    table.swap(plan_commit([first, second], head).snapshots)
    assert table.visible() == before


def test_one_rewrite_per_stamp() -> None:
    """Shared-number hazard (H6)."""
    table = Table()
    table.append(ALL, 1)
    table.append(A, 1)
    first = rewrite(table, A, task="first")
    table.append(B, 1)
    table.eq_delete(B, 1)
    table.append(B, 1)
    second = rewrite(table, B, task="second")
    before, head = table.visible(), table.pinned()
    swaps = plan_commit([second, first], head).snapshots
    assert [(swap.sequence_number, swap.task_ids) for swap in swaps] == [
        (2, ("first",)),
        (5, ("second",)),
    ]
    one = PlannedSnapshot(2, (*bare(first).parts, *bare(second).parts))  # shared-number hazard (H6)
    together = dataclasses.replace(table, data=dict(table.data), deletes=dict(table.deletes))
    table.swap(swaps)
    assert table.visible() == before
    together.swap([one])
    assert together.visible() != before


def removed(table: Table, *results: RewriteFinished) -> set[str]:
    made = plan_commit(results, table.pinned())
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
    table.swap(plan_commit([replace(result, applied_deletes=(applied,))], head).snapshots)
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


def test_forms_never_lose_a_group() -> None:
    table = Table()
    for key in range(4):
        table.append(ALL, key)
    swap = bare(rewrite(table, ALL, groups=4))
    for form in alternative_plans((swap,)):
        assert Counter(part for one in form for part in one.parts) == Counter(swap.parts)
    assert not lost_deletes((swap,), table.pinned())
