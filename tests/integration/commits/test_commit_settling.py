"""At most once, whatever is redelivered (redelivery hazard, H7); branches, tables that are gone."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_committer.commit import found_commits
from firnline_domain.base.values import replace
from firnline_domain.records.events import RewriteCommitted, RewriteConflicted
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.parts.summaries import SIGNATURE, TASK_ID
from firnline_iceberg.table.catalog_client import Tables

from tests.kit.lake.checks import files, handled, replaces, rewritten

pytestmark = pytest.mark.stack
Table = Any  # tests.kit.lake.scenario.CommitScenario
Committer = Any  # firnline_committer.handlers.CommitterHandlers
Meddler = Any  # tests.meddling.Meddler


# ---- redelivery hazard (H7)


def test_a_redelivered_result_is_found_by_its_task_id(table: Table, committer: Committer) -> None:
    result = rewritten(table)
    first = handled(committer, result)
    again = handled(committer, result)
    assert (first.redelivered, again.redelivered) == (False, True)
    assert again.snapshot_ids == first.snapshot_ids
    assert replaces(table) == 1


def test_a_stranger_who_names_the_task_settles_nothing(table: Table, committer: Committer) -> None:
    """A task's id stands in the write-ahead list beside the table, and is a hash of what everybody
    can read; numbers of a summary may be any text."""
    result = rewritten(table)
    task, much = result.task_id, "9" * 30
    said = {
        TASK_ID: task,
        found_commits.REPAIRED: f"{task}:{much}",
        found_commits.LOST_GROUPS: f"{task}:0:outputs_gone",
        "removed-equality-delete-files": much,
        SIGNATURE: "tests 1 00",
    }
    append = table.java.newFastAppend()
    for name, value in said.items():
        append.set(name, value)
    append.commit()
    stranger = table.head
    event = handled(committer, result)
    assert (type(event), event.redelivered) == (RewriteCommitted, False)
    assert stranger not in event.snapshot_ids
    assert (event.rows_repaired, event.groups_lost, replaces(table)) == (0, 0, 1)
    again = handled(committer, result)
    assert (again.redelivered, again.snapshot_ids) == (True, event.snapshot_ids)


def test_a_result_without_outputs_is_known_by_its_task_id(
    table: Table, committer: Committer
) -> None:
    table.append((1, 1))
    table.delete_ids(1)
    result = table.rewrite()
    first = handled(committer, result)
    again = handled(committer, result)
    assert (again.redelivered, again.snapshot_ids) == (True, first.snapshot_ids)


def test_another_attempt_of_a_committed_task_is_not_committed(
    table: Table, committer: Committer
) -> None:
    result = rewritten(table)
    other = table.rewrite(task=result.task_id, attempt=2)
    handled(committer, result)
    assert handled(committer, other).redelivered
    assert replaces(table) == 1


def test_it_is_found_by_its_outputs_when_the_snapshot_is_expired(
    table: Table, committer: Committer
) -> None:
    """Redelivery hazard (H7): the committer died after the commit, and the snapshot expired
    since."""
    result = rewritten(table)
    handled(committer, result)
    table.append((3, 1))
    table.expire_all_but_heads()
    event = handled(committer, result)
    assert isinstance(event, RewriteCommitted)
    assert (event.redelivered, event.snapshot_ids) == (True, ())
    assert all(path.exists() for path in files(result))
    assert table.rows() == [(2, 1), (3, 1)]


def test_by_task_id_alone_it_would_be_refused(
    table: Table, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard of the test above, taken out. Nothing depends on it but the event: no refusal
    removes a file."""
    result = rewritten(table)
    handled(committer, result)
    table.append((3, 1))
    table.expire_all_but_heads()
    monkeypatch.setattr(found_commits, "_find_by_outputs", lambda *_: {})
    assert isinstance(handled(committer, result), RewriteConflicted)
    assert all(path.exists() for path in files(result))
    assert table.rows() == [(2, 1), (3, 1)]


def test_a_start_that_the_table_contradicts_hides_no_output(
    table: Table, committer: Committer
) -> None:
    """The number, and the snapshot, are what somebody says."""
    result = rewritten(table)
    handled(committer, result)
    table.append((3, 1))
    table.expire_all_but_heads()
    forged = replace(result, start_sequence_number=10**15, start_snapshot_id=table.head)
    event = handled(committer, forged)
    assert (type(event), event.redelivered) == (RewriteCommitted, True)


def test_outputs_that_only_an_abandoned_snapshot_has_stay(
    table: Table, committer: Committer
) -> None:
    """After a rollback our snapshot is off the branch, but time travel still reads it."""
    result = rewritten(table)
    head = table.head
    handled(committer, result)
    table.roll_back(head)
    assert handled(committer, result).redelivered
    assert all(path.exists() for path in files(result))


