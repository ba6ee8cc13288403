"""Samples the commits that are read back through Iceberg's own reader: a share of them, chosen by
the task's id. So a redelivery, another committer or a later year gets the same answer."""

from __future__ import annotations

import hashlib

from firnline_domain.records.events import RewriteCommitted
from firnline_domain.records.orders import CompareRows
from firnline_domain.records.results import Mode

_PARTS = 1 << 32


def is_sampled(task_id: str, share: float) -> bool:
    """Return True for `share` of all ids, 0 to 1."""
    mark = int.from_bytes(hashlib.sha256(task_id.encode()).digest()[:4])
    return mark < share * _PARTS


def order_comparison(event: RewriteCommitted, share: float, now_ms: int) -> CompareRows | None:
    """Return the order to read a commit back; None if it is not sampled, or is Iceberg's own."""
    native = event.mode == Mode.NATIVE and event.snapshot_ids
    if not native or event.scope is None or not is_sampled(event.task_id, share):
        return None
    return CompareRows(
        task_id=event.task_id,
        table=event.table,
        ref=event.ref,
        scope=event.scope,
        snapshot_ids=event.snapshot_ids,
        attempt=1,
        requested_by="committer",
        ordered_at_ms=now_ms,
    )
