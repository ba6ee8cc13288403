"""At most once, whatever is lost on the way: H7, races for the head, unknown outcomes, sweeping."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from firnline_committer import committed_results
from firnline_committer import committer as committing
from firnline_domain.commits import commit_plan, conflicts
from firnline_domain.errors import RetryLater
from firnline_domain.records.events import ConflictReason, RewriteCommitted, RewriteConflicted
from firnline_domain.records.results import RewriteFinished
from firnline_domain.values import replace
from firnline_iceberg.commits import JavaCommits, Pin
from firnline_iceberg.tables import Tables

pytestmark = pytest.mark.stack
Table = Any  # tests.kit.commit_scenario.CommitScenario
Committer = Any  # firnline_committer.handlers.Handlers
Meddler = Any  # tests.meddling.Meddler


def handled(committer: Committer, result: RewriteFinished) -> Any:
    (event,) = committer.handle([result])
    return event


def files(result: RewriteFinished) -> list[Path]:
    return [Path(file.path.removeprefix("file:")) for file in conflicts.outputs(result)]


def rewritten(table: Table) -> RewriteFinished:
    table.append((1, 1), (2, 1))
    table.delete_ids(1)
    result: RewriteFinished = table.rewrite()
    return result


def replaces(table: Table) -> int:
    """Rewrites among the retained snapshots."""
    operations = [one.summary.operation.value for one in table.loaded.snapshots]
    return operations.count("replace")


# ---- H7


def test_a_redelivered_result_is_found_by_its_task_id(table: Table, committer: Committer) -> None:
    result = rewritten(table)
    first = handled(committer, result)
    again = handled(committer, result)
    assert (first.redelivered, again.redelivered) == (False, True)
    assert again.snapshot_ids == first.snapshot_ids
    assert replaces(table) == 1


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
    """H7: the committer died after the commit, and the snapshot expired since."""
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
    monkeypatch.setattr(committed_results, "_by_outputs", lambda *_: {})
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
        assert event.reason is ConflictReason.FOREIGN_OUTPUTS
        assert (table.head, table.rows()) == (head, [(1, 1), (2, 1)])
    assert victim.rows() == [(7, 1), (8, 1)]


# ---- races for the head


def test_a_harmless_commit_in_between_costs_one_more_try(
    table: Table, meddled: Committer, meddler: Meddler
) -> None:
    result = rewritten(table)
    meddler.before = [lambda: table.append((3, 1))]
    assert isinstance(handled(meddled, result), RewriteCommitted)
    assert meddler.commits == 2
    assert table.rows() == [(2, 1), (3, 1)]


def test_a_lost_race_is_no_error_with_two_stacks(
    table: Table, meddled: Committer, meddler: Meddler, caplog: pytest.LogCaptureFixture
) -> None:
    result = rewritten(table)
    meddler.before = [lambda: table.append((3, 1))]
    caplog.set_level(logging.INFO)
    assert isinstance(handled(meddled, result), RewriteCommitted)
    told = [one for one in caplog.records if one.levelno >= logging.WARNING or one.exc_info]
    assert [one.getMessage() for one in told] == []
    [moved] = [one.getMessage() for one in caplog.records if "head_moved" in one.getMessage()]
    assert "branch main has changed" in moved
    assert "\n" not in moved


def race_with_expiry(table: Table, meddler: Meddler) -> RewriteFinished:
    """A position delete lands between examination and commit; history does not show it."""
    path = table.append((1, 1), (2, 1))
    table.append((3, 1))
    result: RewriteFinished = table.rewrite()

    def meanwhile() -> None:
        table.delete_rows(path, 0)
        table.append((4, 1))

    meddler.before = [meanwhile]
    table.append((9, 1))
    table.expire_all_but_heads()
    return result


def test_the_new_head_is_examined_again(table: Table, meddled: Committer, meddler: Meddler) -> None:
    result = race_with_expiry(table, meddler)
    event = handled(meddled, replace(result, row_map=None))
    assert event.reason is ConflictReason.NEW_POSITION_DELETES
    assert (1, 1) not in table.rows()


@pytest.mark.parametrize("pinned", [True, False])
def test_java_loads_a_head_that_nobody_examined(
    table: Table, committer: Committer, pinned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A global equality delete and an append came in between: the 10312 hazard."""
    table.append((1, 1), (2, 1))
    result = table.rewrite()
    load = JavaCommits._load

    def meanwhile(self: JavaCommits, name: Any) -> Any:
        if table.rows() == [(1, 1), (2, 1)]:
            table.delete_ids(1)
            table.append((4, 1))
        return load(self, name)

    monkeypatch.setattr(JavaCommits, "_load", meanwhile)
    if pinned:
        assert handled(committer, result).reason is ConflictReason.HAZARD_10312
        assert table.rows() == [(2, 1), (4, 1)]
    else:
        monkeypatch.setattr(Pin, "validate", lambda self, _: True)
        monkeypatch.setattr(Pin, "holds", lambda self, _: True)
        monkeypatch.setattr(committing.post_commit_check, "needed_but_removed", lambda *_: None)
        assert isinstance(handled(committer, result), RewriteCommitted)
        assert table.rows() == [(1, 1), (2, 1), (4, 1)]


