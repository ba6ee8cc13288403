"""What a worker leaves that was killed after its work and before its word: swept by its list."""

from __future__ import annotations

import time

import pytest
from firnline_iceberg.outputs import write_ahead_list
from firnline_iceberg.removal.sweep import OutputSweeper

pytestmark = [pytest.mark.spark, pytest.mark.stack]
AGE_MS = 60_000


def sweeper(tables, after_ms):
    later = int(time.time() * 1000) + after_ms
    return OutputSweeper(tables, lambda: later, AGE_MS, lambda *_: later)


def test_a_worker_that_never_told_of_its_result(lab, rewriter, tables):
    lab.create("id BIGINT")
    lab.insert("(1), (2)")
    lab.insert("(3), (4)")
    lab.equality_delete(["id"], "(1)")
    before, rows = lab.stored(), lab.rows()
    order = lab.order(None)
    result = rewriter.rewrite(order, lambda _: None)
    listed = write_ahead_list.read_list(lab.table().io, result.output_list)
    late_ms = listed.deadline_ms - order.run_ms - listed.written_at_ms  # between two clock reads
    assert 0 <= late_ms < 10_000
    # until the planner takes the partition back, it is in flight
    assert sweeper(tables, AGE_MS + 1_000).sweep(lab.name).skipped_by_reason == {"in_flight": 1}
    swept = sweeper(tables, 3_600_000).sweep(lab.name)
    assert swept.lists == [result.output_list]
    assert lab.stored() == before
    assert lab.rows() == rows


def test_a_committed_result_is_live_and_what_lies_beside_it_goes(lab, rewriter, tables):
    lab.create("id BIGINT")
    lab.insert("(1), (2)")
    lab.insert("(3), (4)")
    lab.equality_delete(["id"], "(1)")
    result = rewriter.rewrite(lab.order(None), lambda _: None)
    lab.commit(result)
    rows = lab.rows()
    swept = sweeper(tables, 3_600_000).sweep(lab.name)
    assert swept.reachable == sum(len(group.outputs) for group in result.groups)
    assert swept.removed == [result.row_map]
    assert lab.rows() == rows == [(2,), (3,), (4,)]
