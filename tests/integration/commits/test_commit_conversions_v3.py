"""A table that was moved from v2 to v3 keeps its position-delete files until vectors say what they
said."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.identity import normal_path
from firnline_domain.records.results import RewriteFinished

from tests.integration.commits.test_commit_conversions import (
    POSITION,
    Committer,
    Table,
    marks_of,
)
from tests.kit.lake.checks import committed

pytestmark = pytest.mark.stack


def alone(table: Table, path: str) -> RewriteFinished:
    """A slice that takes this file and leaves all others as they are."""
    result = table.convert(*table.live_data())
    groups = (one for one in result.groups if path in {file.path for file in one.inputs})
    return replace(result, groups=tuple(groups))


@pytest.mark.parametrize("first", ["converted", "removed"])
def test_shared_position_deletes_go_with_the_last_file_that_they_name(
    table: Table, committer: Committer, first: str
) -> None:
    """One of v2, of two files that come under different slices."""
    path, other = table.append((1, 1), (2, 1), (3, 1)), table.append((8, 1), (9, 1))
    unnamed = table.append((5, 1))
    shared = table.delete_rows_of([(other, 0), (path, 2)])
    table.java.updateProperties().set("format-version", "3").commit()
    if first == "removed":
        table.remove(path)
    else:
        committed(table, committer, alone(table, path))
        assert marks_of(table)[normal_path(path)] == 1
        table.append((7, 1))  # a later file, which it cannot be about
    assert shared in table.live_deletes()
    committed(table, committer, alone(table, other))
    assert table.deletes_of(POSITION) == []
    assert marks_of(table)[normal_path(other)] == 1
    assert unnamed in table.live_data()


def test_a_position_delete_that_names_another_live_file_stays(
    table: Table, committer: Committer
) -> None:
    path, other = table.append((1, 1), (2, 1)), table.append((8, 1), (9, 1))
    shared = table.delete_rows_of([(other, 0), (path, 1)])
    table.java.updateProperties().set("format-version", "3").commit()
    committed(table, committer, alone(table, path))
    assert shared in table.live_deletes()
    assert table.rows() == [(1, 1), (9, 1)]


def test_what_names_no_live_file_goes_with_any_conversion(
    table: Table, committer: Committer
) -> None:
    path, gone = table.append((1, 1), (2, 1)), table.append((8, 1), (9, 1))
    table.delete_rows_of([(gone, 0)])
    table.remove(gone)
    table.java.updateProperties().set("format-version", "3").commit()
    committed(table, committer, alone(table, path))
    assert table.live_deletes() == set()
    assert table.rows() == [(1, 1), (2, 1)]


def test_shared_position_deletes_go_where_one_file_is_rewritten_and_the_other_converted(
    table: Table, committer: Committer
) -> None:
    path, other = table.append((1, 1), (2, 1)), table.append((8, 1), (9, 1))
    table.delete_rows_of([(other, 0), (path, 1)])
    table.java.updateProperties().set("format-version", "3").commit()
    committed(table, committer, table.convert(path))
    assert other not in table.live_data()
    assert table.deletes_of(POSITION) == []
