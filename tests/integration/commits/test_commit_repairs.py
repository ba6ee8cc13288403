"""Position deletes and deletion vectors that come while a rewrite runs are carried over to its
outputs; what cannot be carried over costs its own group alone. Repair-start hazard (H4),
unpaired-repair hazard (H5); docs/contribute/commit-hazards.md.

The oracle is Iceberg's own reader: the rows of before the commit are the rows of after it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from firnline_committer.examine import delete_repair
from firnline_committer.examine.delete_repair import Repairs
from firnline_deletes.deletes import position_files
from firnline_domain.base.values import replace
from firnline_domain.errors import RetryLater
from firnline_domain.identity import normal_path
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import DeleteKind, RewriteFinished
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.commit.pinned_head import PinnedHead

from tests.kit.lake.checks import committed, committed_meanwhile, leftovers, refused
from tests.kit.lake.guards import Guard, make_guard_test

pytestmark = pytest.mark.stack
Table = Any  # tests.kit.lake.scenario.CommitScenario
Committer = Any  # firnline_committer.handlers.CommitterHandlers


@pytest.fixture
def v3(make_table: Any) -> Table:
    return make_table(**{"format-version": "3"})


def replaced(table: Table, result: RewriteFinished) -> list[str]:
    gone = [file.path for group in result.groups for file in group.inputs]
    assert not set(gone) & table.live_data()
    return gone


# ---- v2: position deletes


def test_a_position_delete_on_a_replaced_file_moves_to_the_output(
    table: Table, committer: Committer
) -> None:
    table.append((9, 1))
    path = table.append((1, 1), (2, 1), (3, 1))
    table.delete_ids(1)
    result = table.rewrite()
    old = table.delete_rows(path, 1)
    event = committed(table, committer, result)
    assert (event.classification, event.rows_repaired) == ("repaired", 1)
    assert table.rows() == [(3, 1), (9, 1)]
    replaced(table, result)
    (made,) = table.deletes_of(DeleteKind.POSITION)
    assert made.path != old
    assert made.records == 1
    ((output,),) = [group.outputs for group in result.groups]
    assert made.referenced_data_file == normal_path(output.path)


def test_what_a_shared_file_says_of_others_stays_under_its_own_number(
    make_table: Any, committer: Committer
) -> None:
    """Under a new number it would come to apply to files that are younger than it."""
    table = make_table(partitioned=True)
    scope = table.scope("a")
    old = table.append((1, 1), (2, 1), p="a")
    result = table.rewrite("a")
    young = table.append((5, 1), (6, 1), p="a")
    table.delete_rows_of([(old, 0), (young, 1)], scope)
    number = table.loaded.head("main").sequence_number
    committed(table, committer, result)
    assert table.rows() == [(2, 1), (5, 1)]
    kept = {one.referenced_data_file: one for one in table.deletes_of(DeleteKind.POSITION)}
    (moved,) = [path for path in kept if path is not None and path not in young]
    (trimmed,) = [one for path, one in kept.items() if path != moved]
    assert trimmed.sequence_number == number
    assert kept[moved].sequence_number > number


def test_a_delete_of_the_partition_that_names_no_input_is_no_conflict(
    table: Table, committer: Committer
) -> None:
    table.append((1, 1))
    result = table.rewrite()
    other = table.append((2, 1), (3, 1))
    path = table.delete_rows_of([(other, 0)])
    event = committed(table, committer, result)
    assert event.rows_repaired == 0
    assert path in table.live_deletes()


def test_a_row_that_the_worker_had_masked_goes_nowhere(table: Table, committer: Committer) -> None:
    table.append((9, 1))
    path = table.append((1, 1), (2, 1))
    table.delete_ids(1)
    result = table.rewrite()
    table.delete_rows(path, 0)
    assert committed(table, committer, result).rows_repaired == 0
    assert table.deletes_of(DeleteKind.POSITION) == []


def test_a_rewritten_position_delete_is_not_a_lost_one(table: Table, committer: Committer) -> None:
    """Spark's DELETE merges a file's position deletes into a new file."""
    table.append((9, 1))
    path = table.append((1, 1), (2, 1), (3, 1))
    table.delete_rows(path, 0)
    result = table.rewrite()
    table.merge_deletes(path, 2)
    assert committed(table, committer, result).rows_repaired == 1
    assert table.rows() == [(2, 1), (9, 1)]


GUARDS = [
    # A rollback took the applied position delete away.
    Guard(
        "rows that came back",
        "append 9 | append 1 2 | pos_delete f2 0 | rewrite"
        " | rollback s2 | pos_delete f2 1 | expire",
        ConflictReason.APPLIED_POSITION_DELETE_GONE, "1 9", "9",
        ((delete_repair._Case, "came_back", lambda *_: None),),
    ),
]  # fmt: skip


# Each refuses, and without it the wrong rows show.
test_a_guard = make_guard_test(GUARDS)


def test_repaired_from_the_start_java_refuses_it(
    table: Table, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repair-start hazard (H4): the delete that is carried over is itself new since then."""
    path = table.append((1, 1), (2, 1))
    result = table.rewrite()
    table.delete_rows(path, 0)
    start = result.start_snapshot_id
    monkeypatch.setattr(PinnedHead, "_validated_from", lambda *_: start)
    assert refused(table, committer, result).reason is ConflictReason.NEW_POSITION_DELETES


