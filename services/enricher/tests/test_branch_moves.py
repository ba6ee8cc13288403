from __future__ import annotations

from firnline_domain.identity import TableName
from firnline_domain.records.events import RefMoved, SnapshotAdded, TableChange, TableCommitted
from firnline_enricher.commits import BranchMove, branch_moves


def snapshot(snapshot_id: int, parent: int | None) -> SnapshotAdded:
    return SnapshotAdded(snapshot_id, parent, 0, 0, "append", f"list-{snapshot_id}")


def event(snapshots: list[SnapshotAdded], refs: list[RefMoved]) -> TableCommitted:
    return TableCommitted(
        "e",
        TableName("u", ("db",), "t"),
        TableChange.COMMITTED,
        tuple(snapshots),
        tuple(refs),
        (),
        False,
        0,
        "gateway",
    )


def main_at(snapshot_id: int | None, expected: int | None = None) -> RefMoved:
    return RefMoved("main", "branch", snapshot_id, expected)


def test_snapshots_of_one_post_are_ordered_by_their_chain() -> None:
    one, two, three = snapshot(1, 9), snapshot(2, 1), snapshot(3, 2)
    moves = branch_moves(event([three, one, two], [main_at(1, 9), main_at(2, 9), main_at(3, 9)]))
    assert moves == (BranchMove("main", 3, 9, (one, two, three)),)


def test_a_move_to_an_older_snapshot_adds_nothing() -> None:
    assert branch_moves(event([], [main_at(5)])) == (BranchMove("main", 5, None, ()),)


def test_a_staged_snapshot_moves_nothing() -> None:
    assert branch_moves(event([snapshot(1, None)], [])) == ()


def test_two_branches_may_share_a_snapshot_and_tags_are_left_out() -> None:
    one = snapshot(1, None)
    refs = [main_at(1), RefMoved("audit", "branch", 1), RefMoved("v1", "tag", 1)]
    moves = branch_moves(event([one], refs))
    assert [(move.ref, move.added) for move in moves] == [("main", (one,)), ("audit", (one,))]


def test_a_branch_set_and_then_removed_is_removed() -> None:
    refs = [RefMoved("audit", "branch", 1), RefMoved("audit", "branch", None)]
    assert branch_moves(event([snapshot(1, None)], refs)) == (BranchMove("audit", None, None, ()),)
