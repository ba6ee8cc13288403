"""The model: what a commit means, and that only history decides what has landed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.lake.rows import EVERYTHING, MARKER, Change, Lineage, Row, Unseen, value_of

A, B, WHOLE = (0, '["a"]'), (0, '["b"]'), (1, "[]")


def row(version: int, key: int | None = 1, p: str = "a", place: Any = A, top: int = 4) -> Row:
    return Row(version, key, p, place, top)


def snapshot(number: int, parent: int | None, marker: str | None = None, task: str = "") -> Any:
    summary = {MARKER: marker} if marker else {"firnline.task-id": task} if task else {}
    return {"snapshot-id": number, "parent-snapshot-id": parent, "summary": summary}


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (Change(killed=frozenset({1})), {2, 3}),
        (Change(keys=frozenset({1}), place=A), {2, 3}),  # of its partition alone
        (Change(keys=frozenset({1}), place=WHOLE), {3}),  # global
        (Change(keys=frozenset({None}), place=WHOLE), {1, 2}),  # NULL equals NULL
        (Change(keys=frozenset({1})), {1, 2, 3}),  # keys without a place are no delete
        (Change(cleared="b"), {1, 3}),
        (Change(cleared=EVERYTHING), set()),
    ],
)
def test_what_a_change_takes(change: Change, left: set[int]) -> None:
    rows = frozenset({row(1), row(2, p="b", place=B), row(3, key=None)})
    assert {one.version for one in change.applied(rows)} == left


def test_rows_of_the_commit_itself_survive_its_delete() -> None:
    change = Change(added=(row(2),), keys=frozenset({1}), place=A)
    assert change.applied(frozenset({row(1)})) == {row(2)}


def test_only_what_is_in_the_history_counts() -> None:
    lineage = Lineage()
    lineage.mean("one", Change(added=(row(1),)))
    lineage.mean("lost", Change(added=(row(2),)))
    lineage.mean("late", Change(added=(row(3),)))
    lineage.observe([snapshot(10, None, "one"), snapshot(11, 10, task="t")])
    assert lineage.rows(11) == {row(1)}
    lineage.observe([snapshot(12, 11, "late")])  # its writer had given up on it
    assert lineage.rows(12) == {row(1), row(3)}
    assert lineage.rows(10) == {row(1)}  # as after a rollback
    assert lineage.rows(None) == frozenset()


def test_what_maintenance_drops_is_of_age_in_a_table_that_has_an_age() -> None:
    old, young = row(1), row(2, p="b", place=B)
    for dropped, left in ((lambda _: Change(cleared="a"), {young}), (None, {old, young})):
        lineage = Lineage(dropped)
        lineage.mean("one", Change(added=(old, young)))
        converted, dropped = snapshot(11, 10, task="t"), snapshot(12, 11, task="u")
        converted["summary"] |= {"operation": "delete", "removed-equality-delete-files": "1"}
        dropped["summary"] |= {"operation": "delete", "deleted-data-files": "1"}
        lineage.observe([snapshot(10, None, "one"), converted, dropped])
        assert lineage.rows(11) == {old, young}
        assert lineage.rows(12) == left


def test_branches_go_their_own_ways() -> None:
    lineage = Lineage()
    for number, name in enumerate(("base", "left", "right")):
        lineage.mean(name, Change(added=(row(number),)))
    lineage.observe([snapshot(1, None, "base"), snapshot(2, 1, "left"), snapshot(3, 1, "right")])
    assert {one.version for one in lineage.rows(2)} == {0, 1}
    assert {one.version for one in lineage.rows(3)} == {0, 2}
    assert lineage.ancestors(3) == [3, 1]


def test_a_hidden_history_is_that_of_the_commits() -> None:
    lineage = Lineage()
    for number, name in enumerate(("one", "two", "three", "refused")):
        lineage.mean(name, Change(added=(row(number),)))
    lineage.propose([snapshot(1, None, "one"), snapshot(2, 1, "two")])
    lineage.propose([snapshot(3, 2, "three"), snapshot(4, 2, "refused")])
    lineage.observe([snapshot(3, None, "three")])  # all that the catalog shows
    assert lineage.ancestors(3) == [3, 2, 1]
    assert {one.version for one in lineage.rows(3)} == {0, 1, 2}
    assert set(lineage.nodes) == {1, 2, 3}  # what was only sent has not landed
    lineage.propose([snapshot(5, 2, "five"), snapshot(5, 3, "five")])  # tried again: the last one
    lineage.observe([snapshot(5, None, "five")])
    assert lineage.ancestors(5) == [5, 3, 2, 1]


def test_a_snapshot_of_nobody_is_not_passed_over() -> None:
    lineage = Lineage()
    lineage.observe([snapshot(1, None)])
    with pytest.raises(Unseen, match="nobody"):
        lineage.rows(1)
    with pytest.raises(Unseen, match="unseen"):
        lineage.rows(2)


def test_values_by_column() -> None:
    one = row(1000, key=7, top=5)
    assert [value_of(one, column) for column in (1, 2, 3, 4, 5, 6)] == [
        7, 1000, "a", 4000, 5000, None,
    ]  # fmt: skip