@pytest.mark.parametrize("damage", ["gone", "cut", "none"])
def test_without_a_row_map_it_stays_a_conflict(
    table: Table, committer: Committer, damage: str
) -> None:
    path = table.append((1, 1), (2, 1))
    table.delete_ids(1)
    result = table.rewrite()
    place = Path(str(result.row_map).removeprefix("file:"))
    if damage == "gone":
        place.unlink()
    elif damage == "cut":
        place.write_bytes(place.read_bytes()[:-3])
    else:
        place.unlink()
        result = replace(result, row_map=None)
    table.delete_rows(path, 1)
    assert refused(table, committer, result).reason is ConflictReason.NEW_POSITION_DELETES


# ---- v3: deletion vectors


def test_a_vector_on_a_replaced_file_moves_to_the_output(v3: Table, committer: Committer) -> None:
    v3.append((9, 1))
    path = v3.append((1, 1), (2, 1), (3, 1))
    v3.delete_ids(1)
    result = v3.rewrite()
    v3.mark_rows(path, 2)
    event = committed(v3, committer, result)
    assert (event.classification, event.rows_repaired) == ("repaired", 1)
    assert v3.rows() == [(2, 1), (9, 1)]
    replaced(v3, result)
    (made,) = v3.deletes_of(DeleteKind.DELETION_VECTOR)
    assert made.format == "PUFFIN"


def test_the_head_vector_less_what_was_applied(v3: Table, committer: Committer) -> None:
    """A writer's next vector holds the positions of the one before: these were applied."""
    v3.append((9, 1))
    first = v3.append((1, 1), (2, 1), (3, 1))
    v3.mark_rows(first, 0)
    second = v3.append((4, 1), (5, 1))
    result = v3.rewrite(groups=2)
    v3.mark_rows(first, 1)
    v3.mark_rows(second, 1)
    assert committed(v3, committer, result).rows_repaired == 2
    assert v3.rows() == [(3, 1), (4, 1), (9, 1)]
    # and a writer's next vector finds ours
    (output,) = [
        file.path for group in result.groups for file in group.outputs if file.records == 3
    ]
    v3.mark_rows(output, 0)
    assert len(v3.rows()) == 2


# ---- group by group


def test_a_lost_group_does_not_take_the_others_along(table: Table, committer: Committer) -> None:
    table.append((1, 1))
    gone = table.append((2, 1), (3, 1))
    table.append((4, 1))
    table.append((5, 1))
    result = table.rewrite(groups=2)
    table.remove(gone)
    event = committed(table, committer, result)
    assert (event.groups_lost, event.lost_reason) == (1, "inputs_gone")
    assert (event.files_removed, event.rows_out) == (2, 2)
    lost = next(g for g in result.groups if gone in [file.path for file in g.inputs])
    assert event.bytes_lost == sum(file.bytes for file in lost.outputs) > 0
    for output in lost.outputs:  # after a rollback another committer may take it
        assert Path(output.path.removeprefix("file:")).exists()
    again = committed(table, committer, result)
    assert again.redelivered
    assert (again.groups_lost, again.files_removed) == (1, 2)


def test_one_group_repaired_one_lost_one_as_it_is(table: Table, committer: Committer) -> None:
    gone = table.append((1, 1))
    touched = table.append((2, 1), (3, 1))
    table.append((4, 1))
    result = table.rewrite(groups=3)
    table.remove(gone)
    table.delete_rows(touched, 0)
    event = committed(table, committer, result)
    assert (event.groups_lost, event.rows_repaired, event.files_added) == (1, 1, 2)
    assert table.rows() == [(3, 1), (4, 1)]


def test_two_results_that_both_need_a_repair(make_table: Any, committer: Committer) -> None:
    table = make_table(partitioned=True)
    paths = {p: table.append((1, 1), (2, 1), p=p) for p in "ab"}
    results = [table.rewrite(p) for p in "ab"]
    for p, path in paths.items():
        table.delete_rows(path, 0, scope=table.scope(p))
    events = committer.handle(results)
    assert [event.classification for event in events] == ["repaired", "repaired"]
    assert table.rows() == [(2, 1), (2, 1)]
    assert leftovers(table) == []


