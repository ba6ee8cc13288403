"""A catalog that shows the current snapshot alone: a rewrite is committed beside a live writer."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from firnline_committer.background.sampled_comparison import order_comparison
from firnline_domain.errors import TaskRefused
from firnline_iceberg.commit.revert import CannotUndo, UndoPlan, give_back, undo_of
from firnline_iceberg.scan.planning import live_files
from firnline_worker.rewrite.compare_rows import Skipped, find_sides

from tests.kit.lake.table import Row, Table
from tests.kit.lake_pair import Pair, now_ms
from tests.kit.nessie import Nessie

pytestmark = pytest.mark.stack


def new_table(lake: Pair, partitioned: bool = False) -> Table:
    namespace = f"n{uuid.uuid4().hex[:8]}"
    lake.namespace(namespace)
    return lake.table(namespace, partitioned)


@pytest.fixture
def table(lake: Pair) -> Table:
    return new_table(lake)


@contextmanager
def one_append_a_second(table: Table, first: int) -> Iterator[list[Row]]:
    """Rows as they are committed."""
    done, rows, errors = threading.Event(), list[Row](), list[Exception]()

    def write() -> None:
        key = first
        while not done.wait(1.0):
            try:
                table.append((key, key))
            except Exception as error:
                errors.append(error)
                return
            rows.append((key, key))
            key += 1

    thread = threading.Thread(target=write)
    thread.start()
    yield rows
    done.set()
    thread.join()
    assert not errors, errors


def test_a_rewrite_is_committed_beside_one_append_a_second(lake: Pair, table: Table) -> None:
    before = [(key, 0) for key in range(20)]
    for n in range(0, 20, 2):
        table.append(*before[n : n + 2])
    table.upsert((3, 1), (4, 1))
    expected = {**dict(before), 3: 1, 4: 1}
    with one_append_a_second(table, 1000) as rows:
        events = []
        for _ in range(3):
            order = table.order()
            wait_for(rows, len(rows) + 1)
            result = lake.rewrite(order)
            wait_for(rows, len(rows) + 1)
            events += lake.commit(result)
    assert [type(event).__name__ for event in events] == ["RewriteCommitted"] * 3, events
    assert table.rows() == sorted([*expected.items(), *rows])


def wait_for(rows: list[Row], count: int) -> None:
    deadline = time.monotonic() + 30
    while len(rows) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.long
def test_an_order_that_is_carried_out_already_is_not_carried_out_twice(
    lake: Pair, table: Table
) -> None:
    """Its commit is hidden under a writer's; its files are not."""
    table.fill()
    order = table.order()
    (event,) = lake.commit(lake.rewrite(order))
    assert type(event).__name__ == "RewriteCommitted"
    table.append((4, 4))
    with pytest.raises(TaskRefused, match="has files of it") as refused:
        lake.rewrite(order)
    assert refused.value.reason == "already_committed"


@pytest.mark.long
def test_a_redelivered_result_is_found_under_a_writers_commit(lake: Pair, table: Table) -> None:
    """By another committer, which knows nothing of the first one."""
    table.fill()
    result = lake.rewrite(table.order())
    (event,) = lake.commit(result)
    table.append((4, 4))
    (again,) = lake.another().commit(result)
    assert again.redelivered
    assert again.snapshot_ids == event.snapshot_ids
    assert table.rows() == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]