def test_a_head_that_always_moves_is_tried_again_later(
    table: Table, meddled: Committer, meddler: Meddler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work is done, and must not be thrown away for a busy minute; nor must others wait."""
    monkeypatch.setattr(committing, "MAX_ATTEMPTS", 2)
    result = rewritten(table)
    meddler.before = [lambda: table.append((3, 1))] * committing.ATTEMPTS_IN_A_ROW
    turn = meddled.advance([result])
    assert (turn.events, turn.open, turn.unreachable) == ([], [result], None)
    assert 0 < turn.pause_s < 1
    assert meddler.commits == committing.ATTEMPTS_IN_A_ROW
    event = handled(meddled, result)
    assert isinstance(event, RewriteCommitted)
    assert not event.redelivered


def test_a_head_that_always_moves_is_given_up(
    table: Table, meddled: Committer, meddler: Meddler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "MAX_ATTEMPTS", 3)
    result = replace(rewritten(table), finished_at_ms=-committing.PATIENCE_MS)
    meddler.before = [lambda: table.append((3, 1))] * 3
    event = handled(meddled, result)
    assert event.reason is ConflictReason.PIN_LOST
    assert meddler.commits == 3
    assert all(path.exists() for path in files(result))  # another committer may still land it


def test_two_committers_at_once_commit_once(
    table: Table, committer: Committer, meddled: Committer, meddler: Meddler
) -> None:
    """The second commits while the first one's request is on its way."""
    result = rewritten(table)
    theirs: list[Any] = []
    meddler.before = [lambda: theirs.append(handled(committer, result))]
    ours = handled(meddled, result)
    assert ours.redelivered
    assert not theirs[0].redelivered
    assert replaces(table) == 1
    assert table.rows() == [(2, 1)]


# ---- unknown outcomes


def test_an_answer_that_is_lost_is_read_from_the_table(
    table: Table, meddled: Committer, meddler: Meddler
) -> None:
    result = rewritten(table)
    meddler.drop_answer = True
    event = handled(meddled, result)
    assert isinstance(event, RewriteCommitted)
    assert not event.redelivered
    assert replaces(table) == 1
    assert table.rows() == [(2, 1)]


def test_a_request_that_is_lost_is_sent_again(
    table: Table, meddled: Committer, meddler: Meddler
) -> None:
    result = rewritten(table)
    meddler.drop_request = True
    event = handled(meddled, result)
    assert isinstance(event, RewriteCommitted)
    assert replaces(table) == 1
    assert table.rows() == [(2, 1)]


def test_outputs_are_never_swept_after_an_unknown_outcome(
    table: Table, meddled: Committer, meddler: Meddler
) -> None:
    path = table.append((1, 1), (2, 1))
    result = table.rewrite()
    meddler.drop_request = True
    meddler.before = [lambda: table.remove(path)]
    assert handled(meddled, result).reason is ConflictReason.INPUTS_GONE
    assert all(path.exists() for path in files(result))


def test_a_catalog_that_is_away_is_asked_again(
    table: Table, meddled: Committer, meddler: Meddler
) -> None:
    result = rewritten(table)
    upstream, meddler.upstream = meddler.upstream, "http://127.0.0.1:9"
    with pytest.raises(RetryLater):
        meddled.handle([result])
    meddler.upstream = upstream
    assert isinstance(handled(meddled, result), RewriteCommitted)


# ---- what a commit did is looked at whoever finds it


def harmful(table: Table, monkeypatch: pytest.MonkeyPatch) -> RewriteFinished:
    """Issue 10312, and no guard before the commit."""
    monkeypatch.setattr(commit_plan, "lost_deletes", lambda *_: ())
    table.append((1, 1), (2, 1))
    result: RewriteFinished = table.rewrite()
    table.delete_ids(1)
    table.append((3, 1))
    return result


def taken_back(table: Table, event: Any) -> None:
    assert isinstance(event, RewriteConflicted)
    assert (event.reason, "; undone" in event.detail) == (ConflictReason.HAZARD_10312, True)
    assert table.rows() == [(2, 1), (3, 1)]


def test_a_harmful_commit_whose_answer_is_lost_is_taken_back(
    table: Table, meddled: Committer, meddler: Meddler, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = harmful(table, monkeypatch)
    meddler.drop_answer = True
    taken_back(table, handled(meddled, result))


def test_so_is_one_that_a_committer_has_sent_which_died(
    table: Table,
    committer: Committer,
    committer_of: Any,
    iceberg: Any,
    catalog_uri: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = harmful(table, monkeypatch)
    with monkeypatch.context() as dead:
        dead.setattr(committing.post_commit_check, "losses", lambda *_: {})
        handled(committer, result)
        assert table.rows() == [(1, 1), (2, 1), (3, 1)]
    taken_back(table, handled(committer_of(iceberg, catalog_uri), result))
    taken_back(table, handled(committer, result))  # once more: it is not in the history now


def test_so_is_one_after_which_the_catalog_was_away(
    table: Table, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = harmful(table, monkeypatch)
    removed = committing.post_commit_check.needed_but_removed

    def away(*_: Any) -> str | None:
        raise RetryLater("away")

    with monkeypatch.context() as outage:
        outage.setattr(committing.post_commit_check, "needed_but_removed", away)
        with pytest.raises(RetryLater):
            committer.handle([result])
    assert committing.post_commit_check.needed_but_removed is removed
    taken_back(table, handled(committer, result))


def test_of_a_commit_of_two_tasks_only_the_harmful_one_goes_back(
    make_table: Any, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two stamps, so two snapshots: the upper one is alone to blame."""
    table = make_table(partitioned=True)
    table.append((1, 1), p="a")
    first = table.rewrite("a")
    table.append((2, 1), p="b")
    second = table.rewrite("b")
    blamed = committing.post_commit_check.losses

    def second_alone(table: Any, results: Any, found: Any, sent: Any) -> dict[str, str]:
        assert blamed(table, results, found, sent) == {}
        return {task: "a delete" for task in found if task == second.task_id}

    monkeypatch.setattr(committing.post_commit_check, "losses", second_alone)
    events = {event.task_id: event for event in committer.handle([first, second])}
    assert isinstance(events[first.task_id], RewriteCommitted)
    assert isinstance(events[second.task_id], RewriteConflicted)
    assert table.head == events[first.task_id].snapshot_ids[-1]
    assert table.rows() == [(1, 1), (2, 1)]


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
