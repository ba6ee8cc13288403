"""Is an order still to be done? Asked of the history of its ref, before any work.

Marks of finished attempts are in Redis, and gone with it; a record may come again at any time. The
history knows: from its head back to the snapshot that the order was made at, no snapshot may be the
order's commit. Where that way is broken (expired, or rolled back to before the order) nobody can
tell, and the planner, whose counters have moved on as well, decides anew.
"""

from __future__ import annotations

from firnline_domain.errors import TaskRefused
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.results import ALREADY_COMMITTED
from firnline_iceberg.commits import task_ids
from firnline_iceberg.tables import LoadedTable


def refuse_if_over(table: LoadedTable, order: RewriteFiles) -> None:
    """Raises TaskRefused `already_committed` or `trigger_gone`."""
    for snapshot in table.ancestors(table.head_id(order.ref)):
        if order.task_id in task_ids(snapshot.summary):
            text = f"snapshot {snapshot.snapshot_id} is its commit; the committer tells of it"
            raise TaskRefused(ALREADY_COMMITTED, text, retryable=True)
        if snapshot.snapshot_id == order.trigger_snapshot_id:
            return
    text = f"snapshot {order.trigger_snapshot_id} is not in the history of {order.ref} any more"
    raise TaskRefused("trigger_gone", text, retryable=True)
