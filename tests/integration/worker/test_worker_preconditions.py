"""What is asked of a table before a rewrite: is the order still to be done, may it be done now?"""

from __future__ import annotations

import pytest
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import Scope

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def refusal(rewriter, order):
    with pytest.raises(TaskRefused) as refused:
        rewriter.rewrite(order, lambda _: None)
    assert refused.value.retryable
    return refused.value.reason


def test_main_waits_for_a_branch_that_is_ahead_of_it(lab, rewriter):
    """Open-branch hazard (H12): after a rewrite of main it could not be fast-forwarded any more."""
    lab.create("id BIGINT")
    lab.insert("(1)")
    lab.equality_delete(["id"], "(1)", rows="(2)")
    lab.sql("ALTER TABLE {t} CREATE BRANCH audit")
    assert rewriter.rewrite(lab.order(), lambda _: None).groups  # level with main: nothing to lose
    lab.sql("INSERT INTO {t}.branch_audit VALUES (3)")
    assert refusal(rewriter, lab.order()) == "open_branch"
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('firnline.rewrite.hold-off-ms' = '0')")
    assert rewriter.rewrite(lab.order(), lambda _: None).groups  # it is old by now


def test_main_waits_for_a_staged_commit(lab, rewriter):
    lab.create("id BIGINT", **{"write.wap.enabled": "true"})
    lab.insert("(1)")
    lab.equality_delete(["id"], "(1)", rows="(2)")
    lab.spark.conf.set("spark.wap.id", "audit")
    try:
        lab.insert("(3)")
    finally:
        lab.spark.conf.unset("spark.wap.id")
    assert refusal(rewriter, lab.order()) == "unpublished_wap"
    lab.sql("CALL lake.system.publish_changes('{t}', 'audit')")
    assert rewriter.rewrite(lab.order(), lambda _: None).groups


def test_a_missing_ref_is_refused(lab, rewriter):
    lab.create("id BIGINT")
    lab.insert("(1)")
    with pytest.raises(TaskRefused) as refused:
        rewriter.rewrite(lab.order(Scope(0, "[]"), ref="nowhere"), lambda _: None)
    assert refused.value.reason == "ref_gone"


def test_an_order_that_was_committed_is_not_done_again(lab, rewriter):
    lab.create("id BIGINT")
    lab.insert("(1)")
    lab.equality_delete(["id"], "(1)", rows="(2)")
    order = lab.order()
    lab.commit(rewriter.rewrite(order, print))
    lab.equality_delete(["id"], "(2)", rows="(3)")
    with pytest.raises(TaskRefused) as again:
        rewriter.rewrite(order, print)
    assert (again.value.reason, again.value.retryable) == ("already_committed", True)
    name = f"{lab.namespace}.t"
    lab.sql(f"CALL lake.system.expire_snapshots('{name}', TIMESTAMP '2100-01-01')")
    with pytest.raises(TaskRefused) as later:
        rewriter.rewrite(order, print)
    assert (later.value.reason, later.value.retryable) == ("trigger_gone", True)
    lab.commit(rewriter.rewrite(lab.order(), print))  # an order of now is done
    assert lab.rows() == [(3,)]


def test_an_order_whose_snapshot_was_rolled_back_is_of_another_time(lab, rewriter):
    lab.create("id BIGINT")
    lab.insert("(1)")
    kept = lab.table().head_id("main")
    lab.insert("(2)")
    order = lab.order()
    lab.sql(f"CALL lake.system.rollback_to_snapshot('{lab.namespace}.t', {kept})")
    with pytest.raises(TaskRefused) as gone:
        rewriter.rewrite(order, print)
    assert gone.value.reason == "trigger_gone"
