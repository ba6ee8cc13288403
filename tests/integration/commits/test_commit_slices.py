"""Conversions in slices (mark that does not hold, H23): the equality deletes go with the last one,
and only if every mark of the slices before still holds.

The oracle is Iceberg's own reader: whatever happened between two slices, the rows of before a
commit are the rows of after it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from firnline_domain.base.values import replace
from firnline_domain.identity import normal_path
from firnline_domain.records.events import RewriteCommitted
from firnline_domain.records.results import DeleteKind, RewriteFinished
from firnline_iceberg.scan.planning import live_files

pytestmark = pytest.mark.stack
Table = Any  # tests.kit.lake.scenario.CommitScenario
Committer = Any  # firnline_committer.handlers.CommitterHandlers
EQUALITY = DeleteKind.EQUALITY


@pytest.fixture(params=[2, 3])
def table(request: Any, make_table: Any) -> Table:
    return make_table(**{"format-version": str(request.param)})


def committed(table: Table, committer: Committer, result: RewriteFinished) -> RewriteCommitted:
    before = table.rows()
    (event,) = committer.handle([result])
    assert isinstance(event, RewriteCommitted), event
    assert table.rows() == before
    return event


def ours(table: Table) -> list[str]:
    """Files beside the metadata that a run of ours has left."""
    root = Path(table.loaded.metadata.location.removeprefix("file:"))
    return sorted(path.suffix for path in (root / "metadata").glob("firnline-*"))


def three(table: Table) -> tuple[str, str, str]:
    """Files of which the first two come under an equality delete, and all lie below it."""
    found = table.append((1, 1), (2, 1)), table.append((3, 1), (4, 1)), table.append((5, 1))
    table.delete_ids(1, 3)
    return found


def test_the_last_slice_takes_the_deletes_and_the_marks_along(
    table: Table, committer: Committer
) -> None:
    a, b, c = three(table)
    first = committed(table, committer, table.slice(a, left=2))
    assert first.slice is not None
    assert len(table.deletes_of(EQUALITY)) == 1
    assert ours(table) == [".marks"]
    second = committed(table, committer, table.slice(c, after=first.slice, left=1))
    assert len(table.deletes_of(EQUALITY)) == 1
    assert ours(table) == [".marks"]
    last = committed(table, committer, table.slice(b, after=second.slice))
    assert last.slice is not None
    assert (last.slice.is_last, last.slice.sequence_number) == (True, first.slice.sequence_number)
    assert table.deletes_of(EQUALITY) == []
    assert last.equality_deletes_removed == 1
    assert ours(table) == []
    assert table.rows() == [(2, 1), (4, 1), (5, 1)]


def test_deletes_that_came_between_two_slices_stay(table: Table, committer: Committer) -> None:
    a, b, c = three(table)
    first = committed(table, committer, table.slice(a, left=2))
    later = table.delete_ids(2)
    table.upsert((4, 2))
    committed(table, committer, table.slice(b, c, after=first.slice))
    assert later in table.live_deletes()
    assert len(table.deletes_of(EQUALITY)) == 2
    assert table.rows() == [(4, 2), (5, 1)]


def rolled_back(table: Table, before: int, _: str) -> None:
    table.roll_back(before)


def without_vector(table: Table, before: int, path: str) -> None:
    """An engine takes out what the slice's commit has said of the file."""
    gone = [d for d in live_files(table.loaded, table.head).deletes if is_about(d, path)]
    assert gone
    table.writer.row_delta(removed=gone)


def with_another_vector(table: Table, before: int, path: str) -> None:
    """An engine says of the file as many rows, but others."""
    without_vector(table, before, path)
    (table.delete_rows if table.loaded.format_version == 2 else table.mark_rows)(path, 1)


def merged_by_a_writer(table: Table, before: int, path: str) -> None:
    """As it should be: the rows of before and one more, in a file of its own."""
    (table.merge_deletes if table.loaded.format_version == 2 else table.mark_rows)(path, 1)


def is_about(delete: Any, path: str) -> bool:
    return delete.referenced_data_file == normal_path(path)


BETWEEN = [rolled_back, without_vector, with_another_vector, merged_by_a_writer]