def test_outputs_that_only_another_branch_has_stay(table: Table, committer: Committer) -> None:
    result = rewritten(table)
    head = table.head
    handled(committer, result)
    table.branch("audit")
    table.roll_back(head)
    table.expire_all_but_heads()
    assert handled(committer, result).redelivered
    assert all(path.exists() for path in files(result))


def test_after_a_restart_the_table_is_read_once_for_all_results_that_come_again(
    make_table: Any, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(partitioned=True)
    for p in "abcde":
        table.append((1, 1), p=p)
        table.append((2, 1), p=p)
    results = [table.rewrite(p) for p in "abcde"]
    first, later = results[:3], results[3:]
    committer.handle(first)
    loads: list[Any] = []
    load = Tables.load
    monkeypatch.setattr(
        Tables, "load", lambda tables, name: loads.append(name) or load(tables, name)
    )
    assert all(event.redelivered for event in committer.handle(first))
    assert len(loads) == 1
    events = committer.handle(results)  # among them some that were never committed
    assert [event.redelivered for event in events] == [True] * 3 + [False] * 2
    assert len(loads) <= 1 + 2 + len(later)  # and after the commit, once for each new one's files


def test_one_poll_with_the_same_result_twice(table: Table, committer: Committer) -> None:
    result = rewritten(table)
    events = committer.handle([result, result])
    assert [event.redelivered for event in events] == [False, True]
    assert replaces(table) == 1


def test_a_forged_result_neither_adds_nor_removes_a_file_of_another_table(
    table: Table, make_table: Any, committer: Committer
) -> None:
    """Its outputs, row map and list are another table's live files; its start hides everything."""
    victim = make_table()
    theirs = victim.append((7, 1), (8, 1))
    lists = [one.manifest_list for one in victim.loaded.snapshots]
    table.append((1, 1), (2, 1))
    result = table.rewrite()
    (output,) = result.groups[0].outputs
    text = output.content_file_json.replace(output.path, theirs)
    stolen = replace(output, path=theirs, content_file_json=text)
    misdescribed = replace(output, content_file_json=text)
    for forged in (stolen, misdescribed):
        group = replace(result.groups[0], outputs=(forged,))
        head = table.head
        event = handled(
            committer,
            replace(
                result, groups=(group,), row_map=theirs, output_list=lists[0],
                start_sequence_number=10**15,
            ),
        )  # fmt: skip
        assert event.reason is ConflictReason.INVALID_OUTPUTS
        assert (table.head, table.rows()) == (head, [(1, 1), (2, 1)])
    assert victim.rows() == [(7, 1), (8, 1)]


# ---- sweeping


def test_refused_outputs_are_the_sweeps(table: Table, committer: Committer) -> None:
    path = table.append((1, 1), (2, 1))
    result = table.rewrite()
    table.remove(path)
    assert handled(committer, result).reason is ConflictReason.INPUTS_GONE
    assert all(path.exists() for path in files(result))


def test_outputs_stay_where_the_refusal_may_pass(table: Table, committer: Committer) -> None:
    table.append((1, 1), (2, 1))
    result = table.rewrite()
    table.delete_ids(1)
    table.append((3, 1))
    assert handled(committer, result).reason is ConflictReason.HAZARD_10312
    assert all(path.exists() for path in files(result))


def test_a_result_without_its_outputs_is_refused(table: Table, committer: Committer) -> None:
    result = rewritten(table)
    files(result)[0].unlink()
    assert handled(committer, result).reason is ConflictReason.OUTPUTS_GONE
    assert table.rows() == [(2, 1)]


# ---- branches, and tables that are gone


def test_a_branch_is_committed_to_and_main_is_not(table: Table, committer: Committer) -> None:
    table.append((1, 1), (2, 1))
    table.branch("audit")
    table.delete_ids(1, ref="audit")
    result = table.rewrite(ref="audit")
    head = table.head
    event = handled(committer, result)
    assert table.head == head
    assert table.loaded.head("audit").snapshot_id == event.snapshot_ids[-1]
    assert table.rows("audit") == [(2, 1)]
    assert table.rows() == [(1, 1), (2, 1)]
    assert table.live_deletes("audit") == set()


def test_a_branch_or_table_that_is_gone(table: Table, committer: Committer) -> None:
    table.append((1, 1))
    table.branch("audit")
    on_branch, on_main = table.rewrite(ref="audit"), table.rewrite()
    table.java.manageSnapshots().removeBranch("audit").commit()
    assert handled(committer, on_branch).reason is ConflictReason.REF_GONE
    table.drop()
    assert handled(committer, on_main).reason is ConflictReason.TABLE_GONE


def test_format_version_1(make_table: Any, committer: Committer) -> None:
    table = make_table(**{"format-version": "1"})
    table.append((1, 1))
    table.append((2, 1))
    result = table.rewrite()
    assert isinstance(handled(committer, result), RewriteCommitted)
    assert handled(committer, result).redelivered
    assert table.rows() == [(1, 1), (2, 1)]
    assert len(table.live_data()) == 1
