"""Each invariant turns red where it is broken, and only there."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from firnline_chaos import invariants
from firnline_chaos.catalog_proxy import Sent
from firnline_chaos.invariants import FileFacts
from firnline_chaos.topics import Ledger
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import RewriteSkipped
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.results import TaskFailed

from tests.examples import make
from tests.kit.lake.rows import MARKER, Change, Lineage

TABLE = TableName("u", ("chaos",), "t")
SCOPE = Scope(0, "[]")


def order(attempt: int, at_ms: int) -> RewriteFiles:
    return RewriteFiles("t1", TABLE, "main", SCOPE, "compact", "fragments", 1, attempt, at_ms, 99)


def failed(at_ms: int, reason: str = "oom") -> TaskFailed:
    return TaskFailed("t1", TABLE, "main", SCOPE, "rewrite", 1, "w", reason, "", True, at_ms)


def skipped(at_ms: int) -> RewriteSkipped:
    return RewriteSkipped("t1", TABLE, "main", SCOPE, "nothing", at_ms)


def ledger(*records: Any) -> Ledger:
    found = Ledger()
    for record in records:
        topic = "rewrite-tasks" if isinstance(record, RewriteFiles) else "maintenance-events"
        found.take(topic, record)
    return found


def lineage(*snapshots: tuple[int, int | None, str, str]) -> Lineage:
    found = Lineage()
    found.observe(
        {
            "snapshot-id": number,
            "parent-snapshot-id": parent,
            "summary": {MARKER: marker} if marker else {"firnline.task-id": task} if task else {},
        }
        for number, parent, marker, task in snapshots
    )
    return found


def test_rows() -> None:
    meant, other = Counter({(1,): 2}), Counter({(1,): 1, (2,): 1})
    assert invariants.rows("t", "main", meant, meant) == []
    lost, extra = invariants.rows("t", "main", meant, other)
    assert "1 rows lost" in lost
    assert "1 rows too many" in extra


def test_acknowledged() -> None:
    history = lineage((1, None, "m1", ""))
    for marker in ("m1", "m2"):
        history.mean(marker, Change())
    assert invariants.acknowledged("t", history, ["m1", "rolled-back-to"]) == []
    assert "m2" in invariants.acknowledged("t", history, ["m1", "m2"])[0]
    own = {"snapshot-id": 2, "parent-snapshot-id": None, "summary": {MARKER: "m2"}}
    history.observe([own])  # in a line of its own
    assert invariants.acknowledged("t", history, ["m1", "m2"]) == []
    assert "m1" in invariants.acknowledged("t", history, ["m1", "m2"], head=2)[0]


def test_whole_history() -> None:
    ours = lineage((1, None, "m1", ""), (2, 1, "", "t1"))
    assert invariants.whole_history("t", ours) == []
    assert invariants.whole_history("t", lineage((1, None, "", "")))


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (FileFacts(live={"main": [("a", None), ("a", None)]}), "more than once"),
        (FileFacts(missing={"a"}), "are gone"),
        (FileFacts(unlisted=["a"]), "nobody knows"),
        (FileFacts(overdue=["a"]), "not swept"),
    ],
)
def test_files(facts: FileFacts, word: str) -> None:
    (found,) = invariants.files("t", facts)
    assert word in found


def test_vectors_may_share_a_file() -> None:
    assert invariants.files("t", FileFacts(live={"main": [("a", 4), ("a", 44)]})) == []


def test_counters() -> None:
    holds = FileTally(fragments=Tally(1, 2, 3))
    part = SimpleNamespace(scope=SCOPE, holds=holds)
    empty = SimpleNamespace(scope=Scope(0, '["b"]'), holds=FileTally())
    state: Any = SimpleNamespace(head_snapshot_id=5, partitions=[part, empty])
    assert invariants.counters("t", 5, state, {SCOPE: holds}) == []
    assert "the table at 6" in invariants.counters("t", 6, state, {SCOPE: holds})[0]
    assert invariants.counters("t", 5, state, {})
    assert invariants.counters("t", 5, state, {SCOPE: holds, Scope(1, "[]"): holds})
    assert invariants.counters("t", 5, None, {})


def test_rest() -> None:
    state: Any = SimpleNamespace(head_snapshot_id=5, waiting_for_resync=False)
    assert invariants.unsettled("t", 5, state) == []
    assert "planner at 5" in invariants.unsettled("t", 6, state)[0]
    assert "planner at None" in invariants.unsettled("t", 5, None)[0]
    state.waiting_for_resync = True
    assert "resync" in invariants.unsettled("t", 5, state)[0]


@pytest.mark.parametrize(("behind", "found"), [(10, 0), (11, 1)])
def test_pace(behind: int, found: int) -> None:
    """Of three results two are settled at once, and one after so many commits of the busy table."""
    told = Ledger()
    for task, ended_ms in (("quick", 1_001), ("same", 1_002), ("late", 9_000)):
        name = TableName("o", ("chaos",), "other")
        told.take(
            "task-results",
            make("rewrite_finished/native", task_id=task, table=name, finished_at_ms=1_000),
        )
        told.take("maintenance-events", committed(task, name, ended_ms))
    for number in range(behind):
        name = TableName("b", ("chaos",), "busy")
        told.take("maintenance-events", committed(f"b{number}", name, 2_000 + number))
    assert len(invariants.pace(told, "busy")) == found


def committed(task: str, name: TableName, at_ms: int) -> Any:
    return make("rewrite_committed/native", task_id=task, table=name, committed_at_ms=at_ms)


def test_ends() -> None:
    assert invariants.ends(ledger(order(1, 10), order(1, 10), skipped(20), skipped(20))) == []
    assert invariants.ends(ledger(order(1, 10), failed(20), order(2, 30), skipped(40))) == []
    (lost,) = invariants.ends(ledger(order(1, 10), failed(20), order(2, 30)))
    assert "attempt 2" in lost
    (lost,) = invariants.ends(ledger(order(1, 10), order(2, 30), skipped(40)))
    assert "attempt 1" in lost
    found = ledger(order(1, 10))
    assert found.open == ["t1"]
    found.untimely.add("t1")  # a dead letter has its order
    assert (found.open, invariants.ends(found)) == ([], [])


def test_ends_where_clocks_jumped() -> None:
    found = ledger(order(1, 1000), failed(20), order(2, 30))
    found.timed = False
    (lost,) = invariants.ends(found)
    assert "attempt 2" in lost
    found.take("maintenance-events", skipped(5))
    assert invariants.ends(found) == []


def test_able() -> None:
    in_storm = ledger(order(1, 10)).attempts
    again = ledger(order(1, 10), failed(40, "worker_error"), order(1, 35))
    assert invariants.able(again, in_storm) == []
    assert invariants.able(ledger(order(1, 35), failed(40, "trigger_gone")), set()) == []
    back = ledger(order(1, 5), failed(40, "worker_error"))  # by a clock that was set back
    (found,) = invariants.able(back, set())
    assert "t1 failed in calm" in found


def test_one_commit() -> None:
    history = lineage((1, None, "m", ""), (2, 1, "", "t1"), (3, 2, "", "t1"), (4, 1, "", "t1"))
    together = [Sent(0, "t", (2, 3), True), Sent(1, "t", (4,), True)]  # 4: after a rollback
    assert invariants.one_commit("t", history, together) == []
    apart = [Sent(0, "t", (2,), True), Sent(1, "t", (3,), True), Sent(2, "t", (4,), True)]
    assert len(invariants.one_commit("t", history, apart)) == 1
    assert invariants.one_commit("t", history, apart, specs=2) == []
    moving = lineage((2, None, "", "t1"))
    moving.observe([rewrite(3, 2, **{"added-data-files": "1"})])
    assert len(invariants.one_commit("t", moving, apart, specs=2)) == 1
    thrice = lineage((2, None, "", "t1"), (3, 2, "", "t1"), (4, 3, "", "t1"))
    assert len(invariants.one_commit("t", thrice, apart, specs=2)) == 1


def rewrite(number: int, parent: int, **summary: str) -> dict[str, object]:
    """A snapshot of task t1 as a table's metadata has it."""
    summary["firnline.task-id"] = "t1"
    return {"snapshot-id": number, "parent-snapshot-id": parent, "summary": summary}


def test_letters() -> None:
    letter = SimpleNamespace(
        service="worker", reason="bad", message="m", topic="t", partition=0, offset=1
    )
    assert invariants.letters(Ledger()) == []
    assert "bad" in invariants.letters(Ledger(letters=[letter]))[0]
    for letter.reason in ("unknown_action", "unknown_catalog"):
        assert invariants.letters(Ledger(letters=[letter]), {("t", 0, 7)}) == []
        assert letter.reason in invariants.letters(Ledger(letters=[letter]))[0]
