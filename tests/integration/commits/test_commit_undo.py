"""`firnline undo` and `firnline sweep-outputs` against a real catalog: what can be taken back is,
in one try; what cannot says why. The rows never change.
"""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.signing import signer_here
from firnline_cli.__main__ import main
from firnline_domain.commits import conflicts
from firnline_domain.errors import RetryLater
from firnline_domain.records.events import OutputsSwept, RewriteCommitted
from firnline_domain.records.orders import CompareRows, HoldPartitions
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.commit.revert import CannotUndo, UndoPlan, undo_of
from firnline_iceberg.outputs import write_ahead_list
from firnline_iceberg.outputs.write_ahead_list import OutputList

pytestmark = pytest.mark.stack
Table = Any  # tests.kit.lake.scenario.CommitScenario
Committer = Any  # firnline_committer.handlers.CommitterHandlers


def found(table: Table, task: str, ref: str = "main") -> UndoPlan | CannotUndo:
    return undo_of(table.loaded, ref, task)


def rewritten(table: Table, committer: Committer, **more: Any) -> str:
    """Task id of a committed rewrite of two files and an equality delete."""
    table.append((1, 1), (2, 1))
    table.append((3, 1))
    table.delete_ids(1)
    result = table.rewrite(**more)
    (event,) = committer.handle([result])
    assert isinstance(event, RewriteCommitted)
    return str(result.task_id)


def test_what_would_be_taken_back(table: Table, committer: Committer) -> None:
    task = rewritten(table, committer)
    undo = found(table, task)
    assert isinstance(undo, UndoPlan)
    parent = table.loaded.snapshot(table.head).parent_snapshot_id
    assert (undo.head, undo.restored) == (table.head, parent)
    assert (undo.task_ids, undo.scopes) == ((task,), (table.scope(),))
    assert (undo.files_back, undo.files_gone) == (3, 1)


def test_later_commits_are_named(table: Table, committer: Committer) -> None:
    task = rewritten(table, committer)
    table.append((9, 1))
    writers = table.head
    other = table.rewrite()
    committer.handle([other])
    cannot = found(table, task)
    assert isinstance(cannot, CannotUndo)
    assert cannot.reason == "later_commits"
    assert f"{writers} (append)" in cannot.detail
    assert f"{table.head} (replace, task {other.task_id})" in cannot.detail


def test_what_is_expired_cannot_come_back(table: Table, committer: Committer) -> None:
    task = rewritten(table, committer)
    table.expire_all_but_heads()
    cannot = found(table, task)
    assert isinstance(cannot, CannotUndo)
    assert cannot.reason == "parent_gone"
    table.append((9, 1))
    table.expire_all_but_heads()
    gone = found(table, task)
    assert isinstance(gone, CannotUndo)
    assert gone.reason == "snapshot_gone"


def test_what_was_taken_back_is_not_taken_back_twice(table: Table, committer: Committer) -> None:
    task = rewritten(table, committer)
    undo = found(table, task)
    assert isinstance(undo, UndoPlan)
    table.roll_back(undo.restored)
    cannot = found(table, task)
    assert isinstance(cannot, CannotUndo)
    assert cannot.reason == "not_in_history"


def test_a_replaced_file_that_somebody_removed_is_named(table: Table, committer: Committer) -> None:
    path = table.append((7, 1))
    task = rewritten(table, committer)
    Path(path.removeprefix("file:")).unlink()
    cannot = found(table, task)
    assert isinstance(cannot, CannotUndo)
    assert (cannot.reason, path in cannot.detail) == ("files_gone", True)


