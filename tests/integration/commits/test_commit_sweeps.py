"""Own garbage always, live files never: what killed workers and committers leave is swept by the
write-ahead lists, on real metadata and storage, whatever became of the commit. redelivery hazard
(H7).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from firnline_committer.examine.delete_repair import Repairs
from firnline_committer.examine.outputs import Outputs
from firnline_domain.base.values import replace
from firnline_domain.commits import conflicts
from firnline_domain.commits.output_lifetimes import Lifetimes
from firnline_domain.records.events import RewriteCommitted
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.outputs import write_ahead_list
from firnline_iceberg.outputs.write_ahead_list import OutputList
from firnline_iceberg.removal import removal
from firnline_iceberg.removal.sweep import OutputSweeper, Swept
from firnline_iceberg.table.catalog_client import Tables

from tests.kit.lake.writer import local
from tests.kit.write_ahead import listed, never_written, now_ms, ours, outputs, started

pytestmark = pytest.mark.stack
Table = Any  # tests.kit.lake.scenario.CommitScenario
Committer = Any  # firnline_committer.handlers.CommitterHandlers
Meddler = Any  # tests.meddling.Meddler
LIVES = Lifetimes()


@pytest.fixture
def sweep(catalog_uri: str) -> Callable[..., Swept]:
    """`sweep(table, after_ms=24 h)`: as a sweep so much later finds it."""

    def run(table: Table, after_ms: int = LIVES.sweep_ms + 1_000, **more: Any) -> Swept:
        later = now_ms() + after_ms
        tables, age_ms = Tables(catalog_uri), LIVES.sweep_ms
        sweeper = OutputSweeper(tables, lambda: later, age_ms, lambda *_: later)
        return sweeper.sweep(table.name, **more)

    return run


# ---- killed workers and committers


def test_killed_before_its_outputs(table: Table, sweep: Any) -> None:
    result = listed(table, started(table))
    for path in (*outputs(result), local(result.row_map or "")):
        path.unlink()
    swept = sweep(table)
    assert (swept.removed, len(swept.lists)) == ([], 1)
    assert ours(table) == []


def test_killed_with_half_of_its_outputs(table: Table, sweep: Any) -> None:
    result = started(table, groups=2)
    result = listed(table, result, never_written(table))
    first, second = outputs(result)
    second.unlink()
    before = table.rows()
    swept = sweep(table)
    assert [local(path) for path in swept.removed] == [first, local(result.row_map or "")]
    assert ours(table) == []
    assert table.rows() == before


def test_killed_after_the_commit(table: Table, committer: Committer, sweep: Any) -> None:
    """The list outlives its task: every output is live."""
    result = listed(table, started(table))
    committer.handle([replace(result, output_list=None)])
    before = table.rows()
    local(result.row_map or "").touch()
    swept = sweep(table)
    assert (swept.removed, swept.reachable) == ([result.row_map], 1)
    assert all(path.exists() for path in outputs(result))
    assert (ours(table), table.rows()) == ([], before)


def test_another_attempts_outputs_stay_on_their_list(
    table: Table, committer: Committer, sweep: Any
) -> None:
    """An order that came again was done again: in the table by its task's id, not by its files."""
    result = listed(table, started(table))
    other = listed(table, table.rewrite(task=result.task_id, attempt=2))
    committer.handle([result])
    (event,) = committer.handle([other])
    assert event.redelivered
    assert all(path.exists() for path in outputs(other))
    before = table.rows()
    swept = sweep(table)
    assert {file.path for file in conflicts.output_files(other)} <= set(swept.removed)
    assert all(path.exists() for path in outputs(result))
    assert (ours(table), table.rows()) == ([], before)


def test_a_repair_whose_committer_was_killed(
    table: Table, meddled: Committer, meddler: Meddler, sweep: Any, monkeypatch: Any
) -> None:
    table.append((9, 1))
    path = table.append((1, 1), (2, 1), (3, 1))
    result = listed(table, table.rewrite())
    table.delete_rows(path, 1)
    before = table.rows()

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(meddled._committer, "_send", killed)
    with pytest.raises(KeyboardInterrupt):
        meddled.handle([result])
    assert len([name for name in ours(table) if name.endswith(".json")]) == 2
    swept = sweep(table)
    assert len(swept.lists) == 2
    assert (ours(table), table.rows()) == ([], before)
    assert not any(path.exists() for path in outputs(result))


