"""Did a call whose answer we never saw take effect? Judged from the table as it is now."""

from __future__ import annotations

from typing import Any

from firnline_domain.identity import normal_path
from firnline_domain.records.events import RefMoved, SnapshotAdded, TableChange
from firnline_domain.values import replace

from firnline_gateway.commits import PlannedChange

Metadata = dict[str, Any]  # a table's metadata JSON


def seen(
    change: PlannedChange, table: Metadata | None, old: Metadata | None
) -> PlannedChange | None:
    """The change with its table's uuid if it has certainly happened, else None: not (yet).

    `table` is what stands at the change's `path`, `old` what stands at its `old_path`; None
    means that the catalog knows no such table.
    """
    if change.change is TableChange.DROPPED:
        return change if change.uuid and not _is(change, table) else None
    if table is None or not _is(change, table):
        return None
    if change.change is TableChange.RENAMED:
        return None if old else _named(change, table)
    if change.snapshots:
        return _named(change, table) if all(_has(table, s) for s in change.snapshots) else None
    if change.change is not TableChange.COMMITTED:
        return _named(change, table)
    moved = change.refs or change.expired_snapshot_ids
    return _named(change, table) if moved and _facts(change, table) == change else None


def facts(change: PlannedChange, table: Metadata | None) -> PlannedChange | None:
    """What is true of the change's subjects now, where nothing can prove the change itself.

    Later commits may have moved the same refs again, and properties leave no trace, so the
    event says where the refs are. None for new snapshots: without a trace they are not there.
    """
    unprovable = change.change is TableChange.COMMITTED and not change.snapshots
    if not unprovable or table is None or not _is(change, table):
        return None
    return _named(_facts(change, table), table)


def _is(change: PlannedChange, table: Metadata | None) -> bool:
    return table is not None and change.uuid in (None, table["table-uuid"])


def _named(change: PlannedChange, table: Metadata) -> PlannedChange:
    return replace(change, uuid=table["table-uuid"])


def _has(table: Metadata, new: SnapshotAdded) -> bool:
    """True if the snapshot is, or was, in the table.

    Retained: then it must be the same attempt, because clients keep the id when they try again
    on another parent. Expired: its children and the log still name it (Nessie keeps one only).
    """
    for kept in table.get("snapshots", []):
        if kept["snapshot-id"] == new.snapshot_id:
            return normal_path(kept.get("manifest-list", "")) == normal_path(new.manifest_list)
        if kept.get("parent-snapshot-id") == new.snapshot_id:
            return True
    return any(row["snapshot-id"] == new.snapshot_id for row in table.get("snapshot-log", []))


def _facts(change: PlannedChange, table: Metadata) -> PlannedChange:
    kept = {snapshot["snapshot-id"] for snapshot in table.get("snapshots", [])}
    gone = tuple(expired for expired in change.expired_snapshot_ids if expired not in kept)
    refs = tuple(replace(ref, snapshot_id=_target(ref, table)) for ref in change.refs)
    return replace(change, refs=refs, expired_snapshot_ids=gone)


def _target(ref: RefMoved, table: Metadata) -> int | None:
    """Format v1 without `refs` has one branch, main, at `current-snapshot-id` (-1: none)."""
    current = table.get("current-snapshot-id")
    refs = table.get("refs") or {"main": {"snapshot-id": None if current == -1 else current}}
    target = refs.get(ref.ref, {}).get("snapshot-id")
    return int(target) if target is not None else None
