"""A table's metadata as JSON, as catalogs send it: its snapshots, and the heads of its branches."""

from __future__ import annotations

from typing import Any

from firnline_domain.base.values import moment_near
from firnline_domain.records.events import SnapshotAdded

Metadata = dict[str, Any]


def snapshot_in(sent: Metadata) -> SnapshotAdded:
    """Parse a snapshot in the form of the REST spec and of metadata files. Format v1 has neither
    sequence numbers nor, in its oldest form, manifest lists."""
    summary = dict(sent.get("summary") or {})
    return SnapshotAdded(
        snapshot_id=sent["snapshot-id"],
        parent_snapshot_id=sent.get("parent-snapshot-id"),
        sequence_number=sent.get("sequence-number", 0),
        timestamp_ms=moment_near(sent["timestamp-ms"]),
        operation=summary.pop("operation", ""),
        manifest_list=sent.get("manifest-list", ""),
        summary=summary,
    )


def branch_heads(table: Metadata) -> dict[str, int]:
    """Return the snapshot of each branch. Format v1 could do without `refs`: it has one branch,
    main, at `current-snapshot-id` (-1: no snapshot yet)."""
    refs = table.get("refs")
    if not refs:
        current = table.get("current-snapshot-id")
        return {} if current in (None, -1) else {"main": int(current)}
    return {name: ref["snapshot-id"] for name, ref in refs.items() if ref.get("type") != "tag"}