@pytest.mark.parametrize("between", BETWEEN)
def test_a_mark_that_the_table_does_not_bear_out_is_void(
    table: Table, committer: Committer, between: Callable[[Table, int, str], None]
) -> None:
    a, b, c = three(table)
    head = table.head
    first = committed(table, committer, table.slice(a, left=2))
    between(table, head, a)
    second = committed(table, committer, table.slice(b, c, after=first.slice, left=1))
    assert len(table.deletes_of(EQUALITY)) == 1
    # the worker of the next slice reads the file again
    committed(table, committer, table.slice(a, after=second.slice))
    assert table.deletes_of(EQUALITY) == []


def test_a_slice_that_was_never_committed_has_answered_nothing(
    table: Table, committer: Committer
) -> None:
    """Its worker wrote outputs and marks, and the committer refused them, or died."""
    a, b, c = three(table)
    lost = table.slice(a, left=2)
    committed(table, committer, table.slice(b, c, after=lost.slice))
    assert len(table.deletes_of(EQUALITY)) == 1


def test_marks_of_another_branch_answer_nothing_here(table: Table, committer: Committer) -> None:
    a, b, c = three(table)
    head = table.head
    first = committed(table, committer, table.slice(a, left=2))
    table.branch("kept")
    table.roll_back(head)
    committed(table, committer, table.slice(b, c, after=first.slice))
    assert len(table.deletes_of(EQUALITY)) == 1


def forged(text: str) -> str:
    return text.replace('"masked":1', '"masked":0')


@pytest.mark.parametrize("change", [forged, lambda _: "", lambda text: text[:-1]])
def test_marks_that_are_not_what_the_result_says_answer_nothing(
    table: Table, committer: Committer, change: Callable[[str], str]
) -> None:
    a, b, c = three(table)
    lost = table.slice(a, left=2)
    last = table.slice(b, c, after=lost.slice)
    assert last.slice is not None
    assert last.slice.marks is not None
    path = Path(last.slice.marks.path.removeprefix("file:"))
    path.write_text(change(path.read_text()))
    committed(table, committer, last)
    assert len(table.deletes_of(EQUALITY)) == 1


def test_marks_that_are_gone_cost_only_another_read(table: Table, committer: Committer) -> None:
    a, b, c = three(table)
    first = committed(table, committer, table.slice(a, left=2))
    assert first.slice is not None
    assert first.slice.marks is not None
    Path(first.slice.marks.path.removeprefix("file:")).unlink()
    second = committed(table, committer, table.slice(b, after=first.slice, left=2))
    last = committed(table, committer, table.slice(a, c, after=second.slice))
    assert last.equality_deletes_removed == 1


def test_a_file_rewritten_between_two_slices_needs_no_mark(
    table: Table, committer: Committer
) -> None:
    a, b, c = three(table)
    first = committed(table, committer, table.slice(a, left=2))
    entry = next(f for f in live_files(table.loaded, table.head).data if f.path == a)
    number = table.loaded.head("main").sequence_number
    table.writer.rewrite([entry], [table.data([(2, 1)])], table.head, number)
    committed(table, committer, table.slice(b, c, after=first.slice))
    assert table.deletes_of(EQUALITY) == []
    assert table.rows() == [(2, 1), (4, 1), (5, 1)]


def test_a_file_that_was_never_read_keeps_the_deletes(table: Table, committer: Committer) -> None:
    """Another engine's rewrite brings one with an old number while the pass is on its way."""
    a, b, c = three(table)
    start = table.head
    number = table.loaded.head("main").sequence_number
    entry = next(f for f in live_files(table.loaded, start).data if f.path == c)
    first = committed(table, committer, table.slice(a, left=2))
    table.writer.rewrite([entry], [table.data([(5, 1)])], start, number - 1)
    committed(table, committer, table.slice(b, after=first.slice))
    assert len(table.deletes_of(EQUALITY)) == 1


def test_a_result_may_not_name_marks_of_another_run(table: Table, committer: Committer) -> None:
    a, b, c = three(table)
    first = table.slice(a, left=2)
    last = table.slice(b, c)
    assert first.slice is not None
    assert last.slice is None
    (event,) = committer.handle([replace(last, slice=first.slice)])
    assert event.reason == "invalid_outputs"