def test_the_delete_files_of_a_repair_that_has_landed_stay(
    table: Table, committer: Committer, sweep: Any, monkeypatch: Any
) -> None:
    table.append((9, 1))
    path = table.append((1, 1), (2, 1), (3, 1))
    result = table.rewrite()
    table.delete_rows(path, 1)
    monkeypatch.setattr(Repairs, "close", lambda *_: None)
    before = table.rows()
    (event,) = committer.handle([result])
    assert event.rows_repaired == 1
    assert len([name for name in ours(table) if name.endswith(".json")]) == 1
    swept = sweep(table)
    assert (swept.reachable, len(swept.lists)) == (1, 1)
    assert table.rows() == before


# ---- what a rollback brings back


@pytest.mark.parametrize("groups", [1, 2])
def test_what_one_committer_lost_another_commits_after_a_rollback(
    table: Table, committer: Committer, sweep: Any, monkeypatch: Any, groups: int
) -> None:
    """A second committer has looked at the outputs, and is slow: while the first refuses the
    result or its group, whose input is gone, and a person brings the input back. Then the head is
    the one that the second has pinned."""
    path = table.append((1, 1), (2, 1))
    table.append((3, 1))
    result = listed(table, table.rewrite(groups=groups))
    head, before = table.head, table.rows()
    lost, calls = Outputs.first_missing, list[Any]()

    def slowly(self: Outputs, *args: Any) -> str | None:
        found = lost(self, *args)
        if not calls:
            calls.append(args)
            table.remove(path)
            (event,) = committer.handle([result])
            refused = groups == 1 and event.reason is ConflictReason.INPUTS_GONE
            assert refused or event.groups_lost == 1
            sweep(table, LIVES.result_ms)  # not before it is of age
            table.roll_back(head)
        return found

    monkeypatch.setattr(Outputs, "first_missing", slowly)
    (event,) = committer.handle([result])
    assert isinstance(event, RewriteCommitted)
    assert table.rows() == before
    assert all(local(path).exists() for path in table.live_data())
    assert groups > 1 or all(path.exists() for path in outputs(result))


def test_what_was_refused_goes_when_it_is_of_age(
    table: Table, committer: Committer, sweep: Any
) -> None:
    path = table.append((1, 1), (2, 1))
    result = listed(table, table.rewrite())
    table.remove(path)
    committer.handle([result])
    assert sweep(table, LIVES.sweep_ms - 10_000).skipped_by_reason == {"young": 1}
    swept = sweep(table)
    assert (len(swept.removed), len(swept.lists)) == (2, 1)
    assert (ours(table), table.rows()) == ([], [])


# ---- outcomes of every kind


def test_a_commit_of_which_nobody_heard(
    table: Table, meddled: Committer, meddler: Meddler, sweep: Any, monkeypatch: Any
) -> None:
    """It has landed, and its committer was killed before it knew."""
    result = listed(table, started(table))
    meddler.drop_answer = True
    monkeypatch.setattr(meddled._committer, "_settle", lambda *_: "")
    monkeypatch.setattr(meddled._committer, "_close_committed", lambda *_: None)
    meddled._committer._attempt(batch_of(result))
    before = table.rows()
    assert sweep(table).reachable == 1
    assert all(path.exists() for path in outputs(result))
    assert table.rows() == before


def batch_of(result: RewriteFinished) -> Any:
    from firnline_committer.commit.attempts import ResultBatch

    return ResultBatch(result.table, result.ref, {result.task_id: result})


def test_of_a_commit_in_part_only_the_lost_group_goes(
    table: Table, committer: Committer, sweep: Any
) -> None:
    gone = table.append((1, 1))
    table.append((2, 1))
    result = listed(table, table.rewrite(groups=2))
    table.remove(gone)
    (event,) = committer.handle([replace(result, output_list=None)])
    assert (type(event), event.groups_lost) == (RewriteCommitted, 1)
    lost = [group for group in result.groups if group.inputs[0].path == gone]
    before = table.rows()
    swept = sweep(table)
    assert swept.removed == [lost[0].outputs[0].path, result.row_map]
    assert swept.reachable == 1
    assert table.rows() == before


def test_files_that_only_a_retained_snapshot_has(
    table: Table, committer: Committer, sweep: Any
) -> None:
    result = listed(table, started(table))
    head = table.head
    committer.handle([replace(result, output_list=None)])
    table.roll_back(head)
    assert sweep(table).reachable == 1
    assert all(path.exists() for path in outputs(result))


def test_files_that_only_a_branch_has(table: Table, committer: Committer, sweep: Any) -> None:
    result = listed(table, started(table))
    head = table.head
    committer.handle([replace(result, output_list=None)])
    table.branch("audit")
    table.roll_back(head)
    table.expire_all_but_heads()
    assert sweep(table).reachable == 1
    assert table.rows("audit") == [(1, 1), (2, 1), (3, 1), (4, 1)]


