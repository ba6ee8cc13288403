"""Schedules in which a commit brings rows back, each with its guard and without.

`commit-hazards.md` H1-H8, `iceberg-rules.md` 1.4. The oracle is Iceberg's own reader. Where a test
takes a guard out, it shows the wrong rows that the guard prevents.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from firnline_committer.commit import post_commit_check
from firnline_domain.base.values import replace
from firnline_domain.commits import commit_plan, conflicts
from firnline_domain.records.events import RewriteCommitted, RewriteConflicted
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import RewriteFinished
from firnline_domain.version import VERSION
from pyiceberg.catalog.rest import RestCatalog

from tests.kit.lake.checks import handled
from tests.kit.lake.guards import Guard, Removal, make_guard_test, removed
from tests.kit.lake.script import Script

pytestmark = pytest.mark.stack
Table = Any  # tests.kit.lake.scenario.CommitScenario
Committer = Any  # firnline_committer.handlers.CommitterHandlers


NO_HAZARD: Removal = (commit_plan, "lost_deletes", lambda *_: ())
NO_SECOND_LOOK: Removal = (post_commit_check, "needed_but_removed", lambda *_: None)
SCHEDULE = "append 1 2 | append 3 | rewrite groups={} | eq_delete 1 | append 4"
GUARDS = [
    # Unpartitioned, whole-table rewrite, concurrent equality delete, then another commit.
    Guard(
        "issue 10312", SCHEDULE.format(1), ConflictReason.HAZARD_10312, "2 3 4", "1 2 3 4",
        (NO_HAZARD, NO_SECOND_LOOK),
    ),
    # Nothing concurrent: written at M = 2, while delete 3 and append 4 exist already.
    Guard(
        "merge number (H1)", "append 1 | append 2 3 | eq_delete 1 | append 4 | rewrite number=2",
        ConflictReason.HAZARD_10312, "2 3 4", "1 2 3 4", (NO_HAZARD, NO_SECOND_LOOK),
    ),
    # Repair-start hazard (H4). Without a row map there is nothing to repair it with.
    Guard(
        "new position delete", "append 1 2 | rewrite map=none | pos_delete f1 0",
        ConflictReason.NEW_POSITION_DELETES, "2",
    ),
    # History-only hazard (H8): Java's own validation looks at history, and the start is expired.
    Guard(
        "new position delete without history",
        "append 1 2 | rewrite map=none | pos_delete f1 0 | append 3 | expire",
        ConflictReason.NEW_POSITION_DELETES, "2 3", "1 2 3",
        (removed(conflicts.no_position_delete_missed),),
    ),
    # Unapplied-delete hazard (H2): its number is above the output's, and yet it will never apply
    # to the output.
    Guard(
        "position delete that a merge leaves behind",
        "append 1 2 | append 3 | pos_delete f1 0 | rewrite number=2 | unmasked",
        ConflictReason.NEW_POSITION_DELETES, "2 3", "1 2 3",
        (removed(conflicts.no_position_delete_missed),),
    ),
    Guard(
        "delete that was rolled back", "append 1 2 | eq_delete 1 | rewrite | rollback s1 | expire",
        ConflictReason.APPLIED_DELETE_GONE, "1 2", "2",
        (removed(conflicts.applied_live, conflicts.started_before),),
    ),
    Guard(
        "input that was removed", "append 1 | append 2 | rewrite | remove f1",
        ConflictReason.INPUTS_GONE, "2",
    ),
]  # fmt: skip


# Each refuses, and without it the wrong rows show.
test_a_guard = make_guard_test(GUARDS)


def refusal(committer: Committer, result: RewriteFinished) -> ConflictReason:
    event = handled(committer, result)
    assert isinstance(event, RewriteConflicted)
    return event.reason


def schedule_10312(table: Table, groups: int = 1) -> RewriteFinished:
    return Script(table).play(SCHEDULE.format(groups))


# ---- issue 10312: the schedule of the issue, and merge-number hazard (H1)


AFTER = [(2, 1), (3, 1), (4, 1)]


@pytest.mark.parametrize("guard", GUARDS[:2], ids=lambda one: one.name)
def test_the_second_look_undoes_what_the_first_guard_let_through(
    table: Table, committer: Committer, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*NO_HAZARD)
    result = Script(table).play(guard.script)
    head = table.head
    assert refusal(committer, result) is ConflictReason.HAZARD_10312
    assert table.head == head
    assert table.rows() == AFTER


def test_nothing_is_undone_over_another_commit(
    table: Table, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*NO_HAZARD)
    result = schedule_10312(table)
    found = post_commit_check.needed_but_removed

    def meanwhile(*args: Any) -> str | None:
        table.append((5, 1))
        return found(*args)

    monkeypatch.setattr(post_commit_check, "needed_but_removed", meanwhile)
    event = handled(committer, result)
    assert "NOT undone" in event.detail
    assert (5, 1) in table.rows()


def test_two_groups_go_in_two_rewrites_of_one_transaction(
    table: Table, committer: Committer
) -> None:
    result = schedule_10312(table, groups=2)
    event = handled(committer, result)
    assert len(event.snapshot_ids) == 2
    assert table.rows() == AFTER
    assert len(table.live_deletes()) == 1
    for snapshot_id in event.snapshot_ids:
        summary = table.loaded.snapshot(snapshot_id).summary
        assert summary.get("firnline.task-id") == result.task_id
        assert summary.get("firnline.version") == VERSION


def test_the_same_two_groups_in_one_rewrite_bring_the_row_back(
    table: Table, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*NO_HAZARD)
    monkeypatch.setattr(*NO_SECOND_LOOK)
    event = handled(committer, schedule_10312(table, groups=2))
    assert len(event.snapshot_ids) == 1
    assert table.rows() == [(1, 1), *AFTER]


def test_a_steady_upsert_stream_is_not_hazardous(table: Table, committer: Committer) -> None:
    """Data file and equality delete of one commit share a number: nothing is below the other."""
    table.append((1, 1), (2, 1))
    result = table.rewrite()
    for version in (2, 3):
        table.upsert((1, version))
    assert isinstance(handled(committer, result), RewriteCommitted)
    assert table.rows() == [(1, 3), (2, 1)]


def test_an_expired_start_does_not_stop_a_commit(table: Table, committer: Committer) -> None:
    """History-only hazard (H8): everything needed stands in the head's state."""
    table.append((1, 1), (2, 1))
    table.delete_ids(1)
    result = table.rewrite()
    table.append((3, 1))
    table.append((4, 1))
    table.expire_all_but_heads()
    assert not table.loaded.retains(result.start_snapshot_id)
    assert isinstance(handled(committer, result), RewriteCommitted)
    assert table.rows() == [(2, 1), (3, 1), (4, 1)]


