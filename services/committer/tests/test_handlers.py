"""Which results share a commit, and what is told of those that need none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from firnline_adapters.observability.logs import Log
from firnline_committer.commit.attempts import AttemptProgress
from firnline_committer.handlers import CommitterHandlers, handle_deliveries, split_batches
from firnline_domain.errors import PoisonousRecord, RetryLater
from firnline_domain.identity import Scope, TableName
from firnline_domain.ports import Delivery
from firnline_domain.records.events import RewriteCommitted, RewriteSkipped, TickPassed
from firnline_domain.records.results import Mode, RowsCompared, TaskFailed
from prometheus_client import REGISTRY

from tests.kit.expiries import expired

TABLE = TableName("uuid-a", ("ns",), "t")


class Recording:
    """Twin of the committing: remembers its batches."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def advance(self, results: Sequence[Any]) -> AttemptProgress:
        self.batches.append([one.task_id for one in results])
        return AttemptProgress([f"event of {one.task_id}" for one in results])

    def abandon(self, table_key: str, ref: str) -> None:
        """Nothing was left."""


class Away:
    """Twin of the catalog that does not answer."""

    def load(self, table: TableName) -> Any:
        raise RetryLater("away")


@pytest.fixture
def committing() -> Recording:
    return Recording()


@pytest.fixture
def handlers(committing: Recording) -> CommitterHandlers:
    return CommitterHandlers(committing, Away(), lambda: 9)


def test_results_that_are_ready_together_are_swapped_together(handlers, committing, result) -> None:
    events = handlers.handle([result(task="a", inputs=["1"]), result(task="b", inputs=["2"])])
    assert committing.batches == [["a", "b"]]
    assert events == ["event of a", "event of b"]


def test_a_redelivery_and_an_overlap_wait_for_the_commit_before_them(result) -> None:
    first = result(task="a", inputs=["file:/1"])
    overlap = result(task="b", inputs=["file:///1", "file:/2"])
    behind = result(task="c", inputs=["file:/2"])
    found = [
        [one.task_id for one in batch] for batch in split_batches([first, first, overlap, behind])
    ]
    assert found == [["a"], ["a"], ["b"], ["c"]]


def test_handed_over_work_is_committed_already(handlers, committing, result) -> None:
    done = result(mode=Mode.HANDED_OVER, committed=77, reason="float_key", inputs=())
    (event,) = handlers.handle([done])
    assert isinstance(event, RewriteCommitted)
    assert (event.snapshot_ids, event.reason, event.redelivered) == ((77,), "float_key", False)
    assert committing.batches == []


def test_after_a_restart_the_table_is_read_once_for_all_that_was_handed_over(result) -> None:
    loads: list[TableName] = []

    class Counting(Away):
        def load(self, table: TableName) -> Any:
            loads.append(table)
            return super().load(table)

    again = [
        result(task=str(n), mode=Mode.HANDED_OVER, committed=n, inputs=()) for n in range(1, 9)
    ]
    events = CommitterHandlers(Recording(), Counting(), lambda: 9).handle(again)
    assert [event.snapshot_ids for event in events] == [(n,) for n in range(1, 9)]
    assert len(loads) == 1


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"mode": Mode.HANDED_OVER, "reason": "float_key", "inputs": ()}, "float_key"),
        ({"inputs": ()}, "nothing_to_do"),
    ],
)
def test_nothing_done_is_skipped(handlers, result, given, reason) -> None:
    (event,) = handlers.handle([result(**given)])
    assert isinstance(event, RewriteSkipped)
    assert event.reason == reason


def test_failures_and_expiries_go_on_as_they_are(handlers) -> None:
    failed = TaskFailed("a", TABLE, "main", None, "rewrite", 1, "w", "oom", "", True, 1)
    expiry = expired("b", TABLE, 3, 1, None)
    compared = RowsCompared(
        "c", TABLE, "main", Scope(0, "[]"), (1,), "equal", None, "", None, None, "w", 1
    )
    assert handlers.handle([failed, expiry, compared]) == [failed, expiry, compared]


def test_a_record_of_another_kind_is_poison(handlers) -> None:
    with pytest.raises(PoisonousRecord) as caught:
        handlers.handle([TickPassed(0, 1)])
    assert caught.value.reason == "unexpected_record"


@pytest.mark.parametrize(("redelivered", "counted"), [(False, (300, 100)), (True, (0, 0))])
def test_bytes_are_counted_once_for_what_was_replaced_and_added(
    result, redelivered: bool, counted: tuple[int, int]
) -> None:
    committed = RewriteCommitted(
        "a", TABLE, "main", None, (2,), 1, 3, 1, 0, 0, 300, 100, 9, 0, 9, "native", redelivered, 5
    )

    class Committing(Recording):
        def advance(self, results: Sequence[Any]) -> AttemptProgress:
            return AttemptProgress([committed])

    before = rewritten_bytes()
    delivery = Delivery("task-results", 0, 0, "k", result(task="a", inputs=["1"]))
    handle_deliveries(
        CommitterHandlers(Committing(), Away(), lambda: 9), [delivery], Log("committer")
    )
    assert tuple(b - a for a, b in zip(before, rewritten_bytes(), strict=True)) == counted


def rewritten_bytes() -> tuple[float, float]:
    name = "firnline_rewritten_bytes_total"
    replaced, added = (
        REGISTRY.get_sample_value(name, {"files": files}) or 0.0 for files in ("replaced", "added")
    )
    return replaced, added
