"""Orders to expire snapshots, and their results."""

from __future__ import annotations

from typing import Any

from firnline_domain.base.values import replace
from firnline_domain.identity import TableName
from firnline_domain.policy.table_action.snapshot_retention import EXPIRE
from firnline_domain.records.orders import ExpireSnapshots
from firnline_domain.records.results import SnapshotsExpired


def expire(
    task_id: str, table: TableName, older_than_ms: int, at_ms: int, **more: Any
) -> ExpireSnapshots:
    order = ExpireSnapshots(
        task_id, table, EXPIRE, "old_snapshots", 1, 1, at_ms, at_ms + 3_600_000,
        older_than_ms=older_than_ms, retain_last=1, protected_snapshot_ids=(),
    )  # fmt: skip
    return replace(order, **more)


def expired(
    task_id: str, table: TableName, gone: int, remaining: int, oldest_ms: int | None, **more: Any
) -> SnapshotsExpired:
    result = SnapshotsExpired(
        task_id, table, EXPIRE, None, "w", 0,
        expired=gone, remaining=remaining, oldest_snapshot_ms=oldest_ms, deleted_files=0,
    )  # fmt: skip
    return replace(result, **more)
