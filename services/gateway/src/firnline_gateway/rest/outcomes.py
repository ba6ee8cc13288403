"""Outcome of a call: from the catalog's answer, else from its table's present state."""

from __future__ import annotations

from enum import StrEnum
from typing import Any
from urllib.parse import unquote_plus

from firnline_domain.base.values import Value, replace
from firnline_domain.identity import normal_path
from firnline_domain.records.events import RefMoved, SnapshotAdded, TableChange
from firnline_iceberg.table.metadata_json import Metadata, branch_heads, snapshot_in

from firnline_gateway.rest.call import Call
from firnline_gateway.rest.commit_body import PlannedChange
from firnline_gateway.rest.routes import CatalogRoute, levels_of

MAX_BRANCHES = 100  # in one event: main and the newest heads; others at their next commit
SKEW_MS = 300_000  # between the catalog's clock and ours


class CommitOutcome(StrEnum):
    """Outcome of a commit by its HTTP status (REST spec, iceberg-rules 3.4)."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"


def outcome_of(status: int) -> CommitOutcome:
    """Return the outcome of a status: 5xx leaves a commit's state unknown; after 3xx and 4xx it did
    not happen."""
    if 200 <= status < 300:
        return CommitOutcome.ACCEPTED
    return CommitOutcome.UNKNOWN if status >= 500 else CommitOutcome.REFUSED


def prove_change(
    change: PlannedChange, table: Metadata | None, old: Metadata | None
) -> PlannedChange | None:
    """Return the change with its table's uuid if it has certainly happened, else None: not (yet).
    `table` is the table at the change's `path`, `old` the one at its `old_path`; None means that
    the catalog has no such table."""
    if change.change is TableChange.DROPPED:
        return change if change.uuid and not _is_same_table(change, table) else None
    if table is None or not _is_same_table(change, table):
        return None
    if change.change is TableChange.RENAMED:
        return None if old else _with_uuid(change, table)
    if change.snapshots:
        return (
            _with_uuid(change, table)
            if all(_has_snapshot(table, s) for s in change.snapshots)
            else None
        )
    if change.change is not TableChange.COMMITTED:
        return _with_uuid(change, table)
    moved = change.refs or change.expired_snapshot_ids
    return (
        _with_uuid(change, table) if moved and _set_present_heads(change, table) == change else None
    )


def present_state(change: PlannedChange, table: Metadata | None) -> PlannedChange | None:
    """Return the present state of the change's subjects, if nothing can prove the change itself.

    Later commits may have moved the same refs again, and properties leave no trace, so the event
    contains the refs' present heads. None for new snapshots: without a trace they are not there."""
    unprovable = change.change is TableChange.COMMITTED and not change.snapshots
    if not unprovable or table is None or not _is_same_table(change, table):
        return None
    return _with_uuid(_set_present_heads(change, table), table)


def _is_same_table(change: PlannedChange, table: Metadata | None) -> bool:
    return table is not None and change.uuid in (None, table["table-uuid"])


def _with_uuid(change: PlannedChange, table: Metadata) -> PlannedChange:
    return replace(change, uuid=table["table-uuid"])


def _has_snapshot(table: Metadata, new: SnapshotAdded) -> bool:
    """Return whether the snapshot is, or was, in the table. Retained: then it must be the same
    attempt, because clients keep the id when they try again on another parent. Expired: its
    children and the log still name it (Nessie keeps one only)."""
    for kept in table.get("snapshots", []):
        if kept["snapshot-id"] == new.snapshot_id:
            return normal_path(kept.get("manifest-list", "")) == normal_path(new.manifest_list)
        if kept.get("parent-snapshot-id") == new.snapshot_id:
            return True
    return any(row["snapshot-id"] == new.snapshot_id for row in table.get("snapshot-log", []))


def _set_present_heads(change: PlannedChange, table: Metadata) -> PlannedChange:
    """Return the change with the heads that its refs have now, and only the expired snapshots that
    are not in the table."""
    kept = {snapshot["snapshot-id"] for snapshot in table.get("snapshots", [])}
    gone = tuple(expired for expired in change.expired_snapshot_ids if expired not in kept)
    refs = tuple(replace(ref, snapshot_id=_ref_target(ref, table)) for ref in change.refs)
    return replace(change, refs=refs, expired_snapshot_ids=gone)


def _ref_target(ref: RefMoved, table: Metadata) -> int | None:
    """Return the snapshot that a ref points to. Format v1 without `refs` has one branch, main, at
    `current-snapshot-id` (-1: none)."""
    current = table.get("current-snapshot-id")
    refs = table.get("refs") or {"main": {"snapshot-id": None if current == -1 else current}}
    target = refs.get(ref.ref, {}).get("snapshot-id")
    return int(target) if target is not None else None


class TablePlace(Value):
    """A table's raw path, and its names."""

    path: str
    levels: tuple[str, ...]
    name: str


def place_of(call: Call, route: CatalogRoute | None) -> TablePlace | None:
    """Return the table in the call's path; None without one."""
    if route is None or route.namespace is None or route.table is None:
        return None
    levels = levels_of(route.namespace, call.separator)
    return TablePlace(route.path, levels, unquote_plus(route.table))


def observe_table(place: TablePlace, table: Metadata, at_ms: int) -> PlannedChange:
    """Return the table as a change of it: the heads of its branches, and its metadata. `at_ms`:
    when the call arrived. A head from long before that is reported only as the position of its
    branch."""
    heads = branch_heads(table)
    kept = {one["snapshot-id"]: one for one in table.get("snapshots", ())}
    moments = {ref: kept.get(head, {}).get("timestamp-ms", 0) for ref, head in heads.items()}
    branches = sorted(heads, key=lambda ref: (ref != "main", -moments[ref]))[:MAX_BRANCHES]
    new = {heads[ref] for ref in branches if moments[ref] >= at_ms - SKEW_MS and heads[ref] in kept}
    return PlannedChange(
        change=TableChange.COMMITTED,
        path=place.path,
        namespace=place.levels,
        name=place.name,
        uuid=table["table-uuid"],
        snapshots=tuple(snapshot_in(kept[head]) for head in sorted(new)),
        refs=tuple(RefMoved(ref, "branch", heads[ref]) for ref in branches),
        metadata_changed=True,
    )


def touched_since(table: Metadata, at_ms: int) -> bool:
    """Return False if the table was last changed well before that moment."""
    return int(table.get("last-updated-ms", at_ms)) >= at_ms - SKEW_MS


def version_of(table: Metadata) -> tuple[Any, ...]:
    """Return a value that differs between two states of one table."""
    return (
        table["table-uuid"],
        table.get("last-updated-ms"),
        tuple(sorted(branch_heads(table).items())),
    )
