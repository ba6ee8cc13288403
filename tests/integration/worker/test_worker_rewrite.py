"""A native rewrite leaves exactly the rows that Spark read before it."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def rewritten(lab, rewriter, scope=None):
    """Run one order and commit its result; started snapshots are noted on the way."""
    noted = []
    result = rewriter.rewrite(lab.order(scope), noted.append)
    assert noted == [result.start_snapshot_id]
    assert result.mode == "native", result.handover_reason
    before = lab.rows()
    lab.commit(result)
    assert lab.rows() == before
    return result


def test_equality_deletes_with_nulls_composite_keys_and_two_id_sets(lab, rewriter):
    lab.create("id BIGINT, name STRING, v INT")
    lab.insert("(1, 'a', 1), (2, 'b', 1), (NULL, 'c', 1), (4, NULL, 1), (5, 'e', 1)")
    lab.equality_delete(["id"], "(1), (NULL)", rows="(1, 'a', 2)")
    lab.equality_delete(["id", "name"], "(4, NULL), (5, 'x'), (2, NULL)")
    lab.equality_delete(["name"], "('e')", rows="(6, 'e', 3)")
    expected = [(1, "a", 2), (2, "b", 1), (6, "e", 3)]
    assert lab.rows() == expected
    result = rewritten(lab, rewriter)
    assert lab.rows() == expected
    assert sum(g.rows_in for g in result.groups) == 7
    assert sum(g.rows_masked for g in result.groups) == 4
    assert len(result.groups) == 2  # the whole table: never one rewrite alone (#10312)
    assert {a.equality_ids for a in result.applied_deletes} == {(1,), (1, 2), (2,)}
