from __future__ import annotations

import hashlib

from firnline_committer.background.sampled_comparison import is_sampled, order_comparison
from firnline_domain.base.values import replace
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import RewriteCommitted

EVENT = RewriteCommitted(
    "t1", TableName("u", ("db",), "t"), "main", Scope(0, "[]"), (8, 9), 7,
    2, 1, 0, 0, 9, 9, 3, 1, 2, "native", False, 100,
)  # fmt: skip


def test_a_share_of_the_tasks_always_the_same() -> None:
    ids = [hashlib.sha256(str(n).encode()).hexdigest()[:32] for n in range(5000)]
    chosen = {one for one in ids if is_sampled(one, 0.1)}
    assert 400 < len(chosen) < 600
    assert chosen == {one for one in ids if is_sampled(one, 0.1)}
    assert chosen <= {one for one in ids if is_sampled(one, 0.2)}
    assert not any(is_sampled(one, 0.0) for one in ids)
    assert all(is_sampled(one, 1.0) for one in ids)


def test_native_commits_alone_are_read_back() -> None:
    order = order_comparison(EVENT, 1.0, 5)
    assert order is not None
    assert (order.task_id, order.snapshot_ids, order.scope) == ("t1", (8, 9), Scope(0, "[]"))
    assert order_comparison(EVENT, 0.0, 5) is None
    assert order_comparison(replace(EVENT, mode="handed_over"), 1.0, 5) is None
    assert order_comparison(replace(EVENT, snapshot_ids=()), 1.0, 5) is None
    assert order_comparison(replace(EVENT, scope=None), 1.0, 5) is None