@pytest.mark.long
def test_a_commit_that_others_are_on_top_of_is_told_as_it_was(
    lake: Pair, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the committer has read the table again: the summary that names the lost group is
    hidden, and so is the snapshot that the check after each commit looks at."""
    table.fill()
    result = lake.rewrite(table.order())
    assert len(result.groups) == 2
    gone = result.groups[1].inputs[0]
    table.remove(gone.path)
    commit = lake.commits.commit

    def then_a_writer(*args: Any, **kwargs: Any) -> Any:
        outcome = commit(*args, **kwargs)
        table.append((9, 9))
        return outcome

    monkeypatch.setattr(lake.commits, "commit", then_a_writer)
    (event,) = lake.commit(result)
    assert (event.groups_lost, event.lost_reason) == (1, "inputs_gone")
    assert len(event.snapshot_ids) == 1
    assert table.exists(result.output_list)  # it names what the sweep has to remove


def test_a_start_that_was_rolled_back_is_refused(lake: Pair, nessie: Nessie) -> None:
    """Nessie moves `main` to an older commit. All inputs are live, and so is all that was applied;
    but what the start has added is gone."""
    table = new_table(lake, partitioned=True)
    table.fill(p="a")
    before = nessie.hash_of("main")
    table.append((7, 7), p="b")
    result = lake.rewrite(table.order("a"))
    nessie.assign("main", before)
    table.append((8, 8), p="b")
    (event,) = lake.commit(result)
    assert event.reason == "start_not_ancestor"


@pytest.mark.long
def test_a_table_of_another_branch_is_judged_by_what_it_has(
    lake: Pair, table: Table, nessie: Nessie
) -> None:
    """`main` becomes `dev`, which has gone on from before the start: sequence numbers are given out
    a second time."""
    table.fill()
    before = nessie.hash_of("main")
    table.upsert((1, 7))
    result = lake.rewrite(table.order())
    nessie.assign("main", before)
    table.upsert((2, 8))
    rows = table.rows()
    (event,) = lake.commit(result)
    assert type(event).__name__ == "RewriteConflicted"
    assert table.rows() == rows


def test_a_schema_of_another_line_with_the_same_id_is_noticed(
    lake: Pair, table: Table, nessie: Nessie
) -> None:
    """Field 4 was an int when the rows were copied, and is a string now: in no other catalog is an
    id given to a second schema."""
    table.fill()
    before = nessie.hash_of("main")
    types = lake.iceberg.jvm.org.apache.iceberg.types.Types
    table.java.updateSchema().addColumn("size", types.IntegerType.get()).commit()
    result = lake.rewrite(table.order())
    nessie.assign("main", before)
    table.java.updateSchema().addColumn("color", types.StringType.get()).commit()
    table.append((9, 9))
    assert table.loaded.form == result.form
    rows = table.rows()
    (event,) = lake.commit(result)
    assert table.rows() == rows
    assert event.reason == "schema_changed"


def committed(lake: Pair, table: Table) -> Any:
    """The event of a rewrite that applies deletes."""
    table.fill()
    table.upsert((1, 7), (2, 8))
    (event,) = lake.commit(lake.rewrite(table.order()))
    assert type(event).__name__ == "RewriteCommitted"
    return event


def files_of(table: Table) -> set[Any]:
    live = live_files(table.loaded, table.head)
    return {one.key_and_number for one in (*live.data, *live.deletes)}


def test_a_rewrite_is_taken_back_by_the_metadata_file_of_before(lake: Pair, table: Table) -> None:
    table.fill()
    table.upsert((1, 7), (2, 8))
    before, files, rows = table.head, files_of(table), table.rows()
    (event,) = lake.commit(lake.rewrite(table.order()))
    assert table.head in event.snapshot_ids
    undo = undo_of(table.loaded, "main", event.task_id)
    assert isinstance(undo, UndoPlan), undo
    assert (undo.head, undo.restored, undo.files_back) == (table.head, before, 6)
    assert give_back(lake.tables, table.name, undo)
    assert (table.head, files_of(table), table.rows()) == (before, files, rows)
    table.upsert((3, 9))  # later numbers are still later
    assert table.rows() == [(0, 0), (1, 7), (2, 8), (3, 9)]
    (again,) = lake.commit(lake.rewrite(table.order()))
    assert type(again).__name__ == "RewriteCommitted"
    assert table.rows() == [(0, 0), (1, 7), (2, 8), (3, 9)]


@pytest.mark.long
def test_a_commit_that_came_in_between_is_not_taken_back(lake: Pair, table: Table) -> None:
    event = committed(lake, table)
    undo = undo_of(table.loaded, "main", event.task_id)
    assert isinstance(undo, UndoPlan), undo
    table.append((9, 9))
    rows = table.rows()
    assert not give_back(lake.tables, table.name, undo)
    assert table.rows() == rows
    found = undo_of(table.loaded, "main", event.task_id)
    assert isinstance(found, CannotUndo)
    assert found.reason == "history_hidden"


@pytest.mark.long
def test_a_metadata_file_that_is_not_of_before_is_not_believed(lake: Pair, table: Table) -> None:
    """One that somebody has put there, newer than all others, with a snapshot of less rows."""
    table.fill()
    old = table.loaded
    older = old.io.new_input(old.metadata_location).open().read()
    table.upsert((1, 7), (2, 8))
    before = table.head
    (event,) = lake.commit(lake.rewrite(table.order()))
    time.sleep(1.1)  # a store's times are of seconds
    folder = old.metadata_location.rpartition("/")[0]
    with old.io.new_output(f"{folder}/00000-{uuid.uuid4()}.metadata.json").create() as sink:
        sink.write(older)
    undo = undo_of(table.loaded, "main", event.task_id)
    assert isinstance(undo, UndoPlan), undo
    assert undo.restored == before


def test_a_commit_is_read_back_by_the_metadata_file_of_before(lake: Pair, table: Table) -> None:
    event = committed(lake, table)
    order = order_comparison(event, 1.0, now_ms())
    assert order is not None
    before, after = find_sides(table.loaded, order)
    assert before.metadata
    assert len(before.files) == 5
    assert after.files
    static = lake.iceberg.jvm.org.apache.iceberg
    then = static.StaticTableOperations(before.metadata, table.java.io())
    known = static.BaseTable(then, "t").snapshot(before.snapshot_id)
    assert known is not None
    table.append((9, 9))
    with pytest.raises(Skipped) as skipped:
        find_sides(table.loaded, order)
    assert skipped.value.reason == "history_hidden"
