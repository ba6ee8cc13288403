"""Checks a table before any work on an order: whether the order is still due, and may run now.

Stale tasks: the marks of finished attempts are in Redis, and gone with it; a record may come again
at any time. The table's history knows. From the head of the order's ref back to the snapshot that
the order was made at, no snapshot may be the order's commit. Where that way is broken (expired, or
rolled back to before the order) nobody can tell, and the planner, whose counters have moved on as
well, decides anew. A catalog that hides the way leaves its traces: what the head lists of the
snapshot that the order was made at, and files that this very task has written.

Writers' work that a rewrite would spoil (open-branch hazard, H12): after a rewrite of `main`, an
audit branch that was ahead of it cannot be fast-forwarded any more, and a staged upsert (`wap.id`)
not be cherry-picked. Both are left alone until they are old: an abandoned branch must not stop
maintenance for good."""

from __future__ import annotations

from collections.abc import Callable

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.times import CLOCKS_DIFFER_MS, HOUR_MS
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import MAIN
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.aged_partitions import AgeReason
from firnline_domain.policy.table_action.upgrade_format import FormatReason
from firnline_domain.records.orders import RewriteFiles, TableOrder
from firnline_domain.records.results import ALREADY_COMMITTED
from firnline_iceberg.commit.hidden_history import KnownAncestries, find_traces, hides_history
from firnline_iceberg.commit.rewrite import task_ids
from firnline_iceberg.outputs.names import run_of
from firnline_iceberg.scan.planning import LiveFiles
from firnline_iceberg.storage.paths import file_name
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from firnline_worker.plan.planning import property_ms

GRACE_H = 24.0  # of an order that does not say
GRACE_PROPERTIES = {
    AgeReason.PARTITIONS_GRACE: "firnline.partitions.grace-ms",
    AgeReason.ARCHIVE_GRACE: "firnline.partitions.grace-ms",
    FormatReason.FORMAT_GRACE: "firnline.format-version.grace-ms",
}
Live = Callable[[], LiveFiles]


def in_grace_period(
    order: TableOrder, grace_ms: int, waits: ReasonCode, now_ms: int
) -> tuple[str, str] | None:
    """Return why an action that the owner has set may not run yet: it was announced too short a
    time ago, or never. An announcement does not wait, nor does an order that a person requested.
    `waits`: one of GRACE_PROPERTIES."""
    if order.numbers.get("announces") or order.reason == Reason.REQUESTED:
        return None
    if not 0 < order.numbers.get("announced_ms", 0.0) <= now_ms - grace_ms:
        return waits, f"it was not announced so long ago ({GRACE_PROPERTIES[waits]})"
    return None


def ordered_grace_ms(order: TableOrder) -> int:
    """Read the grace period that the planner goes by: a deployment's default is in no property."""
    return round(order.numbers.get("grace_h", GRACE_H) * HOUR_MS)


def refuse_stale(
    table: LoadedTable, order: RewriteFiles, live: Live, lineages: KnownAncestries | None = None
) -> None:
    """Raise TaskRefused `already_committed` or `trigger_gone`; raises as `live` does. `live`: the
    head's files, `lineages`: what earlier reads have found, if its history is hidden."""
    for snapshot in table.ancestors(table.head_id(order.ref)):
        if order.task_id in task_ids(snapshot.summary, order.table.uuid):
            text = f"snapshot {snapshot.snapshot_id} is its commit; the committer tells of it"
            raise TaskRefused(ALREADY_COMMITTED, text, retryable=True)
        if snapshot.snapshot_id == order.trigger_snapshot_id:
            return
    head = table.head_id(order.ref)
    if head is not None and _is_behind(table, head, order, live, lineages):
        return
    text = f"snapshot {order.trigger_snapshot_id} is not in the history of {order.ref} any more"
    raise TaskRefused("trigger_gone", text, retryable=True)


def _is_behind(
    table: LoadedTable, head: int, order: RewriteFiles, live: Live, lineages: KnownAncestries | None
) -> bool:
    """Return whether the order was made on the way to a head whose history is hidden. One whose
    files were replaced again since its commit is carried out once more, which does no harm."""
    if not hides_history(table, head):
        return False
    files = live()
    entries = (*files.data, *files.deletes)
    key, task = table.identity.key, order.task_id
    if any(run_of(key, task, file_name(entry.path)) for entry in entries):
        text = f"snapshot {head} has files of it; the committer tells of it"
        raise TaskRefused(ALREADY_COMMITTED, text, retryable=True)
    trigger = order.trigger_snapshot_id
    return trigger in find_traces(table, head, frozenset({trigger}), entries, lineages)


HOLD_OFF = "firnline.rewrite.hold-off-ms"  # table property
HOLD_OFF_MS = 3_600_000
WAP_ID, PUBLISHED = "wap.id", "published-wap-id"


def yield_to_writers(table: LoadedTable, ref: str, now_ms: int) -> None:
    """Raise TaskRefused `open_branch` or `unpublished_wap`, to be tried again later."""
    hold_ms = property_ms(table, HOLD_OFF, HOLD_OFF_MS)

    def is_recent(one: Snapshot) -> bool:
        """Return False also for a snapshot that a writer's clock has dated far ahead."""
        return now_ms - hold_ms < one.timestamp_ms <= now_ms + max(hold_ms, CLOCKS_DIFFER_MS)

    if branch := _branch_ahead(table, ref, is_recent):
        raise TaskRefused("open_branch", f"branch {branch} is ahead of {ref}", retryable=True)
    if staged := _staged_wap_id(table, is_recent):
        raise TaskRefused("unpublished_wap", f"{WAP_ID} {staged} is not published", retryable=True)


def _branch_ahead(
    table: LoadedTable, ref: str, is_recent: Callable[[Snapshot], bool]
) -> str | None:
    """Return a branch whose head is recent and descends from the head of `ref`; None if there is
    none."""
    head = table.head_id(ref)
    for name, other in table.metadata.refs.items():
        if name in (ref, MAIN) or other.snapshot_ref_type is not SnapshotRefType.BRANCH:
            continue
        line = list(table.ancestors(other.snapshot_id))
        ahead = any(one.snapshot_id == head for one in line[1:])
        if ahead and is_recent(line[0]):
            return name
    return None


def _staged_wap_id(table: LoadedTable, is_recent: Callable[[Snapshot], bool]) -> str | None:
    """Return the `wap.id` of a recent snapshot that no ref has reached yet; None if there is
    none."""
    reached = [one for r in table.metadata.refs.values() for one in table.ancestors(r.snapshot_id)]
    published = {_summary_value(one, PUBLISHED) for one in reached} | {
        _summary_value(one, WAP_ID) for one in reached
    }
    ids = (_summary_value(one, WAP_ID) for one in table.snapshots if is_recent(one))
    return next((wap_id for wap_id in ids if wap_id and wap_id not in published), None)


def _summary_value(snapshot: Snapshot, name: str) -> str | None:
    return snapshot.summary.get(name) if snapshot.summary is not None else None
