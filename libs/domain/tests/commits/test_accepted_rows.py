"""Whatever is accepted leaves the visible rows as they are: random histories."""

from __future__ import annotations

from firnline_domain.commits.commit_plan import (
    CommitPlan,
    plan_commit,
)
from firnline_domain.commits.conflicts import find_conflict
from firnline_domain.identity import Scope
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.branch_model import (
    ALL,
    A,
    B,
    Table,
    rewrite,
)

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
    accepted = [one for one in results if one.groups and find_conflict(one, head) is None]
    made: CommitPlan = plan_commit(accepted, head)
    before = table.visible()
    for swap in made.snapshots:  # each snapshot is right, not only the last one
        table.swap([swap])
        assert table.visible() == before