def test_results_of_one_commit_go_back_together(make_table: Any, committer: Committer) -> None:
    """Shared-number hazard (H6): two sequence numbers, so two snapshots of one transaction,
    each of a task of its own."""
    table = make_table(partitioned=True)
    table.append((1, 1), p="a")
    table.append((2, 1), p="a")
    first = table.rewrite("a")
    table.append((3, 1), p="b")
    table.append((4, 1), p="b")
    second = table.rewrite("b")
    before, rows = table.head, table.rows()
    committer.handle([first, second])
    undo = [found(table, one.task_id) for one in (first, second)]
    done = [one for one in undo if isinstance(one, UndoPlan)]
    assert len(done) == 1  # the lower one names the upper one
    (cannot,) = [one for one in undo if isinstance(one, CannotUndo)]
    assert done[0].task_ids[0] in cannot.detail
    table.roll_back(done[0].restored)
    lower = next(one.task_id for one in (first, second) if one.task_id not in done[0].task_ids)
    rest = found(table, lower)
    assert isinstance(rest, UndoPlan)
    assert rest.restored == before
    table.roll_back(rest.restored)
    assert table.rows() == rows


@pytest.mark.parametrize("writer", [False, True])
def test_two_commits_of_a_handover_go_back_together_or_not_at_all(
    table: Table, committer: Committer, writer: bool
) -> None:
    """Iceberg's action rewrites, and then removes the deletes that are left over."""
    task = rewritten(table, committer)
    first, before = table.head, table.loaded.snapshot(table.head).parent_snapshot_id
    if writer:
        table.append((9, 1))
    between = table.head
    table.java.newFastAppend().set("firnline.task-id", task).commit()
    assert table.head != between
    undo = found(table, task)
    if writer:
        assert isinstance(undo, CannotUndo)
        assert undo.reason == "later_commits"
        assert f"{between} (append)" in undo.detail
    else:
        assert isinstance(undo, UndoPlan)
        assert (undo.snapshot_ids, undo.restored) == ((table.head, first), before)


# ---- the commands


@pytest.fixture
def firnline(catalog_uri: str, kafka: str, iceberg_jar: Path, monkeypatch: Any) -> Any:
    """Runs a command against the session's catalog and broker."""
    monkeypatch.delenv("FIRNLINE_SWEEP_AGE_SECONDS", raising=False)

    def run(*words: str) -> Result:
        return CliRunner().invoke(main, [*words, "--catalog", catalog_uri, "--kafka", kafka])

    return run


def told(kafka: str, topic: str, kind: type, table: Table) -> list[Any]:
    publisher = KafkaPublisher(kafka, 8, "test")
    inbox = KafkaInbox(kafka, f"t-{uuid.uuid4().hex}", [topic], publisher, Log("test"))
    records: list[Any] = []
    deadline = time.monotonic() + 30
    while not records and time.monotonic() < deadline:
        records += [one.record for one in inbox.poll(0.5) if one.key == table.name.uuid]
    inbox.close()
    return [one for one in records if isinstance(one, kind)]


def test_undo_says_first_and_does_when_told(
    table: Table, committer: Committer, firnline: Any, kafka: str
) -> None:
    task = rewritten(table, committer)
    rows, head = table.rows(), table.head
    words = ("undo", task, "--table", table.name.dotted_name)
    dry = firnline(*words)
    assert dry.exit_code == 0, dry.output
    assert "nothing was changed" in dry.output
    assert (table.head, table.rows()) == (head, rows)

    done = firnline(*words, "--yes")
    assert done.exit_code == 0, done.output
    assert table.head == table.loaded.snapshot(head).parent_snapshot_id
    assert table.rows() == rows
    assert len(table.live_data()) == 2
    (hold,) = told(kafka, "operator-orders", HoldPartitions, table)
    assert (hold.scopes, hold.reason, hold.table) == ((table.scope(),), "undone", table.name)

    again = firnline(*words, "--yes")
    assert again.exit_code == 1
    assert "cannot be undone (not_in_history)" in again.output