def test_files_that_no_snapshot_has_any_more(
    table: Table, committer: Committer, sweep: Any
) -> None:
    """Rolled back and expired, but left by an expiry that was killed before it deleted."""
    result = listed(table, started(table))
    head = table.head
    committer.handle([replace(result, output_list=None)])
    table.roll_back(head)
    table.append((5, 1))
    kept = {path: path.read_bytes() for path in outputs(result)}
    table.expire_all_but_heads()
    for path, content in kept.items():
        path.write_bytes(content)
    swept = sweep(table)
    assert [local(path) for path in swept.removed] == list(kept)
    assert table.rows() == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]


def test_a_live_file_whose_snapshot_is_expired_stays(
    table: Table, committer: Committer, sweep: Any
) -> None:
    """Redelivery hazard (H7): the head's manifests name it, and no snapshot has the task's id."""
    result = listed(table, started(table))
    committer.handle([replace(result, output_list=None)])
    table.append((5, 1))
    table.expire_all_but_heads()
    assert sweep(table).reachable == 1
    assert table.rows() == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]


def test_format_version_1_has_no_numbers_to_go_by(
    make_table: Any, committer: Committer, sweep: Any
) -> None:
    table = make_table(**{"format-version": "1"})
    result = listed(table, started(table))
    committer.handle([replace(result, output_list=None)])
    assert sweep(table).reachable == 1
    assert all(path.exists() for path in outputs(result))


# ---- what is left alone


def test_what_is_young_or_in_flight_is_left_alone(table: Table, sweep: Any) -> None:
    result = listed(table, started(table))
    swept = sweep(table, LIVES.sweep_ms - 10_000)
    assert (swept.lists, swept.skipped_by_reason) == ([], {"young": 1})
    local(result.output_list or "").unlink()
    result = listed(table, result, deadline_ms=now_ms() + 10 * LIVES.sweep_ms)
    assert sweep(table).skipped_by_reason == {"in_flight": 1}
    assert all(path.exists() for path in outputs(result))


def test_a_clock_of_ours_that_is_ahead_sweeps_nothing(table: Table, catalog_uri: str) -> None:
    """The storage's own clock says how old a list is."""
    result = listed(table, started(table))
    ahead = OutputSweeper(
        Tables(catalog_uri), lambda: now_ms() + 10 * LIVES.sweep_ms, LIVES.sweep_ms
    )
    before = ours(table)
    assert ahead.sweep(table.name).skipped_by_reason == {"young": 1}
    assert ours(table) == before
    assert all(path.exists() for path in outputs(result))


def test_a_table_that_shares_its_files_is_left_alone(make_table: Any, sweep: Any) -> None:
    table = make_table(**{"gc.enabled": "false"})
    result = listed(table, started(table))
    assert sweep(table).skipped_by_reason == {"gc_disabled": 1}
    assert all(path.exists() for path in outputs(result))


def test_a_dry_run_says_the_same_and_removes_nothing(table: Table, sweep: Any) -> None:
    result = started(table)
    result = listed(table, result, never_written(table))
    tried = sweep(table, dry_run=True)
    assert all(path.exists() for path in outputs(result))
    done = sweep(table)
    assert (tried.removed, tried.lists) == (done.removed, done.lists)
    assert len(done.removed) == 2


def test_the_table_is_read_after_its_lists(
    table: Table, committer: Committer, sweep: Any, monkeypatch: Any
) -> None:
    """A commit lands while the lists are read: what it took is not removed."""
    result = listed(table, started(table))
    read = write_ahead_list.read_list

    def slowly(*args: Any) -> OutputList:
        found = read(*args)
        committer.handle([replace(result, output_list=None)])
        return found

    monkeypatch.setattr(write_ahead_list, "read_list", slowly)
    assert sweep(table).reachable == 1
    assert table.rows() == [(1, 1), (2, 1), (3, 1), (4, 1)]


def test_a_snapshot_that_expires_meanwhile_is_looked_at_anew(
    table: Table, sweep: Any, monkeypatch: Any
) -> None:
    result = listed(table, started(table))
    found, calls = removal.find_reachable, []

    def once_gone(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise MetadataFileGone("expired")
        return found(*args)

    monkeypatch.setattr(removal, "find_reachable", once_gone)
    sweep(table)
    assert len(calls) == 2
    assert not any(path.exists() for path in outputs(result))
