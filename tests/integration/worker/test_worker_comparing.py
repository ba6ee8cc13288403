"""What a commit replaced is read back through Spark's Iceberg reader, and found equal, or not."""

from __future__ import annotations

import dataclasses
import json

import pytest
from firnline_domain.base.values import replace
from firnline_domain.records.orders import CompareRows
from firnline_iceberg.commit.rewrite import task_ids
from firnline_iceberg.scan.planning import live_files
from firnline_worker.rewrite import compare_rows
from firnline_worker.rewrite.compare_rows import Comparer

from tests.kit.long_run import mark_long

pytestmark = [pytest.mark.spark, pytest.mark.stack]


@pytest.fixture
def comparer(tables, java):
    return Comparer(tables, java, "w1", 1 << 26, lambda: 7)


def order_of(lab, result):
    table = lab.table()
    uuid = table.identity.uuid
    mine = [s for s in table.snapshots if result.task_id in task_ids(s.summary, uuid)]
    ids = tuple(s.snapshot_id for s in sorted(mine, key=lambda one: one.sequence_number))
    return CompareRows(
        result.task_id, table.identity, result.ref, result.scope, ids, 1, "committer", 1
    )


def upserts(lab, version="2"):
    """Two partitions; in both rows that equality deletes, and in one that a position delete
    took out. Columns that Spark's hash does not take, or that break a name put in as it is."""
    lab.create(
        "id BIGINT, m MAP<STRING, ARRAY<INT>>, `odd ``name` DOUBLE",
        "PARTITIONED BY (bucket(2, id))",
        **{"format-version": version, "write.delete.mode": "merge-on-read"},
    )
    for start in range(3):
        rows = [f"({n}, MAP('a', ARRAY({n})), CAST('NaN' AS DOUBLE))" for n in range(start, 8)]
        lab.insert(", ".join(rows))
    lab.sql("DELETE FROM {t} WHERE id = 3")
    for scope in lab.scopes():
        lab.equality_delete(["id"], "(4), (5), (6)", partition=json.loads(scope.partition))
    return lab.scopes()[0]


@pytest.mark.parametrize("version", mark_long(["2", "3"], but=["3"]))
def test_a_commit_is_equal_to_what_it_replaced(lab, rewritten, comparer, version):
    result = rewritten(upserts(lab, version))
    found = comparer.compare(order_of(lab, result))
    assert (found.outcome, found.reason, found.detail) == ("equal", None, "")
    assert found.before == found.after
    assert found.before.rows == sum(group.rows_out for group in result.groups) > 0


@pytest.mark.parametrize("version", mark_long(["2", "3"], but=["3"]))
def test_a_conversion_is_equal_to_what_the_deletes_said(lab, rewritten, comparer, version):
    """No data file goes or comes: those are read whose deletes were exchanged."""
    scope = upserts(lab, version)
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.target-file-size-bytes' = '1000')")
    result = rewritten(scope, action="convert", min_dead_ratio=1.0)
    assert all(group.converts for group in result.groups)
    assert sum(group.rows_masked for group in result.groups) > 0
    found = comparer.compare(order_of(lab, result))
    assert (found.outcome, found.detail) == ("equal", "")
    assert found.before.rows > 0
    files = live_files(lab.table(), lab.table().head_id("main")).files_of_scope(scope)
    live = {delete.kind.value for file in files for delete in file.deletes}
    assert live == {"position" if version == "2" else "deletion_vector"}


@pytest.mark.parametrize("version", mark_long(["2", "3"], but=["3"]))
def test_a_changed_value_is_found(lab, rewritten, comparer, version, monkeypatch):
    """The rewrite is right; what is read of it is not: one value, or one row's id, is another."""
    order = order_of(lab, rewritten(upserts(lab, version)))
    sums_of, seen = compare_rows.sums_of, []
    column = "_row_id" if version == "3" else "id"

    def other(frame):
        seen.append(column)
        old_side = len(seen) == 1
        return sums_of(frame if old_side else frame.withColumn(column, frame[column] + 1))

    monkeypatch.setattr(compare_rows, "sums_of", other)
    found = comparer.compare(order)
    assert (found.outcome, found.reason) == ("differ", "rows_differ")
    assert found.before.rows == found.after.rows
    assert str(found.before.hash_sum) in found.detail


def test_a_row_that_a_writer_deleted_meanwhile_is_on_neither_side(
    lab, rewriter, committer, comparer
):
    """The repaired commit is held against its parent, which has the concurrent delete."""
    scope = upserts(lab)
    result = rewriter.rewrite(lab.order(scope), lambda _: None)
    lab.sql("DELETE FROM {t} WHERE id IN (1, 2)")
    (event,) = committer.commit_all([result])
    assert event.rows_repaired > 0
    found = comparer.compare(order_of(lab, result))
    assert found.outcome == "equal", found.detail
    assert found.before.rows == sum(g.rows_out for g in result.groups) - event.rows_repaired


def test_what_is_not_compared_says_why(lab, rewritten, comparer, monkeypatch):
    order = order_of(lab, rewritten(upserts(lab)))
    small = dataclasses.replace(comparer, max_bytes=1)
    assert small.compare(order).reason == "too_large"
    gone = replace(order, snapshot_ids=(4711,))
    assert comparer.compare(gone).reason == "snapshot_gone"
    assert comparer.compare(replace(order, snapshot_ids=())).reason == "snapshot_gone"
    monkeypatch.setattr(compare_rows, "MAX_DELETED_ROWS", 1)
    assert comparer.compare(order).reason == "too_many_deletes"
    lab.sql("DROP TABLE {t}")
    assert comparer.compare(order).reason == "table_gone"