def test_the_repair_is_in_the_snapshot_of_its_group(table: Table, committer: Committer) -> None:
    """Against issue 10312 a rewrite is cut in two; in no snapshot may the row be back."""
    table.append((1, 1), (2, 1))
    touched = table.append((3, 1), (4, 1))
    result = table.rewrite(groups=2)
    table.delete_ids(1)
    table.append((5, 1))
    table.delete_rows(touched, 0)
    event = committed(table, committer, result)
    assert len(event.snapshot_ids) == 2
    for snapshot_id in event.snapshot_ids:
        generics = table.jvm.org.apache.iceberg.data.IcebergGenerics
        records = generics.read(table.java).useSnapshot(snapshot_id).build().iterator()
        ids = []
        while records.hasNext():
            ids.append(records.next().getField("id"))
        assert sorted(ids) == [2, 4, 5]


# ---- a catalog that drops things


def test_a_repair_whose_answer_was_lost_is_found(
    table: Table, meddled: Committer, meddler: Any
) -> None:
    path = table.append((1, 1), (2, 1))
    result = table.rewrite()
    table.delete_rows(path, 0)
    meddler.drop_answer = True
    event = committed(table, meddled, result)
    assert event.rows_repaired == 1
    snapshots = len(table.loaded.metadata.snapshots)
    assert committed(table, meddled, result).redelivered
    assert len(table.loaded.metadata.snapshots) == snapshots


def test_a_head_that_moves_under_a_repair_is_repaired_anew(
    table: Table, meddled: Committer, meddler: Any
) -> None:
    path = table.append((1, 1), (2, 1), (3, 1))
    result = table.rewrite()
    table.delete_rows(path, 0)
    meddler.before = [lambda: table.delete_rows(path, 1)]
    assert committed_meanwhile(table, meddled, result).rows_repaired == 2
    assert table.rows() == [(3, 1)]


def test_the_summary_tells_of_the_repair(table: Table, committer: Committer) -> None:
    path = table.append((1, 1), (2, 1))
    result = table.rewrite()
    table.delete_rows(path, 0)
    (snapshot_id,) = committed(table, committer, result).snapshot_ids
    summary = table.loaded.snapshot(snapshot_id).summary
    assert summary.get("firnline.rows-repaired") == f"{result.task_id}:1"
    assert summary.operation.value == "replace"


def test_a_delete_file_that_expired_under_our_eyes_is_no_refusal(
    table: Table, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head is looked at again; meanwhile the writer has put another file in its place."""
    path = table.append((1, 1), (2, 1), (3, 1))
    result = table.rewrite()
    old = Path(table.delete_rows(path, 0).removeprefix("file:"))
    make = Repairs.make

    def meanwhile(*args: Any) -> Any:
        if old.exists():
            table.merge_deletes(path, 1)
            old.unlink()
        return make(*args)

    monkeypatch.setattr(Repairs, "make", meanwhile)
    assert committed_meanwhile(table, committer, result).rows_repaired == 2
    assert table.rows() == [(3, 1)]


# ---- what is left of repairs that come to nothing


@pytest.mark.way("service")  # a run waits for as long as the pump does
@pytest.mark.parametrize("failure", [OSError("away"), ValueError("odd")])
def test_of_a_repair_that_cannot_be_made_nothing_stays(
    table: Table, committer: Committer, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its list and its first file are written, and then the storage is away, or a file odd."""
    path = table.append((1, 1), (2, 1))
    result = table.rewrite()
    table.delete_rows(path, 0)
    write = position_files.write_positions

    def failing(*args: Any) -> Any:
        write(*args)
        raise failure

    with monkeypatch.context() as fault:
        fault.setattr(position_files, "write_positions", failing)
        if isinstance(failure, ValueError):
            assert refused(table, committer, result).reason is ConflictReason.NEW_POSITION_DELETES
            return
        with pytest.raises(RetryLater):
            committer.handle([result])
    waiting = {Path(file.path).name for group in result.groups for file in group.outputs}
    assert {Path(one).name for one in leftovers(table, result)} <= waiting
    committed(table, committer, result)


@pytest.mark.way("service")  # a run waits for as long as the pump does
def test_nor_of_one_whose_commit_did_not_go_out(
    table: Table, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table.append((1, 1), (2, 1))
    result = table.rewrite()
    table.delete_rows(path, 0)

    def away(*_: Any, **__: Any) -> Any:
        raise RetryLater("catalog: away")

    with monkeypatch.context() as fault:
        fault.setattr(JavaCommits, "commit", away)
        for _ in range(3):
            with pytest.raises(RetryLater):
                committer.handle([result])
    assert leftovers(table, result) == []
    committed(table, committer, result)