# ---- rollbacks, specs


def test_a_start_off_the_branch_is_refused(table: Table, committer: Committer) -> None:
    table.append((1, 1))
    before = table.head
    table.append((2, 1))
    result = table.rewrite()
    (group,) = result.groups
    (first,) = [file for file in group.inputs if file.sequence_number == 1]
    alone = table.unmasked(replace(group, inputs=(first,), rows_in=1))
    table.roll_back(before)
    changed = replace(result, groups=(alone,))
    assert refusal(committer, changed) is ConflictReason.START_NOT_ANCESTOR
    assert table.rows() == [(1, 1)]


@pytest.mark.parametrize("guarded", [True, False])
def test_outputs_of_another_spec_are_refused(
    make_table: Any,
    lake: RestCatalog,
    committer: Committer,
    guarded: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """2.4 b: a concurrent delete of the old spec would stop applying, and the row come back."""
    table = make_table(partitioned=True)
    table.append((9, 9), p="b")
    table.append((1, 1), (2, 1), p="a")
    result = table.rewrite("a")
    table.delete_ids(1, scope=table.scope("a"))
    with lake.load_table((*table.name.namespace, table.name.name)).update_spec() as update:
        update.remove_field("p")
    (group,) = result.groups
    (output,) = group.outputs
    body = {**json.loads(output.content_file_json), "spec-id": 1, "partition": []}
    moved = replace(output, content_file_json=json.dumps(body))
    changed = replace(result, groups=(replace(group, outputs=(moved,)),))
    if guarded:
        assert refusal(committer, changed) is ConflictReason.SPEC_CHANGED
        assert table.rows() == [(2, 1), (9, 9)]
        assert isinstance(handled(committer, table.rewrite("a")), RewriteCommitted)
        assert table.rows() == [(2, 1), (9, 9)]
    else:
        monkeypatch.setattr(*removed(conflicts.partition_kept))
        handled(committer, changed)
        assert (1, 1) in table.rows()


def test_files_of_a_spec_that_came_since_the_last_commit(
    table: Table, lake: RestCatalog, committer: Committer
) -> None:
    """The table is kept from one commit to the next for a moment: then it has no such spec yet."""
    table.append((1, 1))
    table.append((2, 1))
    assert isinstance(handled(committer, table.rewrite()), RewriteCommitted)
    with lake.load_table((*table.name.namespace, table.name.name)).update_spec() as update:
        update.add_identity("p")
    table.partitioned, table.spec_id = True, 1
    table.append((3, 1), p="a")
    table.append((4, 1), p="a")
    assert isinstance(handled(committer, table.rewrite("a")), RewriteCommitted)
    assert table.rows() == [(1, 1), (2, 1), (3, 1), (4, 1)]


# ---- shared-number hazard (H6): one rewrite per data sequence number


def two_results(table: Table) -> tuple[RewriteFinished, RewriteFinished]:
    """Stamps 2 and 5; in partition b, delete 4 is older than the row that came back at 5."""
    table.append((9, 1), p="c")
    table.append((1, 1), p="a")
    first = table.rewrite("a", task="first")
    table.append((7, 1), p="b")
    table.delete_ids(7, scope=table.scope("b"))
    table.append((7, 2), p="b")
    return first, table.rewrite("b", task="second")


def test_results_of_one_poll_share_a_transaction(make_table: Any, committer: Committer) -> None:
    table = make_table(partitioned=True)
    first, second = two_results(table)
    before = table.loaded
    events = committer.handle([second, first])
    assert {event.task_id for event in events} == {"first", "second"}
    assert len({event.snapshot_ids for event in events}) == 2
    assert table.rows() == [(1, 1), (7, 2), (9, 1)]
    logs = len(table.loaded.metadata.metadata_log) - len(before.metadata.metadata_log)
    assert logs == 1


def test_one_number_for_both_lets_an_old_delete_kill_a_newer_row(
    make_table: Any, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(partitioned=True)
    first, second = two_results(table)
    by_sequence_number = commit_plan._by_sequence_number

    def lumped(results: Any, repair: Any, converts: bool) -> Any:
        made = by_sequence_number(results, repair, converts)
        parts = tuple(part for rewrite in made for part in rewrite.parts)
        return () if converts else (replace(made[0], parts=parts),)

    monkeypatch.setattr(commit_plan, "_by_sequence_number", lumped)
    monkeypatch.setattr(commit_plan, "spent_deletes", lambda *_: ())
    monkeypatch.setattr(*NO_SECOND_LOOK)
    committer.handle([second, first])
    assert table.rows() == [(1, 1), (9, 1)]


# ---- what goes with a commit


def test_applied_deletes_go_in_the_same_commit(make_table: Any, committer: Committer) -> None:
    table = make_table(partitioned=True)
    path = table.append((1, 1), (2, 1), (3, 1), p="a")
    table.append((1, 1), p="b")
    table.delete_ids(1, scope=table.scope("a"))
    table.delete_rows(path, 1, scope=table.scope("a"))
    other = table.delete_ids(1, scope=table.scope("b"))
    result = table.rewrite("a")
    later = table.delete_ids(3, scope=table.scope("a"))
    event = handled(committer, result)
    assert (event.equality_deletes_removed, event.position_deletes_removed) == (1, 1)
    assert table.live_deletes() == {other, later}
    assert table.rows() == []


def test_a_partition_whose_rows_are_all_dead_is_emptied(table: Table, committer: Committer) -> None:
    table.append((1, 1))
    table.delete_ids(1)
    result = table.rewrite()
    assert result.groups[0].outputs == ()
    event = handled(committer, result)
    assert (event.files_removed, event.files_added, event.rows_out) == (1, 0, 0)
    assert table.live_data() == set()
    assert table.live_deletes() == set()


def test_global_deletes_of_an_older_spec_hold_and_go(
    table: Table, lake: RestCatalog, committer: Committer
) -> None:
    """An equality delete of the unpartitioned spec reaches the files of every spec."""
    table.append((1, 1), (2, 1))
    with lake.load_table((*table.name.namespace, table.name.name)).update_spec() as update:
        update.add_identity("p")
    table.delete_ids(2)
    event = handled(committer, table.rewrite())
    assert event.equality_deletes_removed == 1
    assert table.rows() == [(1, 1)]
