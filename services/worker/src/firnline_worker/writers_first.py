"""Work of writers that a rewrite of a branch would spoil (H12; docs/architecture.md, rule 8).

After a rewrite of `main`, an audit branch that was ahead of it cannot be fast-forwarded to any
more, and a staged upsert (`wap.id`) not be cherry-picked. Both are left alone until they are old:
an abandoned branch must not stop maintenance for good.
"""

from __future__ import annotations

from firnline_domain.errors import TaskRefused
from firnline_domain.identity import MAIN
from firnline_iceberg.tables import LoadedTable
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from firnline_worker.table_settings import milliseconds

HOLD_OFF = "firnline.rewrite.hold-off-ms"  # table property
HOLD_OFF_MS = 3_600_000
WAP_ID, PUBLISHED = "wap.id", "published-wap-id"


def yield_to_writers(table: LoadedTable, ref: str, now_ms: int) -> None:
    """Raises TaskRefused `open_branch` or `unpublished_wap`, to be tried again later."""
    since_ms = now_ms - milliseconds(table, HOLD_OFF, HOLD_OFF_MS)
    if branch := _branch_ahead(table, ref, since_ms):
        raise TaskRefused("open_branch", f"branch {branch} is ahead of {ref}", retryable=True)
    if staged := _staged(table, since_ms):
        raise TaskRefused("unpublished_wap", f"{WAP_ID} {staged} is not published", retryable=True)


def _branch_ahead(table: LoadedTable, ref: str, since_ms: int) -> str | None:
    """A branch with a young commit on top of the head of `ref`."""
    head = table.head_id(ref)
    for name, other in table.metadata.refs.items():
        if name in (ref, MAIN) or other.snapshot_ref_type is not SnapshotRefType.BRANCH:
            continue
        line = list(table.ancestors(other.snapshot_id))
        ahead = any(one.snapshot_id == head for one in line[1:])
        if ahead and line[0].timestamp_ms > since_ms:
            return name
    return None


def _staged(table: LoadedTable, since_ms: int) -> str | None:
    """The `wap.id` of a young snapshot that no ref has reached yet."""
    reached = [one for r in table.metadata.refs.values() for one in table.ancestors(r.snapshot_id)]
    published = {_said(one, PUBLISHED) for one in reached} | {_said(one, WAP_ID) for one in reached}
    staged = (one for one in table.snapshots if one.timestamp_ms > since_ms)
    ids = (_said(one, WAP_ID) for one in staged)
    return next((wap_id for wap_id in ids if wap_id and wap_id not in published), None)


def _said(snapshot: Snapshot, name: str) -> str | None:
    return snapshot.summary.get(name) if snapshot.summary is not None else None
