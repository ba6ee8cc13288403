"""A task is the union of what was said about it, in whatever order and however often."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from firnline_console.views.tasks import TaskStatus, TaskView, fold_task, totals_of

Make = Callable[..., Any]
ORDER, COMMIT = "rewrite_files/compact", "rewrite_committed/native"
CONFLICT, SKIP = "rewrite_conflicted/new_position_deletes", "rewrite_skipped/nothing_to_do"
FAILURE = "task_failed/out_of_memory"


def folded(*facts: Any) -> TaskView:
    view: TaskView | None = None
    for fact in facts:
        view = fold_task(view, fact)
    assert view is not None
    return view


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (COMMIT, TaskStatus.COMMITTED),
        (CONFLICT, TaskStatus.CONFLICTED),
        (SKIP, TaskStatus.SKIPPED),
        ("snapshots_expired/expired", TaskStatus.COMMITTED),
        ("snapshots_expired/refused", TaskStatus.SKIPPED),
    ],
)
def test_an_outcome_ends_a_task(make: Make, path: str, status: TaskStatus) -> None:
    assert folded(make(path)).status is status


def test_an_order_without_outcome_is_open(make: Make) -> None:
    assert folded(make(ORDER)).status is TaskStatus.ORDERED


def test_every_order_of_arrival_gives_the_same_task(make: Make) -> None:
    facts = [
        make(ORDER, attempt=1, ordered_at_ms=10),
        make(FAILURE, attempt=1, failed_at_ms=20),
        make(ORDER, attempt=2, ordered_at_ms=30),
        make(CONFLICT, conflicted_at_ms=40),
        make(ORDER, attempt=3, ordered_at_ms=50),
        make(COMMIT, committed_at_ms=60),
    ]
    views = {repr(folded(*order)) for order in itertools.permutations(facts)}
    assert len(views) == 1
    view = folded(*facts)
    assert (view.status, view.order and view.order.attempt) == (TaskStatus.COMMITTED, 3)
    assert [one.status.value for one in view.outcomes] == ["failed", "conflicted", "committed"]


def test_the_newest_heartbeat_says_who_is_at_work(make: Make) -> None:
    order = make(ORDER, attempt=2, ordered_at_ms=10)
    beats = [
        make("task_running/rewrite", attempt=1, at_ms=90, worker="lost"),
        make("task_running/rewrite", attempt=2, at_ms=70),
        make("task_running/rewrite", attempt=2, at_ms=80, finished=True),
    ]
    for facts in itertools.permutations([order, *beats]):
        view = folded(*facts)
        assert view.status is TaskStatus.ORDERED
        assert view.run is not None
        assert (view.run.worker, view.run.at_ms, view.run.finished) == ("worker-1", 80, True)
        assert view.is_begun
    assert not folded(order, beats[0]).is_begun


def test_told_twice_is_told_once(make: Make) -> None:
    facts = [make(ORDER), make(CONFLICT), make(COMMIT)]
    assert folded(*facts, *facts) == folded(*facts)


def test_a_newer_attempt_opens_a_failed_task_again(make: Make) -> None:
    failed = make(FAILURE, attempt=1, failed_at_ms=20)
    assert folded(make(ORDER, attempt=1), failed).status is TaskStatus.FAILED
    assert folded(failed, make(ORDER, attempt=2)).status is TaskStatus.ORDERED


def test_an_attempt_counts_more_than_a_clock(make: Make) -> None:
    """Planner and worker run on two machines."""
    late_clock = make(ORDER, attempt=1, ordered_at_ms=99)
    assert folded(late_clock, make(FAILURE, attempt=1, failed_at_ms=20)).status is TaskStatus.FAILED


def test_a_later_order_opens_a_conflicted_task_again(make: Make) -> None:
    conflict = make(CONFLICT, conflicted_at_ms=20)
    assert folded(make(ORDER, ordered_at_ms=30), conflict).status is TaskStatus.ORDERED
    assert folded(make(ORDER, ordered_at_ms=10), conflict).status is TaskStatus.CONFLICTED


def test_what_is_in_the_table_stays_there(make: Make) -> None:
    late = (make(CONFLICT, conflicted_at_ms=90), make(ORDER, attempt=9, ordered_at_ms=99))
    assert folded(make(COMMIT, committed_at_ms=10), *late).status is TaskStatus.COMMITTED


def test_the_commit_that_was_made_beats_the_one_that_was_found(make: Make) -> None:
    found = make(COMMIT, committed_at_ms=10, redelivered=True, bytes_after=1)
    view = folded(found, make(COMMIT, committed_at_ms=20, bytes_after=8000))
    assert view.last_outcome is not None
    assert view.last_outcome.numbers["bytes_after"] == 8000


def test_a_commit_counts_once_and_every_setback(make: Make) -> None:
    view = folded(
        make(CONFLICT, conflicted_at_ms=1),
        make(CONFLICT, conflicted_at_ms=2),
        make(COMMIT, committed_at_ms=3),
        make(COMMIT, committed_at_ms=4, redelivered=True),
    )
    totals = totals_of(view)
    assert (totals["tasks_committed"], totals["tasks_conflicted"]) == (1, 2)
    assert totals["work_files_removed"] == 10


def test_totals_are_whole_where_a_result_has_fractions(make: Make) -> None:
    """The store keeps them as text; one with a point could not be read back."""
    totals = totals_of(folded(make("table_result/manifests", numbers={"bytes": 2.0})))
    assert (totals["work_bytes"], type(totals["work_bytes"])) == (2, int)


def test_an_expiry_is_no_rewrite(make: Make) -> None:
    view = folded(make("expire_snapshots/old_snapshots"), make("snapshots_expired/expired"))
    assert view.kind == "expire"
    assert totals_of(view)["expire_committed"] == 1
    assert "tasks_committed" not in totals_of(view)


def test_an_action_on_a_table_needs_no_code_of_its_own(make: Make) -> None:
    view = folded(make("table_order/manifests"), make("table_result/manifests"))
    assert (view.kind, view.status, view.scope) == ("rewrite_manifests", TaskStatus.COMMITTED, None)
    assert view.order is not None
    assert view.last_outcome is not None
    assert view.order.numbers["manifests"] == 120
    assert view.order.numbers["min_manifests"] == 100
    assert view.last_outcome.numbers == {"manifests_before": 120, "manifests_after": 3}
    refused = folded(make("table_result/manifests", refused_reason="gc_disabled"))
    assert (refused.status, refused.kind) == (TaskStatus.SKIPPED, "rewrite_manifests")


def test_an_infinite_number_does_not_reach_json(make: Make) -> None:
    view = folded(make(ORDER, numbers={"a": float("inf"), "b": 1.0}))
    assert view.order is not None
    assert view.order.numbers == {"b": 1.0}