def test_verify_orders_a_comparison_of_the_tasks_commit(
    table: Table, committer: Committer, firnline: Any, kafka: str
) -> None:
    task = rewritten(table, committer)
    done = firnline("verify", task, "--table", table.name.dotted_name)
    assert done.exit_code == 0, done.output
    (order,) = told(kafka, "compare-tasks", CompareRows, table)
    assert (order.task_id, order.scope, order.snapshot_ids) == (task, table.scope(), (table.head,))
    none = firnline("verify", "f" * 32, "--table", table.name.dotted_name)
    assert none.exit_code == 1
    assert "retains no snapshot of task" in none.output


def test_a_commit_that_comes_in_between_is_not_lost(
    table: Table, committer: Committer, firnline: Any, monkeypatch: Any
) -> None:
    task = rewritten(table, committer)
    undo = JavaCommits.undo

    def late(self: JavaCommits, *args: Any) -> bool:
        table.append((9, 1))
        return undo(self, *args)

    monkeypatch.setattr(JavaCommits, "undo", late)
    refused = firnline("undo", task, "--table", table.name.dotted_name, "--yes")
    assert refused.exit_code == 1
    assert "another commit has landed meanwhile" in refused.output
    assert table.rows() == [(2, 1), (3, 1), (9, 1)]


def test_an_answer_that_is_lost_is_read_from_the_table(
    table: Table, committer: Committer, firnline: Any, monkeypatch: Any
) -> None:
    task = rewritten(table, committer)
    undo = JavaCommits.undo

    def lost(self: JavaCommits, *args: Any) -> bool:
        undo(self, *args)
        raise RetryLater("no answer")

    monkeypatch.setattr(JavaCommits, "undo", lost)
    assert firnline("undo", task, "--table", table.name.dotted_name, "--yes").exit_code == 0


def garbage(table: Table, age_s: float) -> list[Path]:
    """An output and its list, of a worker that was killed so long ago."""
    table.append((1, 1))
    result = table.rewrite()
    paths = [file.path for file in conflicts.output_files(result)]
    at_ms = int((time.time() - age_s) * 1000)
    listed = OutputList(result.task_id, 1, table.name.uuid, "w", at_ms, tuple(paths))
    folder = table.loaded.metadata_location.rsplit("/", 1)[0]
    path = f"{folder}/{table.run.list_name}"
    write_ahead_list.write_list(table.loaded.io, path, listed, signer_here().keys)
    return [Path(one.removeprefix("file:")) for one in (*paths, path)]


def test_sweep_outputs_says_first_and_tells_of_it(table: Table, firnline: Any, kafka: str) -> None:
    paths = garbage(table, 3_600)
    name = table.name.dotted_name
    assert "0 lists" in firnline("sweep-outputs", name).output  # too young
    dry = firnline("sweep-outputs", name, "--older-than", "0s", "--dry-run")
    assert "would remove 1 files and 1 lists" in dry.output
    assert str(paths[0]) in dry.output
    refused = firnline("sweep-outputs", name, "--older-than", "1h")
    assert (refused.exit_code, "--idle" in refused.output) == (2, True)
    assert all(path.exists() for path in paths)
    done = firnline("sweep-outputs", name, "--older-than", "0s", "--idle", "--json")
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["removed"]) == 1
    assert not any(path.exists() for path in paths)
    (event,) = told(kafka, "maintenance-events", OutputsSwept, table)
    assert (event.files_removed, event.swept_by) == (1, "cli")
    assert table.rows() == [(1, 1)]


def test_sweep_outputs_goes_through_all_tables_and_past_those_it_cannot_read(
    make_table: Any, firnline: Any
) -> None:
    tables = [make_table(), make_table()]
    for one in tables:
        garbage(one, 0)
    whole = firnline("sweep-outputs", "--older-than", "0s", "--dry-run")
    assert all(f"{one.name.dotted_name}: would remove 1 files" in whole.output for one in tables)
    lacking = firnline("sweep-outputs", "no.such", tables[0].name.dotted_name, "--dry-run")
    assert lacking.exit_code == 1
    assert "no.such" in lacking.output
    assert tables[0].name.dotted_name in lacking.output
