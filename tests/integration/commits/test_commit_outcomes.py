"""Races for the head, outcomes that nobody knows, and commits that did harm."""

from __future__ import annotations

import gc
import logging
from typing import Any

import pytest
from firnline_committer.commit import committer as committing
from firnline_domain.base.values import replace
from firnline_domain.commits import commit_plan
from firnline_domain.errors import RetryLater
from firnline_domain.identity import CATALOG
from firnline_domain.records.events import RewriteCommitted, RewriteConflicted
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.commit.java_commits import HeadPin, JavaCommits
from firnline_iceberg.commit.single_send import SingleSend
from prometheus_client import REGISTRY

from tests.kit.lake.checks import files, handled, replaces, rewritten

pytestmark = pytest.mark.stack
Table = Any  # tests.kit.lake.scenario.CommitScenario
Committer = Any  # firnline_committer.handlers.CommitterHandlers
Meddler = Any  # tests.meddling.Meddler


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


def test_each_commit_that_was_sent_is_timed(
    table: Table, meddled: Committer, meddler: Meddler
) -> None:
    result, before = rewritten(table), sent()
    meddler.before = [lambda: table.append((3, 1))]
    assert isinstance(handled(meddled, result), RewriteCommitted)
    assert sent() - before >= 1


def test_a_commit_that_is_done_is_not_held_for_java(table: Table, committer: Committer) -> None:
    """Java says late that it needs one no longer, and Spark's JVM never."""
    before = commits_in_memory()
    assert isinstance(handled(committer, rewritten(table)), RewriteCommitted)
    assert commits_in_memory() == before


def commits_in_memory() -> int:
    gc.collect()
    return sum(type(one) is SingleSend for one in gc.get_objects())


def sent() -> float:
    labels = {"catalog": CATALOG, "method": "POST"}
    return REGISTRY.get_sample_value("firnline_catalog_seconds_count", labels) or 0.0


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
    load = JavaCommits._load_java

    def meanwhile(self: JavaCommits, name: Any) -> Any:
        if table.rows() == [(1, 1), (2, 1)]:
            table.delete_ids(1)
            table.append((4, 1))
        return load(self, name)

    monkeypatch.setattr(JavaCommits, "_load_java", meanwhile)
    if pinned:
        assert handled(committer, result).reason is ConflictReason.HAZARD_10312
        assert table.rows() == [(2, 1), (4, 1)]
    else:
        monkeypatch.setattr(HeadPin, "validate", lambda self, _: True)
        monkeypatch.setattr(HeadPin, "is_head", lambda self, _: True)
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


@pytest.mark.parametrize("lost", ["drop_answer", "drop_request"])
def test_what_is_lost_on_its_way_is_read_from_the_table_or_sent_again(
    table: Table, meddled: Committer, meddler: Meddler, lost: str
) -> None:
    result = rewritten(table)
    setattr(meddler, lost, True)
    event = handled(meddled, result)
    assert isinstance(event, RewriteCommitted)
    assert not event.redelivered
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


@pytest.mark.way("service")  # a run waits for as long as the pump does
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
        dead.setattr(committing.post_commit_check, "lost_deletes", lambda *_: {})
        handled(committer, result)
        assert table.rows() == [(1, 1), (2, 1), (3, 1)]
    taken_back(table, handled(committer_of(iceberg, catalog_uri), result))
    taken_back(table, handled(committer, result))  # once more: it is not in the history now


@pytest.mark.way("service")  # a run waits for as long as the pump does
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
    blamed = committing.post_commit_check.lost_deletes

    def second_alone(table: Any, results: Any, found: Any, sent: Any) -> dict[str, str]:
        assert blamed(table, results, found, sent) == {}
        return {task: "a delete" for task in found if task == second.task_id}

    monkeypatch.setattr(committing.post_commit_check, "lost_deletes", second_alone)
    events = {event.task_id: event for event in committer.handle([first, second])}
    assert isinstance(events[first.task_id], RewriteCommitted)
    assert isinstance(events[second.task_id], RewriteConflicted)
    assert table.head == events[first.task_id].snapshot_ids[-1]
    assert table.rows() == [(1, 1), (2, 1)]
