"""Conversions: equality deletes become position deletes (v2) or deletion vectors (v3), and the data
files stay. Convert-as-replace hazard (H3); docs/get-started/concepts.md.

The oracle is Iceberg's own reader: the rows of before the commit are the rows of after it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from firnline_domain.base.values import replace
from firnline_domain.identity import normal_path
from firnline_domain.records.events import RewriteCommitted, RewriteConflicted
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.scan.planning import live_files
from py4j.protocol import Py4JJavaError

from tests.kit.lake.checks import committed, leftovers, refused

pytestmark = pytest.mark.stack
Table = Any  # tests.kit.lake.scenario.CommitScenario
Committer = Any  # firnline_committer.handlers.CommitterHandlers
EQUALITY, POSITION, VECTOR = DeleteKind.EQUALITY, DeleteKind.POSITION, DeleteKind.DELETION_VECTOR


@pytest.fixture(params=[2, 3])
def any_table(request: Any, make_table: Any) -> Table:
    return make_table(**{"format-version": str(request.param)})


@pytest.fixture
def v3(make_table: Any) -> Table:
    return make_table(**{"format-version": "3"})


def marks_of(table: Table) -> dict[str, int]:
    """Rows that are named by position, by data file."""
    found = [*table.deletes_of(POSITION), *table.deletes_of(VECTOR)]
    return {one.referenced_data_file: one.records for one in found}


def test_equality_deletes_become_positions_of_the_files_that_they_hit(
    any_table: Table, committer: Committer
) -> None:
    table = any_table
    hit, missed = table.append((1, 1), (2, 1), (3, 1)), table.append((7, 1))
    table.delete_ids(1, 3)
    event = committed(table, committer, table.convert(hit, missed))
    assert table.deletes_of(EQUALITY) == []
    assert marks_of(table) == {normal_path(hit): 2}
    assert table.live_data() == {hit, missed}
    assert (event.files_removed, event.equality_deletes_removed) == (0, 1)
    assert (event.rows_masked, event.classification) == (2, "clean")
    snapshot = table.loaded.head("main")
    assert snapshot.summary.operation.value == "delete"  # convert-as-replace hazard (H3)


def test_streaming_readers_that_were_set_meanwhile_get_the_rewrite_alone(
    make_table: Any, committer: Committer
) -> None:
    """They would stop at the snapshot of the conversion."""
    table, other = (make_table(**{"firnline.streaming-readers": "true"}) for _ in range(2))
    path = other.append((1, 1), (2, 1))
    other.delete_ids(1)
    assert refused(other, committer, other.convert(path)).reason is ConflictReason.STREAMING_READERS
    kept, _ = table.append((1, 1), (2, 1)), table.append((3, 1))
    table.delete_ids(1, 3)
    event = committed(table, committer, table.convert(kept))
    assert (event.groups_lost, event.files_removed) == (1, 1)
    assert kept in table.live_data()
    assert table.loaded.head("main").summary.operation.value == "replace"


def test_what_was_said_by_position_is_said_once_more_and_by_one_file(
    v3: Table, committer: Committer
) -> None:
    path = v3.append((1, 1), (2, 1), (3, 1))
    v3.mark_rows(path, 1)
    v3.delete_ids(1)
    committed(v3, committer, v3.convert(path))
    assert v3.rows() == [(3, 1)]
    assert marks_of(v3) == {normal_path(path): 2}
    assert len(v3.deletes_of(VECTOR)) == 1


def test_in_v2_a_files_own_position_deletes_are_joined_and_the_partitions_stay(
    table: Table, committer: Committer
) -> None:
    """They name a file that is rewritten, not converted."""
    path, other = table.append((1, 1), (2, 1), (3, 1)), table.append((8, 1), (9, 1))
    own, shared = table.delete_rows(path, 1), table.delete_rows_of([(other, 0), (path, 2)])
    table.delete_ids(1)
    committed(table, committer, table.convert(path))
    assert table.rows() == [(9, 1)]
    assert shared in table.live_deletes()
    assert own not in table.live_deletes()
    assert marks_of(table)[normal_path(path)] == 2


def test_in_v2_position_deletes_of_converted_files_alone_become_one_of_each(
    table: Table, committer: Committer
) -> None:
    """No equality delete is there: they are many, and a reader opens each for all of them."""
    path, other = table.append((1, 1), (2, 1), (3, 1)), table.append((8, 1), (9, 1))
    untouched = table.append((5, 1))
    table.delete_rows_of([(other, 0), (path, 2)])
    table.delete_rows_of([(path, 0), (path, 2)])
    own = table.delete_rows(other, 0)
    committed(table, committer, table.convert(path, other, untouched))
    assert table.rows() == [(2, 1), (5, 1), (9, 1)]
    marks = table.deletes_of(POSITION)
    assert len(marks) == 2
    assert marks_of(table) == {normal_path(path): 2, normal_path(other): 1}
    assert own not in table.live_deletes()
    assert table.live_data() == {path, other, untouched}


def test_in_v2_one_file_of_positions_is_not_written_again(
    table: Table, committer: Committer
) -> None:
    path, other = table.append((1, 1), (2, 1)), table.append((8, 1), (9, 1))
    own = table.delete_rows(path, 1)
    table.delete_ids(8)
    committed(table, committer, table.convert(path, other))
    assert own in table.live_deletes()
    assert marks_of(table) == {normal_path(path): 1, normal_path(other): 1}


def test_a_vector_takes_in_the_position_deletes_that_it_hides(
    table: Table, committer: Committer
) -> None:
    path, other = table.append((1, 1), (2, 1), (3, 1)), table.append((8, 1), (9, 1))
    table.delete_rows_of([(other, 0), (path, 2)])
    table.delete_rows(path, 1)
    table.java.updateProperties().set("format-version", "3").commit()
    table.delete_ids(1)
    committed(table, committer, table.convert(path, other))
    assert table.rows() == [(9, 1)]
    assert marks_of(table) == {normal_path(path): 3, normal_path(other): 1}
    assert (len(table.deletes_of(VECTOR)), table.deletes_of(POSITION)) == (2, [])


def test_positions_that_came_meanwhile_are_taken_in(any_table: Table, committer: Committer) -> None:
    table = any_table
    path = table.append((1, 1), (2, 1), (3, 1))
    table.delete_ids(1)
    result = table.convert(path)
    (table.delete_rows if table.loaded.format_version == 2 else table.mark_rows)(path, 2)
    assert committed(table, committer, result).classification == "later_commits"
    assert table.rows() == [(2, 1)]
    assert marks_of(table) == {normal_path(path): 2}


def test_equality_deletes_that_came_meanwhile_still_apply(
    any_table: Table, committer: Committer
) -> None:
    table = any_table
    path = table.append((1, 1), (2, 1), (3, 1))
    table.delete_ids(1)
    result = table.convert(path)
    later = table.delete_ids(2)
    table.upsert((3, 2))
    committed(table, committer, result)
    assert table.rows() == [(3, 2)]
    assert later in table.live_deletes()
    assert len(table.deletes_of(EQUALITY)) == 2


def test_fragments_are_rewritten_and_large_files_converted_in_one_transaction(
    any_table: Table, committer: Committer
) -> None:
    table = any_table
    large = table.append((1, 1), (2, 1), (3, 1))
    table.upsert((1, 2))
    table.upsert((1, 3))
    event = committed(table, committer, table.convert(large))
    assert table.rows() == [(1, 3), (2, 1), (3, 1)]
    assert table.deletes_of(EQUALITY) == []
    assert (len(event.snapshot_ids), event.files_removed, event.files_added) == (2, 2, 1)
    head, before = table.loaded.head("main"), event.snapshot_ids[0]
    assert head.parent_snapshot_id == before
    live = {one.sequence_number for one in live_files(table.loaded, before).deletes}
    assert live  # between the two, the deletes are still there for the large file


def two_hit(table: Table) -> tuple[str, str, str]:
    """Two data files, and an equality delete of a row in each."""
    return table.append((1, 1), (2, 1)), table.append((1, 5), (4, 1)), table.delete_ids(1)


def test_a_delete_stays_as_long_as_some_file_needs_it(
    any_table: Table, committer: Committer
) -> None:
    """The group of one file is lost: what was converted of the other does no harm."""
    table = any_table
    one, two, delete = two_hit(table)
    result = table.convert(one, two)
    kept = replace(result, groups=result.groups[:1])
    committed(table, committer, kept)
    assert delete in table.live_deletes()
    assert table.rows() == [(2, 1), (4, 1)]
    committed(table, committer, table.convert(one, two))
    assert delete not in table.live_deletes()


def test_a_file_that_went_meanwhile_costs_its_own_group(
    any_table: Table, committer: Committer
) -> None:
    table = any_table
    one, two, delete = two_hit(table)
    result = table.convert(one, two)
    table.remove(one)
    event = committed(table, committer, result)
    assert (event.groups_lost, event.lost_reason) == (1, "inputs_gone")
    assert delete not in table.live_deletes()  # nothing else needs it
    assert table.rows() == [(4, 1)]


def test_a_delete_that_was_rolled_back_is_not_made_to_last(
    any_table: Table, committer: Committer
) -> None:
    table = any_table
    path = table.append((1, 1), (2, 1))
    before = table.head
    table.delete_ids(1)
    result = table.convert(path)
    table.roll_back(before)
    assert refused(table, committer, result).reason is ConflictReason.APPLIED_DELETE_GONE
    assert table.rows() == [(1, 1), (2, 1)]


def test_other_partitions_keep_their_deletes(make_table: Any, committer: Committer) -> None:
    table = make_table(partitioned=True)
    path, _ = table.append((1, 1), (2, 1), p="a"), table.append((1, 1), (3, 1), p="b")
    mine = table.delete_ids(1, scope=table.scope("a"))
    other = table.delete_ids(1, scope=table.scope("b"))
    committed(table, committer, table.convert(path, p="a"))
    assert table.live_deletes() >= {other}
    assert mine not in table.live_deletes()
    (made,) = table.deletes_of(POSITION)
    assert made.scope == table.scope("a")


def test_a_rewrite_that_another_engine_had_begun_is_refused(
    any_table: Table, committer: Committer
) -> None:
    """Convert-as-replace hazard (H3): it would bring the row back, for the delete that it did not
    apply is gone."""
    table = any_table
    path = table.append((1, 1), (2, 1))
    start = table.head
    theirs = table.data([(1, 1), (2, 1)])  # as it was before the delete
    table.delete_ids(1)
    committed(table, committer, table.convert(path))
    (entry,) = live_files(table.loaded, table.head).data
    with pytest.raises(Py4JJavaError, match=r"found new (position )?delete"):
        table.writer.rewrite([entry], [theirs], start, entry.sequence_number)
    assert table.rows() == [(2, 1)]


def test_our_own_rewrite_that_was_begun_before_is_refused(
    any_table: Table, committer: Committer
) -> None:
    table = any_table
    path = table.append((1, 1), (2, 1))
    table.delete_ids(1)
    old, new = table.rewrite(), table.convert(path)
    (event,) = committer.handle([new])
    assert isinstance(event, RewriteCommitted)
    assert refused(table, committer, old).reason is ConflictReason.APPLIED_DELETE_GONE


def test_a_conversion_after_the_rewrite_of_its_file_is_refused(
    any_table: Table, committer: Committer
) -> None:
    table = any_table
    path = table.append((1, 1), (2, 1))
    table.delete_ids(1)
    first, second = table.rewrite(), table.convert(path)
    events = committer.handle([first, second])  # one batch: the second is looked at after the first
    assert [type(one) for one in events] == [RewriteCommitted, RewriteConflicted]
    assert table.rows() == [(2, 1)]
    assert leftovers(table, second) == []


@pytest.mark.parametrize("how", ["gone", "another"])
def test_without_its_row_map_nothing_is_converted(
    any_table: Table, committer: Committer, how: str
) -> None:
    table = any_table
    path = table.append((1, 1), (2, 1))
    table.delete_ids(1)
    result = table.convert(path)
    if how == "gone":
        Path(result.row_map.removeprefix("file:")).unlink()
        assert refused(table, committer, result).reason is ConflictReason.OUTPUTS_GONE
    else:
        (group,) = result.groups
        wrong = replace(group, rows_masked=0, rows_out=2)
        result = replace(result, groups=(wrong,))
        assert refused(table, committer, result).reason is ConflictReason.PROOF_FAILED


def test_a_second_delivery_finds_the_first(any_table: Table, committer: Committer) -> None:
    table = any_table
    path = table.append((1, 1), (2, 1))
    table.delete_ids(1)
    result = table.convert(path)
    committed(table, committer, result)
    head = table.head
    (event,) = committer.handle([result])
    assert isinstance(event, RewriteCommitted)
    assert event.redelivered
    assert table.head == head


def test_a_lost_head_is_tried_again_and_leaves_nothing(
    any_table: Table, meddled: Committer, meddler: Any
) -> None:
    """What was written for the first try is written anew: more positions came."""
    table = any_table
    path = table.append((1, 1), (2, 1), (3, 1))
    table.delete_ids(1)
    result = table.convert(path)
    mark = table.delete_rows if table.loaded.format_version == 2 else table.mark_rows
    meddler.before.append(lambda: mark(path, 2))
    (event,) = meddled.handle([result])
    assert isinstance(event, RewriteCommitted), event
    assert table.rows() == [(2, 1)]
    assert marks_of(table) == {normal_path(path): 2}
    assert leftovers(table) == []


def test_a_repair_and_a_conversion_share_a_result(any_table: Table, committer: Committer) -> None:
    table = any_table
    large = table.append((1, 1), (2, 1), (3, 1))
    small = table.append((4, 1), (5, 1))
    table.delete_ids(1, 4)
    result = table.convert(large)
    mark = table.delete_rows if table.loaded.format_version == 2 else table.mark_rows
    mark(small, 1)
    mark(large, 1)
    event = committed(table, committer, result)
    assert (event.classification, event.rows_repaired) == ("repaired", 1)
    assert table.rows() == [(3, 1)]
    assert table.deletes_of(EQUALITY) == []


def test_where_no_row_is_dead_the_deletes_go_all_the_same(
    any_table: Table, committer: Committer
) -> None:
    table = any_table
    path = table.append((1, 1), (2, 1))
    table.delete_ids(9)
    committed(table, committer, table.convert(path))
    assert table.live_deletes() == set()
    assert table.live_data() == {path}
